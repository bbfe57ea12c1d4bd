"""How well `simdx panel prevalence` reads shares: archives of known shares, resampled from labelled cases.

python benchmarks/prevalence.py FOLDER --out results/prevalence/record.json

FOLDER holds panels as `simdx validate transfer` takes them (panel.yaml, cases.jsonl, ood.jsonl). An archive
has 200 texts: shares of the labels are drawn evenly over the simplex, the share of none of these is 0, .1, .3
or .5. The record holds aggregates alone.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from simdx.archive import Rates, estimated, label_shares, rates_of
from simdx.bench import records
from simdx.classifier import Classifier
from simdx.types import Case, Float

ARCHIVES, TEXTS, OUTSIDE = 10, 200, (0.0, 0.1, 0.3, 0.5)
LABELLED = (0, 50)


def measure(folder: Path, n_labelled: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    plain = Classifier(folder / "panel.yaml")
    names = plain.panel.names
    dataset, every, beyond = records.cases_in(folder, names)
    rows, far = rng.permutation(len(every)), rng.permutation(len(beyond))
    labelled = [dataset.cases[i] for i in rows[:n_labelled]]
    labelled += [Case(beyond[i], label="none of these") for i in far[: n_labelled // 5]]
    chosen = Classifier(folder / "panel.yaml", calibration_cases=labelled) if labelled else plain
    left, left_out = rows[n_labelled:], far[n_labelled // 5 :]
    truth = every[left]
    inside = chosen.infer_batch([dataset.texts[i] for i in left])
    outside = chosen.infer_batch([beyond[i] for i in left_out]) if len(left_out) else None
    far_none = None if outside is None else outside.out_of_class
    rates, refused, _ = rates_of(chosen, labelled)
    weighed = inside.out_of_class is not None and far_none is not None
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
                none = np.concatenate([inside.out_of_class[pick], far_none[extra]])
            known = rates if refused is None else None
            found = scores(posterior, none, known, among, n_out / len(posterior), rng)
            for name, value in found.items():
                errors.setdefault(name, []).append(value)
    means = [None if one is None else round(float(one.mean()), 4) for one in (inside.out_of_class, far_none)]
    return {
        "panel": plain.panel.name, "labels": len(names), "labelled": n_labelled, "refused": refused,
        "mean_none_inside": means[0], "mean_none_outside": means[1], "archives": len(errors["labels: em"]),
        **{k: round(float(np.mean(v)), 4) for k, v in errors.items()},
    }  # fmt: skip


def scores(
    posterior: Float, none: Float | None, rates: Rates | None, among: Float, outside: float,
    rng: np.random.Generator,
) -> dict[str, float]:  # fmt: skip
    """Mean absolute errors of each way of counting, and how often the truth lies in the interval."""
    weight, k = np.ones(len(posterior)) if none is None else 1 - none, len(among)
    found, intervals = estimated(posterior, none if rates else None, rates, rng)
    ways = {
        "even": np.full(k, 1 / k),
        "counted": np.bincount(posterior.argmax(axis=1), weights=weight, minlength=k) / weight.sum(),
        "mean posterior": weight @ posterior / weight.sum(),
        "em unweighed": label_shares(posterior, np.ones(len(posterior))),
        "em": found[:k],
    }
    out = {f"labels: {name}": float(np.abs(value - among).mean()) for name, value in ways.items()}
    low, high = intervals[:k].T
    out["labels: inside interval"] = float(((low <= among) & (among <= high)).mean())
    if none is not None:
        out["none: mean probability"] = abs(float(none.mean()) - outside)
    if rates is not None:
        out["none: corrected"] = abs(float(found[-1]) - outside)
        out["none: inside interval"] = float(intervals[-1][0] <= outside <= intervals[-1][1])
    return out


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/prevalence/record.json"))
    parser.add_argument("--panel", action="append", help="only these")
    asked = parser.parse_args()
    rows = []
    for path in sorted(asked.folder.glob("*/panel.yaml")):
        if asked.panel and path.parent.name not in asked.panel:
            continue
        for n in LABELLED:
            rows.append(measure(path.parent, n))
            print(json.dumps(rows[-1]), flush=True)
    record = {"archives_each": ARCHIVES, "texts": TEXTS, "outside_shares": OUTSIDE, "rows": rows}
    records.write_record(asked.out, record)


if __name__ == "__main__":
    main()
