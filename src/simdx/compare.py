"""Two answers to the same cases, compared: differences of metrics with paired bootstrap intervals.

The two are methods of one classifier (`evaluate --compare`), or two runs that `evaluate --out` wrote, of any
method, bank or embedder (`simdx compare`). A difference is the second's metric less the first's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdx.errors import BadInput
from simdx.evaluation import Evaluation
from simdx.metrics import headline_values, paired_bootstrap
from simdx.rows import read_rows
from simdx.types import NONE_OF_THESE, Float

METRICS = ("accuracy", "macro_f1", "brier", "nll", "ece", "auroc", "error_auroc", "e_aurc")
_POSTERIOR = "posterior."


@dataclass(frozen=True, slots=True)
class Run:
    """Labelled cases and the posterior of each; no text."""

    name: str
    ids: tuple[str, ...]
    truth: tuple[str, ...]
    labels: tuple[str, ...]  # and none of these where it was weighed
    posterior: Float

    @classmethod
    def of(cls, name: str, found: Evaluation) -> Run:
        cases = found.dataset.cases
        truth = tuple(str(case.label) for case in cases)
        return cls(name, tuple(case.id for case in cases), truth, found.outcomes, found.arrays["posterior"])

    @classmethod
    def read(cls, folder: Path) -> Run:
        """What `simdx evaluate --out` wrote there."""
        path = folder / "cases.parquet"
        if not path.is_file():
            raise BadInput(f"{folder} holds no cases.parquet: give what 'simdx evaluate --out' wrote")
        rows = [row for _, row in read_rows(path)]
        keys = rows[0] if rows else {}
        labels = tuple(key.removeprefix(_POSTERIOR) for key in keys if key.startswith(_POSTERIOR))
        try:
            posterior = np.array([[float(row[_POSTERIOR + label]) for label in labels] for row in rows])
            ids, truth = (tuple(str(row[key]) for row in rows) for key in ("id", "label"))
        except (KeyError, TypeError, ValueError):
            raise BadInput(f"{path} is not a table of answers that 'simdx evaluate --out' wrote") from None
        if not labels or not set(truth) <= set(labels):
            raise BadInput(f"{path} is not a table of answers that 'simdx evaluate --out' wrote")
        return cls(folder.name, ids, truth, labels, posterior)

    def like(self, other: Run) -> Run:
        """The same answers in the other's order of cases."""
        if (set(self.labels) ^ set(other.labels)) - {NONE_OF_THESE}:
            raise BadInput(f"the runs '{other.name}' and '{self.name}' have different labels: use one panel")
        place = {case: i for i, case in enumerate(self.ids)}
        if len(place) != len(self.ids) or set(place) != set(other.ids) or len(other.ids) != len(self.ids):
            raise BadInput(f"the runs '{other.name}' and '{self.name}' are not of the same cases (by id)")
        rows = np.array([place[case] for case in other.ids], dtype=np.int64)
        if tuple(self.truth[i] for i in rows) != other.truth:
            raise BadInput(f"the runs '{other.name}' and '{self.name}' give the same ids other labels")
        return Run(self.name, other.ids, other.truth, self.labels, self.posterior[rows])

    def over(self, labels: tuple[str, ...]) -> Float:
        """The posteriors with these columns; one that does not weigh none of these gives it nothing."""
        own = dict(zip(self.labels, self.posterior.T, strict=True))
        return np.stack([own.get(label, np.zeros(len(self.posterior))) for label in labels], axis=1)


def paired(first: Run, second: Run, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Both runs' metrics, and each difference with its interval and p-value."""
    second = second.like(first)
    labels = tuple(label for label in first.labels if label != NONE_OF_THESE)
    either = (*labels, NONE_OF_THESE) if NONE_OF_THESE in (*first.labels, *second.labels) else labels
    y = np.array([labels.index(label) for label in first.truth], dtype=np.int64)
    one, two = first.over(either), second.over(either)
    found = paired_bootstrap(
        one, two, y, labels=len(labels), metrics=METRICS, resamples=resamples, rng=np.random.default_rng(seed)
    )
    measured = [headline_values(p, y, len(labels)) for p in (one, two)]
    values = [{name: of[name].value for name in METRICS} for of in measured]
    return {
        "n": len(y),
        "first": {"run": first.name, **values[0]},
        "second": {"run": second.name, **values[1]},
        "difference": {
            name: {key: value for key, value in asdict(d).items() if key != "resamples"}
            for name, d in found.items()
        },
        "resamples": resamples,
    }


def lines(found: dict[str, Any]) -> Sequence[str]:
    def shown(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.3f}"

    one, two = found["first"], found["second"]
    out = [f"{one['run']} and {two['run']} on {found['n']} cases; difference: second minus first"]
    for name, d in found["difference"].items():
        interval = "" if d["low"] is None else f" [{d['low']:+.3f}, {d['high']:+.3f}], p {d['p_value']:.3g}"
        difference = "undefined" if d["difference"] is None else f"{d['difference']:+.3f}"
        out.append(f"  {name:12} {shown(one[name]):>9} {shown(two[name]):>9}   {difference}{interval}")
    return out
