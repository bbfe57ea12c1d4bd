"""Bootstrap intervals of small statistics of per-case numbers: means, medians, AUROCs, correlations.

The headline metrics have their own fast bootstrap in `metrics.significance`; this is for what an artefact
measures besides. Groups (inside and outside, say) are resampled each on its own; columns of one group are
resampled together, so that paired numbers stay paired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simdx.types import Float

Statistic = Callable[..., float | None]
LEVEL = 0.95


def interval(
    statistic: Statistic, *groups: Any, rng: np.random.Generator, resamples: int, level: float = LEVEL
) -> list[float] | None:
    """Percentile interval of `statistic(*groups)`; None where it is undefined on a tenth of the resamples."""
    arrays = [np.asarray(group) for group in groups]
    if any(len(array) == 0 for array in arrays):
        return None
    found = []
    for _ in range(resamples):
        value = statistic(*(array[rng.integers(len(array), size=len(array))] for array in arrays))
        if value is not None and np.isfinite(value):
            found.append(float(value))
    if len(found) < 0.9 * resamples:
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return [float(low), float(high)]


def mean_interval(values: Float, rng: np.random.Generator, resamples: int) -> list[float] | None:
    """The same for a mean, without a Python loop."""
    x = np.asarray(values, dtype=float)
    if not x.size:
        return None
    means = x[rng.integers(x.size, size=(resamples, x.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(low), float(high)]


def excludes(found: list[float] | None, value: float = 0.0) -> bool:
    """Whether an interval is there and leaves the value out."""
    return found is not None and not found[0] <= value <= found[1]
