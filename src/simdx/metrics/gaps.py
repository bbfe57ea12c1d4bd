"""Subgroups and the gaps between them: is the answer as well calibrated, and as aware of its errors, for all?

`by_group` gives the metrics of each value of an attribute. `subgroup_gaps` compares each group of a field, or
of fields crossed, with all other cases: accuracy, calibration error and error detection, the gap with a
bootstrap interval and a p-value. Many groups mean many chances of a false finding, so p-values are corrected
over all of them by Holm's method. A calibration error computed on a handful of cases is mostly noise and
always too high, so a group under `SMALL` cases keeps its figures and is marked: nothing should be concluded
from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.resampling import (
    WeightedMetrics,
    bootstrap_intervals,
    headline_values,
    interval_of,
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
            "ci": {metric: interval.interval for metric, interval in intervals.items()},
            "too_small": n < SMALL,
            **({"undefined": reasons} if reasons else {}),
        }
    return found


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
) -> list[dict[str, Any]]:
    """Every group of every field against the rest, p-values corrected over all gaps that could be tested.

    A figure is None where it is undefined on either side.
    """
    p, y = checked(probabilities, label_index)
    found: list[dict[str, Any]] = []
    for field, names in groups.items():
        if len(names) != len(y):
            raise BadInput(f"field '{field}' has {len(names)} values for {len(y)} cases")
        column = np.asarray(names, dtype=object)
        for value in sorted(set(names)):
            inside = column == value
            about = {"field": field, "value": value, "n": int(inside.sum())}
            found += [about | gap for gap in _gaps(p, y, inside, resamples, rng)]
    tested = [gap for gap in found if gap["p_value"] is not None]
    for gap, corrected in zip(tested, holm([gap["p_value"] for gap in tested]), strict=True):
        gap["p_corrected"] = corrected
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for as many tests (family-wise error), in the given order."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))), 1.0)
    return [float(v) for v in out]


def _gaps(p: Float, y: Int, inside: Mask, resamples: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    n = int(inside.sum())
    empty = dict.fromkeys(("inside", "outside", "low", "high", "p_value", "p_corrected"))
    rows: list[dict[str, Any]] = [{"metric": metric, **empty, "too_small": n < SMALL} for metric in METRICS]
    if n < len(y):
        mine, theirs = (WeightedMetrics(p[side], y[side], METRICS) for side in (inside, ~inside))
        point = [s(np.ones((1, k)))[0] for s, k in ((mine, n), (theirs, len(y) - n))]
        # Groups are resampled on their own: their sizes are facts of the data, not chance.
        draws = resampled(mine, n, resamples, rng) - resampled(theirs, len(y) - n, resamples, rng)
        for i, row in enumerate(rows):
            row["inside"], row["outside"] = (None if np.isnan(v[i]) else float(v[i]) for v in point)
            difference = point[0][i] - point[1][i]
            found = interval_of(difference, draws[:, i], (-np.inf, np.inf))
            row["low"], row["high"], row["p_value"] = found.low, found.high, found.p_value
    for row in rows:
        known = row["inside"] is not None and row["outside"] is not None
        row["gap"] = row["inside"] - row["outside"] if known else None
    return rows
