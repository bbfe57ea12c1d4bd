"""Bootstrap intervals of small statistics of per-case numbers: means, medians, AUROCs, correlations.

The headline metrics have their own fast bootstrap in `simdx.metrics`; this is for what an artefact measures
besides. Groups (inside and outside, say) are resampled each on its own; columns of one group together.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdx.metrics import paired_bootstrap
from simdx.types import Float, Int

TAILS = (0.025, 0.975)


def interval(
    statistic: Callable[..., float | None], *groups: Any, rng: np.random.Generator, resamples: int
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
    return None if len(found) < 0.9 * resamples else np.quantile(found, TAILS).tolist()


def mean_interval(values: Float, rng: np.random.Generator, resamples: int) -> list[float] | None:
    """The same for a mean, without a Python loop."""
    x = np.asarray(values, dtype=float)
    if not x.size:
        return None
    return np.quantile(x[rng.integers(x.size, size=(resamples, x.size))].mean(axis=1), TAILS).tolist()


def differences(
    p: Float, q: Float, y: Int, names: Sequence[str], rng: np.random.Generator, resamples: int
) -> dict[str, dict[str, Any]]:
    """The second answers' metrics minus the first's on the same cases, paired bootstrap."""
    found = paired_bootstrap(p, q, y, metrics=tuple(names), resamples=resamples, rng=rng)
    return {
        name: {
            "difference": d.difference, "ci": [d.low, d.high], "p_value": d.p_value, "resamples": d.resamples,
            "reason": d.reason,
        }
        for name, d in found.items()
    }  # fmt: skip
