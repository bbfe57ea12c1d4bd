"""How well `simdx panel prevalence` reads shares: archives of known shares, resampled from labelled cases.

python benchmarks/prevalence.py FOLDER --out results/prevalence/record.json

FOLDER holds panels as `simdx validate transfer` takes them (panel.yaml, cases.jsonl, ood.jsonl). An archive
has 200 texts: shares of the labels are drawn evenly over the simplex, the share of none of these is 0, .1, .3
or .5. The record holds aggregates alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from simdx.archive import Rates, estimated, label_shares, rates_of
from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.types import Case

ARCHIVES, TEXTS, OUTSIDE = 10, 200, (0.0, 0.1, 0.3, 0.5)
LABELLED = (0, 50)


def measure(folder: Path, n_labelled: int, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    panel = folder / "panel.yaml"
    plain = Classifier(panel)
    names = plain.panel.names
    cases, others = read_cases(folder / "cases.jsonl", labels=names), folder / "ood.jsonl"
    beyond = [c.text for c in read_cases(others, labelled=False).cases] if others.is_file() else []
    rows, far = rng.permutation(len(cases.cases)), rng.permutation(len(beyond))
    taken, known = rows[:n_labelled], far[: n_labelled // 5]
    labelled = [cases.cases[i] for i in taken]
    labelled += [Case(beyond[i], label="none of these") for i in known]
    chosen = Classifier(panel, calibration_cases=labelled) if labelled else plain
    left, left_out = rows[n_labelled:], far[n_labelled // 5 :]
    truth = np.array([names.index(str(cases.cases[i].label)) for i in left])
    inside = chosen.infer_batch([cases.cases[i].text for i in left])
    outside = chosen.infer_batch([beyond[i] for i in left_out]) if len(left_out) else None
    rates, refused, _ = rates_of(chosen, labelled)
    weighed = inside.out_of_class is not None and outside is not None and outside.out_of_class is not None
    errors: dict[str, list[float]] = {}
    for share in OUTSIDE if weighed else OUTSIDE[:1]:
        for _ in range(ARCHIVES):
            real = rng.dirichlet(np.ones(len(names)))
            n_out = round(share * TEXTS)
            labels = rng.choice(len(names), TEXTS - n_out, p=real)
            pick = [rng.choice(np.flatnonzero(truth == k)) for k in labels if (truth == k).any()]
            among = np.bincount(truth[pick], minlength=len(names)) / len(pick)
            posterior, none = inside.among_labels[pick], None
            if weighed:
                extra = rng.integers(0, len(left_out), n_out)
                posterior = np.concatenate([posterior, outside.among_labels[extra]])
                none = np.concatenate([inside.out_of_class[pick], outside.out_of_class[extra]])
            _score(
                errors,
                posterior,
                none,
                rates if refused is None else None,
                among,
                n_out / len(posterior),
                rng,
            )
    return {
        "panel": plain.panel.name, "labels": len(names), "labelled": n_labelled, "refused": refused,
        "mean_none_inside": _mean(inside.out_of_class),
        "mean_none_outside": _mean(outside.out_of_class if outside is not None else None),
        "archives": len(errors["labels: em"]), **{k: round(float(np.mean(v)), 4) for k, v in errors.items()},
    }  # fmt: skip


def _mean(none: np.ndarray | None) -> float | None:
    return None if none is None else round(float(none.mean()), 4)


def _score(
    errors: dict[str, list[float]],
    posterior: np.ndarray,
    none: np.ndarray | None,
    rates: Rates | None,
    among: np.ndarray,
    outside: float,
    rng: np.random.Generator,
) -> None:
    """Mean absolute errors of each way of counting, and how often the truth lies in the interval."""
    weight = np.ones(len(posterior)) if none is None else 1 - none
    given = posterior.argmax(axis=1)
    counted = np.bincount(given, weights=weight, minlength=len(among)) / weight.sum()
    found, intervals = estimated(posterior, none if rates else None, rates, rng)
    ways = {
        "labels: even": np.full(len(among), 1 / len(among)),
        "labels: counted": counted,
        "labels: mean posterior": weight @ posterior / weight.sum(),
        "labels: em unweighed": label_shares(posterior, np.ones(len(posterior))),
        "labels: em": found[: len(among)],
    }
    for name, value in ways.items():
        errors.setdefault(name, []).append(float(np.abs(value - among).mean()))
    low, high = intervals[: len(among)].T
    errors.setdefault("labels: inside interval", []).append(float(((low <= among) & (among <= high)).mean()))
    if none is not None:
        errors.setdefault("none: mean probability", []).append(abs(float(none.mean()) - outside))
    if rates is not None:
        errors.setdefault("none: corrected", []).append(abs(float(found[-1]) - outside))
        low, high = intervals[-1]
        errors.setdefault("none: inside interval", []).append(float(low <= outside <= high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/prevalence/record.json"))
    parser.add_argument("--panel", action="append", help="only these")
    chosen = parser.parse_args()
    rows = []
    for path in sorted(chosen.folder.glob("*/panel.yaml")):
        if chosen.panel and path.parent.name not in chosen.panel:
            continue
        for n in LABELLED:
            rows.append(measure(path.parent, n))
            print(json.dumps(rows[-1]), flush=True)
    record = {"archives_each": ARCHIVES, "texts": TEXTS, "outside_shares": OUTSIDE, "rows": rows}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
