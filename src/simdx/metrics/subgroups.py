"""The same metrics for each value of an attribute, with intervals and a warning where n is too small.

A calibration error computed on a handful of cases is mostly noise and always too high, so a group under
`SMALL` cases keeps its figures but is flagged: nothing should be concluded from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.headline import headline_values
from simdx.metrics.significance import Interval, bootstrap_intervals
from simdx.metrics.value import Value, checked

SMALL = 30
GROUP_METRICS = ("accuracy", "brier", "ece", "error_auroc", "e_aurc")
NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class Group:
    """One group's figures."""

    n: int
    values: dict[str, Value]
    intervals: dict[str, Interval]
    too_small: bool

    def as_dict(self) -> dict[str, object]:
        row: dict[str, object] = {"n": self.n}
        row |= {name: value.value for name, value in self.values.items()}
        row["ci"] = {name: interval.as_list() for name, interval in self.intervals.items()}
        row["too_small"] = self.too_small
        reasons = {name: v.reason for name, v in self.values.items() if v.reason}
        return row | ({"undefined": reasons} if reasons else {})


def by_group(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    groups: Sequence[object],
    *,
    expected: Sequence[str] = (),
    small: int = SMALL,
    resamples: int = 1000,
    rng: np.random.Generator,
) -> dict[str, Group]:
    """Metrics per group value, in sorted order; values named in `expected` appear even when empty."""
    p, y = checked(probabilities, label_index)
    if len(groups) != len(y):
        raise BadInput(f"there are {len(y)} cases but {len(groups)} group values")
    names = np.asarray([NOT_STATED if g is None or g == "" else str(g) for g in groups], dtype=object)
    found: dict[str, Group] = {}
    for name in sorted(set(names.tolist()) | set(expected)):
        inside = names == name if len(names) else np.zeros(0, bool)
        q, t = p[inside], y[inside]
        n = int(inside.sum())
        values = {name: v for name, v in headline_values(q, t).items() if name in GROUP_METRICS}
        intervals = bootstrap_intervals(q, t, metrics=GROUP_METRICS, resamples=resamples, rng=rng)
        found[name] = Group(n, values, intervals, n < small)
    return found
