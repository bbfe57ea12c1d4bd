"""A model asked in all four ways about cases that belong to no label of the panel.

    SIMDX_DATA=… python benchmarks/asking_outside.py --simulator hf:qwen2.5-coder-1.5b --out FOLDER

One record per panel and way of asking, in the form of the experiments' cells, for the paper's table of
out-of-class entropies. At most --most cases of a panel, chosen with seed 0; records that are there are kept.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.baselines.asking import ASKING
from simdx.baselines.interview import Asking
from simdx.embedders import get_embedder
from simdx.experiments.cells import subset
from simdx.experiments.paper.world import read_panel
from simdx.experiments.records import FORMAT, read_record, versions, write_record
from simdx.fitting import fit_method
from simdx.methods import Material, Settings
from simdx.panels.load import PACKAGED


def ask_panel(panel: str, simulator: str, most: int, out: Path) -> None:
    cases = read_panel(panel, None, None, Path(os.environ["SIMDX_DATA"]))
    if cases.outside is None:
        return
    chosen = subset(cases.outside, most, 0)
    embedder = get_embedder(cases.source.panel.embedder)
    material = Material.prepare(cases.source.panel, packaged_bank(cases.source), embedder)
    model = simulator.removeprefix("hf:")
    for method in ASKING:
        slug = f"{panel.replace('-', '_')}-{method}-outside-{model}"
        if read_record(out, slug) is not None:
            continue
        infer = fit_method(
            material, Settings(method=method, simulator=simulator, replies=str(out / "replies"))
        )
        assert isinstance(infer, Asking)
        asked = infer.ask(material.observe(chosen.texts), None)
        posterior = infer.answer(asked, Prior.uniform(len(cases.names)))
        p = np.asarray(posterior.probabilities, dtype=float)
        record = {
            "format": FORMAT,
            "experiment": f"asking-outside-{model}",
            "status": "done",
            "cell": {
                "simulator": simulator,
                "embedder": None,
                "panel": {"panel": panel, "data": "out of class"},
                "bank": {"name": "reference"},
                "method": {"method": method},
                "seed": 0,
            },
            "models": {
                "simulator": infer.simulator.id,
                "embedder": embedder.id,
                "bank": material.bank.name,
            },
            "data": {
                "name": f"{panel}, out of class",
                "n": len(chosen.cases),
                "of": len(cases.outside.cases),
                "subset_seed": 0 if len(chosen.cases) < len(cases.outside.cases) else None,
            },
            "versions": versions(),
            "labels": list(cases.names),
            "asking": asked.report(),
            "rows": {
                "id": [case.id for case in chosen.cases],
                "posterior": p.round(6).tolist(),
                "carried_by": np.asarray(posterior.effective_simulations, float).round(3).tolist(),
            },
        }
        write_record(out, slug, record)
        print(slug, asked.report(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulator", required=True)
    parser.add_argument("--panel", choices=PACKAGED, action="append")
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    for panel in args.panel or PACKAGED:
        ask_panel(panel, args.simulator, args.most, args.out)


if __name__ == "__main__":
    main()
