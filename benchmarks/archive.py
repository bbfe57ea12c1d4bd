"""What an archive of unlabelled cases is worth: accuracy, calibration, none of these.

    python -m benchmarks.archive --data FOLDER

Half of the cases and half of the outside cases are asked; the archive is drawn from the other halves, labels
ignored. Ways: no archive; an archive that centres alone; an archive whose texts labels also adopt. Each of
the latter two with no text from outside, and with three in ten. FOLDER holds the packaged panels' cases where
`simdx.bench.records.CASES` says, and more panels under transfer/. Writes results/real_cases/archive.json and
archive.md.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bench import records
from simdx.classifier import Classifier
from simdx.panels import load_source

OUT = Path(__file__).parents[1] / "results" / "real_cases"
TRANSFER = ("airways", "clauses10", "clinc10", "injuries", "reports8")
OUTSIDE_SHARES = (0.0, 0.3)
WEIGHTS = {"centred": 0.0, "adopted": None}  # of a text of the archive; None: the product's
DRAWS = 3


def asked(classifier: Classifier, texts: list[str], outside: list[str], truth: Any) -> dict[str, float]:
    inside = classifier.infer_batch(texts)
    beyond = classifier.infer_batch(outside)
    among = inside.among_labels
    return {
        "accuracy": records.accuracy(among, truth),
        "ece": records.calibration_error(among, truth),
        "auroc": records.outside_auroc(inside.out_of_class, beyond.out_of_class) or np.nan,
    }


def measured(panel: str, cases: records.Cases) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {}
    texts, plain = np.array(cases.texts, dtype=object), Classifier(panel)
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        order, far = rng.permutation(len(texts)), rng.permutation(np.array(cases.outside, dtype=object))
        held, kept = np.array_split(order, 2)
        outside, others = (list(half) for half in np.array_split(far, 2))
        case = (list(texts[held]), outside, cases.truth[held])
        found.setdefault("no archive", []).append(asked(plain, *case))
        for share in OUTSIDE_SHARES:
            many = min(len(others), round(share / (1 - share) * len(kept)))
            archive = [*texts[kept], *others[:many]]
            for way, weight in WEIGHTS.items():
                taught = Classifier(panel, unlabelled=archive, unlabelled_weight=weight)
                found.setdefault(f"{way}, {share:.0%} outside", []).append(asked(taught, *case))
    ways = {
        way: {name: round(float(np.mean([d[name] for d in draws])), 4) for name in draws[0]}
        for way, draws in found.items()
    }
    return {"n": len(texts), "n_outside": len(cases.outside), "embedder": plain.panel.embedder, "ways": ways}


def main() -> None:
    parser = records.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    files = {name: (name, *(folder / file for file in held)) for name, held in records.CASES.items()}
    for name in TRANSFER:
        at = folder / "transfer" / name
        files[name] = (str(at / "panel.yaml"), at / "cases.jsonl", at / "ood.jsonl")
    panels = dict[str, Any]()
    for name, (panel, inside, outside) in files.items():
        panels[name] = measured(panel, records.cases_of(load_source(panel).panel.names, inside, outside))
        print(name, panels[name], file=sys.stderr, flush=True)
    heading = records.heading("python -m benchmarks.archive --data FOLDER") | {"draws": DRAWS}
    records.write_record(OUT / "archive.json", heading | {"panels": panels})
    ways = list(next(iter(panels.values()))["ways"])
    rows = [
        [name, *(" · ".join(f"{v:.3f}" for v in panels[name]["ways"][way].values()) for way in ways)]
        for name in panels
    ]
    mean = np.mean([[list(p["ways"][way].values()) for way in ways] for p in panels.values()], axis=0)
    rows.append(["mean", *(" · ".join(f"{v:.3f}" for v in way) for way in mean)])
    said = (
        f"# An archive without labels\n\n`{heading['command']}`, commit {heading['commit']}.\n"
        f"Accuracy among the labels, ECE, out-of-class AUROC; means of {DRAWS} draws.\n\n"
    )
    (OUT / "archive.md").write_text(said + "\n".join(records.table(["panel", *ways], rows)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
