"""How sure are we of a metric, and of a difference between two methods?

Cases are resampled with replacement; two methods are always compared on the same resample. The calibration
error and the excess risk are biased upwards under resampling (repeated cases look like miscalibration),
so an interval is the percentile interval shifted by the bootstrap's own estimate of that bias and clipped to
the metric's range; for plain means the bias is nought and this is the ordinary percentile interval. The
p-value of a difference is two-sided, from the bootstrap distribution centred on zero.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.resampling import HEADLINE, WeightedMetrics, count_chunks
from simdx.metrics.value import NO_CASES, checked
from simdx.types import Float

PAIRED = ("ece", "auroc", "error_auroc", "e_aurc")
_RANGE = {"brier": (0.0, 2.0), "nll": (0.0, np.inf), "entropy_bits": (0.0, np.inf)}
# With fewer defined resamples than this share, an interval would describe a conditioned distribution.
_LEAST_DEFINED = 0.9


@dataclass(frozen=True, slots=True)
class Interval:
    """A bootstrap interval, or None at both ends with the reason."""

    low: float | None
    high: float | None
    reason: str | None = None

    def as_list(self) -> list[float] | None:
        return None if self.low is None or self.high is None else [self.low, self.high]


@dataclass(frozen=True, slots=True)
class Difference:
    """Metric of the second method minus that of the first, on the same cases."""

    metric: str
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    resamples: int
    reason: str | None = None


def bootstrap_intervals(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    *,
    metrics: Sequence[str] = HEADLINE,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """A bootstrap interval for each metric, all from the same resamples of cases."""
    p, y = checked(probabilities, label_index)
    _check(resamples)
    if not y.size:
        return {name: Interval(None, None, NO_CASES) for name in metrics}
    spans = {name: _RANGE.get(name, (0.0, 1.0)) for name in metrics}
    return intervals_of(WeightedMetrics(p, y, metrics), len(y), spans, resamples=resamples, rng=rng)


def intervals_of(
    statistic: Callable[[Float], Float],
    n: int,
    spans: Mapping[str, tuple[float, float]],
    *,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """Intervals of a statistic of counts (B, N) with a column for each of `spans`, which clip them."""
    _check(resamples)
    point = statistic(np.ones((1, n)))[0]
    draws = np.concatenate([statistic(w) for w in count_chunks(n, resamples, rng)])
    return {name: interval_of(point[i], draws[:, i], span) for i, (name, span) in enumerate(spans.items())}


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    label_index: ArrayLike,
    *,
    metrics: Sequence[str] = PAIRED,
    resamples: int = 10_000,
    rng: np.random.Generator,
) -> dict[str, Difference]:
    """Differences second − first with intervals and p-values from one set of shared resamples."""
    a, y = checked(first, label_index)
    b, _ = checked(second, label_index)
    _check(resamples)
    if not y.size:
        return {name: Difference(name, None, None, None, None, resamples, NO_CASES) for name in metrics}
    one, two = WeightedMetrics(a, y, metrics), WeightedMetrics(b, y, metrics)
    unit = np.ones((1, len(y)))
    point = (two(unit) - one(unit))[0]
    draws = np.concatenate([two(w) - one(w) for w in count_chunks(len(y), resamples, rng)])
    found = {}
    for i, name in enumerate(metrics):
        span = _RANGE.get(name, (0.0, 1.0))[1]
        interval = interval_of(point[i], draws[:, i], (-span, span))
        if interval.low is None:
            difference = None if np.isnan(point[i]) else float(point[i])
            found[name] = Difference(name, difference, None, None, None, resamples, interval.reason)
            continue
        p_value = p_value_of(point[i], draws[:, i])
        found[name] = Difference(name, float(point[i]), interval.low, interval.high, p_value, resamples)
    return found


def interval_of(point: float, draws: Float, span: tuple[float, float]) -> Interval:
    """The 95 % percentile interval of resamples, less the bootstrap's own estimate of their bias."""
    if np.isnan(point):
        return Interval(None, None, "the metric is undefined on these cases")
    good = draws[~np.isnan(draws)]
    if good.size < _LEAST_DEFINED * draws.size:
        return Interval(None, None, f"undefined in {draws.size - good.size} of {draws.size} resamples")
    low, high = np.quantile(good, [0.025, 0.975]) - (good.mean() - point)
    return Interval(float(np.clip(low, *span)), float(np.clip(high, *span)))


def p_value_of(difference: float, draws: Float) -> float:
    """Two-sided; the slack keeps two identical methods at p = 1 in spite of rounding."""
    good = draws[~np.isnan(draws)]
    extreme = np.abs(good - good.mean()) >= abs(difference) - 1e-12
    return (1 + int(extreme.sum())) / (1 + good.size)


def _check(resamples: int) -> None:
    if resamples < 100:
        raise BadInput("a bootstrap needs at least 100 resamples")
