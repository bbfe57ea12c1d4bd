"""What an archive of unlabelled cases (`--unlabelled`) is worth on labelled cases.

    OMP_NUM_THREADS=1 python benchmarks/archive.py --out results/real_cases

The archive is drawn from the cases, labels ignored, and some of its texts are out-of-class ones: whoever
collects unlabelled cases collects some of those too. What it does not hold is asked, with and without it.
`own` is one file in both places: all cases are the archive (a tenth of it from outside) and all are asked,
each by a fit without its fold. Reporting only; the option is off by default, and its constants were chosen on
simulated text (benchmarks/archive_choice.py).
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from archive_choice import Remembered

from simdx import Classifier
from simdx.datasets import read_cases
from simdx.embedders import get_embedder
from simdx.experiments.records import current_commit
from simdx.metrics import auroc, evaluate_probabilities
from simdx.types import entropy_bits

FILES = {
    "oral-lesions": ("oral/vignettes.jsonl", "oral/ood.jsonl"),
    "symptom-to-diagnosis": ("sd/cases.jsonl", "sd/ood.jsonl"),
    "case-reports": ("pmc/cases.jsonl", "pmc/ood.jsonl"),
}
EMBEDDERS = ("wordllama", "wordllama+minilm")
# (texts of labels in the archive, share of the archive from outside); None: half of the cases
SETUPS: tuple[tuple[int | None, float], ...] = ((None, 0.0), (None, 0.1), (None, 0.3), (100, 0.1), (30, 0.1))
DRAWS = 5
NAMES = ("accuracy", "ece", "nll", "error_auroc", "ood_auroc", "entropy_share", "in_class_rise_bits")


def figures(
    classifier: Classifier, texts: list[str], truth: np.ndarray, others: list[str]
) -> dict[str, float]:
    inside, outside = (classifier.infer_batch(t) for t in (texts, others))
    found = evaluate_probabilities(inside.posterior, truth)
    assert inside.out_of_class is not None
    assert outside.out_of_class is not None
    both = np.concatenate([inside.out_of_class, outside.out_of_class])
    rise = inside.entropy_bits - entropy_bits(inside.posterior_in_class)
    # without a single error there is no error AUROC
    plain = {name: found[name] for name in ("accuracy", "ece", "nll", "error_auroc")}
    return {name: float("nan") if value is None else float(value) for name, value in plain.items()} | {
        "ood_auroc": auroc(both, np.arange(len(both)) >= len(texts)).value,
        "entropy_share": float(outside.entropy_bits.mean() / np.log2(len(classifier.panel.names))),
        "in_class_rise_bits": float(rise.mean()),
    }


def of_panel(panel: str, embedder: str, data: Path) -> dict[str, Any]:
    model = Remembered(get_embedder(embedder))
    plain = Classifier(panel, embedder=model)
    cases = read_cases(data / FILES[panel][0], labels=plain.panel.names).cases
    others = read_cases(data / FILES[panel][1], labelled=False).texts
    position = {label: i for i, label in enumerate(plain.panel.names)}
    texts = [case.text for case in cases]
    truth = np.array([position[str(case.label)] for case in cases])
    setups = []
    for size, share in SETUPS:
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(DRAWS):
            order, outside = rng.permutation(len(cases)), rng.permutation(len(others))
            known = min(size or len(order) // 2, len(order) // 2)
            half = len(outside) // 2
            some = min(round(known * share / (1 - share)), half)  # asked are always the other half
            archive = [texts[i] for i in order[:known]] + [others[i] for i in outside[:some]]
            asked = order[len(order) // 2 :]
            arguments = [texts[i] for i in asked], truth[asked], [others[i] for i in outside[half:]]
            taught = Classifier(panel, embedder=model, unlabelled=archive)
            rows.append(
                {
                    "from_outside": some / len(archive),
                    "without": figures(plain, *arguments),
                    "with": figures(taught, *arguments),
                }
            )
        setups.append({"archive": known, "share": share, **means(rows), "draws": rows})
        print(panel, embedder, known, share, *(line(setups[-1][k]) for k in ("without", "with")), flush=True)
    drawn = np.random.default_rng(0).permutation(len(others))[: round(len(texts) / 9)]
    taught = Classifier(panel, embedder=model, unlabelled=[*texts, *(others[i] for i in drawn)])
    own = {"n": len(texts), "from_outside": len(drawn) / (len(texts) + len(drawn))}
    own |= {"without": figures(plain, texts, truth, others), "with": figures(taught, texts, truth, others)}
    print(panel, embedder, "own", *(line(own[k]) for k in ("without", "with")), flush=True)
    return {"panel": panel, "embedder": embedder, "setups": setups, "own": own}


def means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        which: {name: float(np.mean([row[which][name] for row in rows])) for name in NAMES}
        for which in ("without", "with")
    }


def line(found: dict[str, float]) -> str:
    return " ".join(f"{found[name]:.3f}" for name in NAMES) + ";"


def page(record: dict[str, Any]) -> str:
    """The record as a table."""
    shown = ("accuracy", "ece", "error_auroc", "ood_auroc", "entropy_share", "in_class_rise_bits")
    lines = [
        "# An archive without labels",
        "",
        f"`{record['command']}`, commit {record['commit']}.",
        "The archive is drawn from the cases, labels ignored, and some of its texts from outside the panel;",
        "half of the cases and half of the out-of-class cases, not in it, are asked without → with it.",
        f"Means of {record['draws']} draws. `own file`: all cases are the archive and all are asked,",
        "each by a fit without its fifth of it.",
        "",
        "| panel, embedder | cases in the archive | from outside | accuracy | ECE | error AUROC |"
        " out-of-class AUROC | entropy share outside | in-class rise, bits |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for found in record["panels"]:
        own = found["own"]
        parts = [(s["archive"], s["draws"][0]["from_outside"], s) for s in found["setups"]]
        for size, share, part in [*parts, (f"own file, {own['n']}", own["from_outside"], own)]:
            cells = [f"{part['without'][name]:.3f} → {part['with'][name]:.3f}" for name in shown]
            where = f"{found['panel']}, {found['embedder']}"
            lines.append(f"| {where} | {size} | {share:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/real_cases"))
    parser.add_argument("--page", action="store_true", help="Only write the page of the record there is.")
    arguments = parser.parse_args()
    path = arguments.out / "archive.json"
    if arguments.page:
        (arguments.out / "archive.md").write_text(page(json.loads(path.read_text())))
        return
    jobs = [(panel, embedder, arguments.data) for panel in FILES for embedder in EMBEDDERS]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(of_panel, *zip(*jobs, strict=True)))
    record = {
        "command": "python benchmarks/archive.py",
        "commit": current_commit(),
        "draws": DRAWS,
        "panels": found,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    (arguments.out / "archive.md").write_text(page(record))


if __name__ == "__main__":
    main()
