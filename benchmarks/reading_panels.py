"""Ways of reading denied findings on labelled panels.

    python benchmarks/reading_panels.py NAME=PANEL:CASES[:OUTSIDE]…

Writes results/reading/panels.json: accuracy among the labels, ECE and out-of-class AUROC of each panel under
every way of reading (`simdx.reading.as_read`), the difference to `plain` with its standard error over cases,
and the way that the bank chooses. The library is left out, so that only the reading differs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx import __version__
from simdx.bank.files import packaged_bank
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.methods.calibration import rehearse, scores_of
from simdx.methods.panel_data import RECIPE_VERSION
from simdx.methods.reading_choice import choose_reading
from simdx.metrics.calibration import ece
from simdx.metrics.scores import ood_auroc
from simdx.panels import load_source
from simdx.reading import WAYS

OUT = Path(__file__).resolve().parent.parent / "results" / "reading" / "panels.json"


def measured(panel: str, cases: str, outside: str | None) -> dict[str, Any]:
    source = load_source(panel)
    bank, chosen = packaged_bank(source), replace(source.panel, world=False)
    asked = read_cases(Path(cases), labels=chosen.names)
    truth = asked.label_index(chosen.names)
    others = [] if outside is None else list(read_cases(Path(outside), labelled=False).texts)
    rows: dict[str, Any] = {}
    right: dict[str, Any] = {}
    for way in WAYS:
        data = PanelData.prepare(chosen, bank, get_embedder(chosen.embedder), reading=way)
        data = replace(data, calibration=rehearse(data))
        assert data.calibration is not None
        inside = scores_of(data, data.observe(asked.texts), truth)
        among = inside.posterior(replace(data.calibration, outside=None))
        right[way] = among.argmax(axis=1) == truth
        moved = right[way].astype(float) - right["plain"]
        none = inside.outside(data.calibration)
        auroc = None
        if others and none is not None:
            beyond = scores_of(data, data.observe(others)).outside(data.calibration)
            assert beyond is not None
            auroc = ood_auroc(none, beyond).value
        rows[way] = {
            "accuracy": round(float(right[way].mean()), 4),
            "ece": round(float(ece(among, truth).value or 0), 4),
            "auroc": None if auroc is None else round(auroc, 4),
            "difference": round(float(moved.mean()), 4),
            "standard_error": round(float(moved.std() / np.sqrt(len(moved))), 4),
        }
    return {"n": len(truth), "chosen": choose_reading(bank), "ways": rows}


def main() -> None:
    panels = {}
    for said in sys.argv[1:]:
        name, _, files = said.partition("=")
        panel, cases, *outside = files.split(":")
        panels[name] = measured(panel, cases, outside[0] if outside else None)
        print(name, json.dumps(panels[name]), flush=True)
        record = {
            "command": "python benchmarks/reading_panels.py NAME=PANEL:CASES[:OUTSIDE]…",
            "version": __version__,
            "recipe": RECIPE_VERSION,
            "embedder": "the panel's own",
            "panels": panels,
        }
        OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
