"""What real cases known to be none of the labels are worth (`--real` with the label `none of these`).

    OMP_NUM_THREADS=1 python benchmarks/outside_cases.py --out results/real_cases

Some cases of every label and some out-of-class cases are drawn and given with their labels; half of the
cases and half of the out-of-class cases, never drawn from, are asked. Five draws, default install. Beside the
figures of `simdx evaluate --ood`, the entropy share that the best threshold on the out-of-class probability
would give for a tenth of a bit in class, chosen on the very cases: what no calibration of it can pass.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from archive import DRAWS, FILES, NAMES, figures
from archive_choice import Remembered

from simdx import Classifier
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.experiments.records import current_commit
from simdx.methods import AnswerTable
from simdx.methods.real import NONE_OF_THESE
from simdx.types import Case, entropy_bits

SETUPS = ((0, 0), (5, 0), (5, 10), (5, 30), (10, 60), (20, 100))  # cases per label, out-of-class cases
SHOWN = (*NAMES, "best_threshold")


def best_threshold(inside: AnswerTable, outside: AnswerTable, most: float) -> float:
    """Share of the most entropy outside for a tenth of a bit inside; above the bar, answer the prior."""
    assert inside.out_of_class is not None
    assert outside.out_of_class is not None
    own, other = entropy_bits(inside.posterior_in_class), entropy_bits(outside.posterior_in_class)
    best = 0.0
    for bar in np.unique(np.concatenate([inside.out_of_class, outside.out_of_class])):
        if np.where(inside.out_of_class > bar, most - own, 0).mean() <= 0.1:
            best = max(best, float(np.where(outside.out_of_class > bar, most, other).mean() / most))
    return best


def of_panel(panel: str, data: Path) -> dict[str, Any]:
    model = Remembered(get_embedder("wordllama"))
    names = Classifier(panel, embedder=model).panel.names
    cases = read_cases(data / FILES[panel][0], labels=names).cases
    others = read_cases(data / FILES[panel][1], labelled=False).texts
    position = {label: i for i, label in enumerate(names)}
    setups = []
    for per_label, from_outside in SETUPS:
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(DRAWS):
            order, outside = rng.permutation(len(cases)), rng.permutation(len(others))
            drawn, asked = order[: len(order) // 2], order[len(order) // 2 :]
            real = [
                cases[i] for name in names for i in [j for j in drawn if cases[j].label == name][:per_label]
            ]
            half = len(outside) // 2
            real += [Case(others[i], label=NONE_OF_THESE) for i in outside[: min(from_outside, half)]]
            classifier = Classifier(panel, embedder=model, real_cases=real)
            texts = [cases[i].text for i in asked]
            truth = np.array([position[str(cases[i].label)] for i in asked])
            rest = [others[i] for i in outside[half:]]
            found = figures(classifier, texts, truth, rest)
            answers = (classifier.infer_batch(t) for t in (texts, rest))
            found["best_threshold"] = best_threshold(*answers, most=float(np.log2(len(names))))
            rows.append(found | {"given_outside": min(from_outside, half)})
        mean = {name: float(np.nanmean([row[name] for row in rows])) for name in SHOWN}
        setups.append(
            {
                "per_label": per_label,
                "outside": rows[0]["given_outside"],
                "mean": mean,
                "draws": [without_nan(row) for row in rows],
            }
        )
        print(
            panel, per_label, rows[0]["given_outside"], {k: round(v, 3) for k, v in mean.items()}, flush=True
        )
    return {"panel": panel, "setups": setups}


def without_nan(row: dict[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in row.items()}


def page(record: dict[str, Any]) -> str:
    """The record as a table."""
    lines = [
        "# Real cases of none of the labels",
        "",
        f"`{record['command']}`, commit {record['commit']}, wordllama.",
        "So many real cases per label and so many known to be none of them are given; half of both kinds,",
        f"not drawn from, is asked. Means of {record['draws']} draws. The last column: what the best",
        "threshold, chosen on the very cases, would give for a tenth of a bit.",
        "",
        "| panel | per label | outside | accuracy | ECE | error AUROC | out-of-class AUROC |"
        " entropy share outside | in-class rise, bits | entropy share, best threshold |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for found in record["panels"]:
        for setup in found["setups"]:
            cells = " | ".join(f"{setup['mean'][name]:.3f}" for name in SHOWN if name != "nll")
            lines.append(f"| {found['panel']} | {setup['per_label']} | {setup['outside']} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/real_cases"))
    arguments = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(of_panel, FILES, [arguments.data] * len(FILES)))
    record = {
        "command": "python benchmarks/outside_cases.py",
        "commit": current_commit(),
        "draws": DRAWS,
        "panels": found,
    }
    (arguments.out / "outside_cases.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / "outside_cases.md").write_text(page(record))


if __name__ == "__main__":
    main()
