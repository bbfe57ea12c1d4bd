"""What centring on unlabelled cases (`--unlabelled`) is worth: half of the cases set it, half are asked.

    python benchmarks/unlabelled_centre.py --out results/real_cases

The halves are drawn at random, labels ignored, five times. Out-of-class cases are split likewise and a tenth
of their half joins the centre: whoever collects unlabelled cases collects some of those too. Reporting only;
the option is off by default.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from simdx import Classifier
from simdx.datasets import read_cases
from simdx.experiments.records import current_commit
from simdx.metrics import auroc, evaluate_probabilities

FILES = {
    "oral-lesions": ("oral/vignettes.jsonl", "oral/ood.jsonl"),
    "symptom-to-diagnosis": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "case-reports": ("pmc/cases.jsonl", "pmc/ood.jsonl"),
}
REPEATS = 5
SOME_OUTSIDE = 0.1


def halves(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    order = rng.permutation(n)
    return order[: n // 2], order[n // 2 :]


def figures(
    classifier: Classifier, texts: list[str], truth: np.ndarray, others: list[str]
) -> dict[str, float]:
    inside, outside = (classifier.infer_batch(t) for t in (texts, others))
    found = evaluate_probabilities(inside.posterior, truth)
    both = np.concatenate([inside.out_of_class, outside.out_of_class])
    area = auroc(both, np.arange(len(both)) >= len(texts)).value
    return {name: float(found[name]) for name in ("accuracy", "ece", "nll")} | {"ood_auroc": area}


def panel_rows(name: str, data: Path) -> list[dict[str, Any]]:
    plain = Classifier(name)
    cases = read_cases(data / FILES[name][0], labels=plain.panel.names).cases
    others = read_cases(data / FILES[name][1], labelled=False).texts
    position = {label: i for i, label in enumerate(plain.panel.names)}
    rng = np.random.default_rng(0)
    rows = []
    for repeat in range(REPEATS):
        (seen, asked), (seen_out, asked_out) = halves(len(cases), rng), halves(len(others), rng)
        some = seen_out[: round(SOME_OUTSIDE * len(seen_out))]
        unlabelled = [cases[i].text for i in seen] + [others[i] for i in some]
        texts = [cases[i].text for i in asked]
        truth = np.array([position[str(cases[i].label)] for i in asked])
        outside = [others[i] for i in asked_out]
        centred = Classifier(name, unlabelled=unlabelled)
        rows.append(
            {
                "repeat": repeat,
                "n": len(texts),
                "bank": figures(plain, texts, truth, outside),
                "unlabelled": figures(centred, texts, truth, outside),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/real_cases"))
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "command": "python benchmarks/unlabelled_centre.py",
        "commit": current_commit(),
        "embedder": "wordllama",
        "panels": {},
    }
    for name in FILES:
        rows = panel_rows(name, arguments.data)
        means = {
            centre: {k: float(np.mean([row[centre][k] for row in rows])) for k in rows[0]["bank"]}
            for centre in ("bank", "unlabelled")
        }
        record["panels"][name] = {"mean": means, "repeats": rows}
        print(
            name,
            json.dumps({c: {k: round(v, 4) for k, v in m.items()} for c, m in means.items()}),
            flush=True,
        )
    (arguments.out / "unlabelled.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
