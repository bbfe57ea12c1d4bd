"""Expected calibration error without its bias, and an interval that holds nought for calibrated answers.

The plug-in ECE of N cases is positive even for a calibrated method, so a bootstrap around it is centred on a
biased figure. Here the gaps of the ten bins are shrunk by a common factor λ: accuracy in bin b is
conf_b − λ·gap_b. For each λ the plug-in ECE is simulated; the estimate is the λ whose median is the observed
ECE, the interval holds every λ under which the observed ECE is no surprise.
"""

from dataclasses import dataclass

import numpy as np

from simdx.metrics.calibration import reliability
from simdx.types import Float, Int

LAMBDAS = np.linspace(0.0, 2.0, 41)
SIMULATIONS = 400


@dataclass(frozen=True, slots=True)
class DebiasedEce:
    """`plug_in` is the usual figure; `value` the median-unbiased one; `low` to `high` its 95 % interval."""

    plug_in: float
    value: float
    low: float
    high: float


def debiased_ece(p: Float, y: Int, rng: np.random.Generator) -> DebiasedEce:
    bins = reliability(p, y)
    kept = bins.n > 0
    n, sure, right = bins.n[kept], bins.confidence[kept], bins.accuracy[kept]
    gap, weight = sure - right, n / n.sum()
    observed = float(weight @ np.abs(gap))
    curves = []
    for share in LAMBDAS:
        truth = np.clip(sure - share * gap, 0.0, 1.0)
        drawn = np.abs(rng.binomial(n, truth, size=(SIMULATIONS, len(n))) / n - sure) @ weight
        curves.append(np.quantile(drawn, [0.5, 0.975, 0.025]))
    # Larger λ give larger errors, so each quantile crosses the observed error once, up to simulation noise.
    at = [_crossing(np.maximum.accumulate(values), observed) for values in np.transpose(curves)]
    value, first, last = (share * observed for share in at)
    return DebiasedEce(observed, value, min(first, value), max(last, value))


def _crossing(values: Float, observed: float) -> float:
    """The λ at which a rising curve reaches the observed error; 0 where it begins above it."""
    if values[0] >= observed:
        return 0.0
    return float(np.interp(observed, values, LAMBDAS))


def ece_difference(first: DebiasedEce, second: DebiasedEce) -> tuple[float, float, float]:
    """Second minus first with its 95 % interval, from both intervals (Zou and Donner's MOVER)."""
    gap = second.value - first.value
    low = gap - np.hypot(second.value - second.low, first.high - first.value)
    high = gap + np.hypot(second.high - second.value, first.value - first.low)
    return gap, float(low), float(high)
