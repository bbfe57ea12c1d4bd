"""Subgroups and the gaps between them: is the answer as well calibrated, and as aware of its errors, for all?

`by_group` gives the metrics of each value of an attribute. `subgroup_gaps` compares each group of a field, or
of fields crossed, with all other cases: accuracy, calibration error and error detection, the gap with a
bootstrap interval and a p-value. Many groups mean many chances of a false finding, so p-values are corrected
over all of them by Holm's method. A calibration error computed on a handful of cases is mostly noise and
always too high, so a group under `SMALL` cases keeps its figures and is marked: nothing should be concluded
from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.resampling import (
    WeightedMetrics,
    bootstrap_intervals,
    headline_values,
    interval_of,
    p_value_of,
    resampled,
)
from simdx.metrics.scores import checked
from simdx.types import Float, Int, Mask

METRICS = ("accuracy", "ece", "error_auroc")
SMALL = 30
NOT_STATED = "not stated"
GROUP_METRICS = ("accuracy", "brier", "ece", "error_auroc", "e_aurc")


def by_group(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    groups: Sequence[object],
    *,
    resamples: int = 1000,
    rng: np.random.Generator,
) -> dict[str, dict[str, object]]:
    """Metrics per group value, in sorted order, under the command line's key names."""
    p, y = checked(probabilities, label_index)
    if len(groups) != len(y):
        raise BadInput(f"there are {len(y)} cases but {len(groups)} group values")
    names = np.asarray([NOT_STATED if g is None or g == "" else str(g) for g in groups], dtype=object)
    found: dict[str, dict[str, object]] = {}
    for name in sorted(set(names.tolist())):
        inside = names == name
        q, t, n = p[inside], y[inside], int(inside.sum())
        values = {name: v for name, v in headline_values(q, t).items() if name in GROUP_METRICS}
        intervals = bootstrap_intervals(q, t, metrics=GROUP_METRICS, resamples=resamples, rng=rng)
        reasons = {metric: value.reason for metric, value in values.items() if value.reason}
        found[name] = {
            "n": n,
            **{metric: value.value for metric, value in values.items()},
            "ci": {metric: interval.as_list() for metric, interval in intervals.items()},
            "too_small": n < SMALL,
            **({"undefined": reasons} if reasons else {}),
        }
    return found


@dataclass(frozen=True, slots=True)
class Gap:
    """One metric of one group against everyone else. None where it is undefined on either side."""

    field: str
    value: str
    n: int
    metric: str
    inside: float | None
    outside: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_corrected: float | None
    too_small: bool

    @property
    def gap(self) -> float | None:
        return None if self.inside is None or self.outside is None else self.inside - self.outside


def combined(fields: Mapping[str, Sequence[object]], by: Sequence[str]) -> dict[str, list[str]]:
    """Group names for each entry of `by`: a field, or fields crossed as 'sex*site'."""
    out = {}
    for entry in by:
        parts = [p.strip() for p in entry.split("*")]
        for part in parts:
            if part not in fields:
                raise BadInput(f"there is no field '{part}' to group by: choose {', '.join(sorted(fields))}")
        columns = [[NOT_STATED if v is None or v == "" else str(v) for v in fields[p]] for p in parts]
        out[entry] = [" × ".join(values) for values in zip(*columns, strict=True)]
    return out


def subgroup_gaps(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    groups: Mapping[str, Sequence[str]],
    *,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> list[Gap]:
    """Every group of every field against the rest, p-values corrected over all gaps that could be tested."""
    p, y = checked(probabilities, label_index)
    found: list[Gap] = []
    for field, names in groups.items():
        if len(names) != len(y):
            raise BadInput(f"field '{field}' has {len(names)} values for {len(y)} cases")
        column = np.asarray(names, dtype=object)
        for value in sorted(set(names)):
            found += _gaps(p, y, column == value, field, value, resamples, rng)
    tested = [i for i, gap in enumerate(found) if gap.p_value is not None]
    corrected = holm([float(found[i].p_value or 0.0) for i in tested])
    for i, q in zip(tested, corrected, strict=True):
        found[i] = replace(found[i], p_corrected=q)
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for as many tests (family-wise error), in the given order."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))), 1.0)
    return [float(v) for v in out]


def _gaps(
    p: Float, y: Int, inside: Mask, field: str, value: str, resamples: int, rng: np.random.Generator
) -> list[Gap]:
    n = int(inside.sum())
    small = n < SMALL
    if n == len(y):
        return [Gap(field, value, n, m, None, None, None, None, None, None, small) for m in METRICS]
    mine, theirs = (WeightedMetrics(p[side], y[side], METRICS) for side in (inside, ~inside))
    point = [s(np.ones((1, k)))[0] for s, k in ((mine, n), (theirs, len(y) - n))]
    # Groups are resampled on their own: their sizes are facts of the data, not chance.
    draws = resampled(mine, n, resamples, rng) - resampled(theirs, len(y) - n, resamples, rng)
    out = []
    for i, metric in enumerate(METRICS):
        a, b = (None if np.isnan(values[i]) else float(values[i]) for values in point)
        difference = point[0][i] - point[1][i]
        interval = interval_of(difference, draws[:, i], (-np.inf, np.inf))
        p_value = None if interval.low is None else p_value_of(difference, draws[:, i])
        out.append(Gap(field, value, n, metric, a, b, interval.low, interval.high, p_value, None, small))
    return out
