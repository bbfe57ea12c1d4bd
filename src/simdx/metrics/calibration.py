"""Does a probability of .8 come true eight times in ten?

ECE is the contract's: ten equal-width, right-closed bins of top-label confidence. Its weaknesses are
known (bin edges, one label only), so three variants stand beside it: classwise (every label's probability,
not only the top one), adaptive (bins of equal mass, ties never split) and smooth (no bins: residuals smoothed
with a reflected Gaussian whose width is the fixed point of the measure itself, after Błasiok and Nakkiran).
Temperature scaling mends a posterior after the fact where some labelled cases are at hand.

The plug-in ECE of N cases is positive even for a calibrated method, so a bootstrap around it is centred on a
biased figure. `debiased_ece` shrinks the gaps of the ten bins by a common factor λ: accuracy in bin b is
conf_b − λ·gap_b. For each λ the plug-in ECE is simulated; the estimate is the λ whose median is the observed
ECE, the interval holds every λ under which the observed ECE is no surprise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from simdx.errors import BadInput
from simdx.metrics.scores import NO_CASES, Value, checked, checked_rows, nll_terms, predictions
from simdx.types import Float, Int

N_BINS = 10
EDGES = np.linspace(0, 1, N_BINS + 1)
_SMOOTH_CELLS = 1000
_LOG_TEMPERATURE = (np.log(0.05), np.log(20.0))
_LOGIT_FLOOR = 1e-12
_LAMBDAS = np.linspace(0.0, 2.0, 41)
_SIMULATIONS = 400


@dataclass(frozen=True, slots=True)
class Temperature:
    """A fitted temperature and what it did to the split it was fitted on."""

    value: float
    n: int
    nll_before: float
    nll_after: float
    at_bound: bool


def bin_of(confidence: Float, edges: Float = EDGES) -> Int:
    """Right-closed bins: (0, .1], (.1, .2], …; zero falls in the first."""
    return np.searchsorted(edges[1:-1], confidence, side="left")


def reliability(probabilities: ArrayLike, label_index: ArrayLike) -> dict[str, Any]:
    """What a reliability diagram draws: edges of the bins, and each bin's cases, confidence and accuracy;
    an empty one has zeros."""
    confidence, correct = _top(*checked(probabilities, label_index))
    index = bin_of(confidence)
    n = np.bincount(index, minlength=N_BINS)
    sure, right = (np.bincount(index, weights=x, minlength=N_BINS) for x in (confidence, correct))
    own = np.maximum(n, 1)
    return {"edges": EDGES, "n": n, "confidence": sure / own, "accuracy": right / own}


def weighted_ece(w: Float, confidence: Float, outcome: Float, edges: Float = EDGES) -> Float:
    """(B,) calibration errors where the cases count as often as `w` (B, N) says."""
    gaps = np.zeros((len(confidence), N_BINS))
    gaps[np.arange(len(confidence)), bin_of(confidence, edges)] = outcome - confidence
    return np.abs(w @ gaps).sum(axis=1) / w.sum(axis=1)


def top_label_ece(confidence: Float, correct: Float, edges: Float = EDGES) -> float:
    """`ece` of bare confidences without a posterior, as an isotonic regression gives."""
    return float(weighted_ece(np.ones((1, len(confidence))), confidence, correct, edges)[0])


def ece(probabilities: ArrayLike, label_index: ArrayLike) -> Value:
    """Expected calibration error of the top label, equal-width bins."""
    p, y = checked(probabilities, label_index)
    return Value(top_label_ece(*_top(p, y))) if y.size else Value(None, NO_CASES)


def classwise_ece(p: Float, y: Int) -> float:
    """Mean over labels of the ECE of that label's probability against its occurrence."""
    return float(np.mean([top_label_ece(p[:, k], (y == k).astype(float)) for k in range(p.shape[1])]))


def adaptive_ece(p: Float, y: Int) -> float:
    """ECE of the top label with bins cut at quantiles of confidence; equal confidences share a bin."""
    confidence, correct = _top(p, y)
    return top_label_ece(confidence, correct, np.quantile(confidence, EDGES))


def smooth_ece(p: Float, y: Int) -> float:
    """Smooth ECE of the top label: the fixed point s of s = ∫ |smoothed residual at width s|."""
    confidence, correct = _top(p, y)
    cell = np.minimum((confidence * _SMOOTH_CELLS).astype(int), _SMOOTH_CELLS - 1)
    mass = np.bincount(cell, weights=correct - confidence, minlength=_SMOOTH_CELLS) / len(y)

    def measure(width: float) -> float:
        # mode="reflect" about the cell edges is the reflection of the kernel at 0 and 1
        return float(np.abs(gaussian_filter1d(mass, width * _SMOOTH_CELLS, mode="reflect", truncate=6)).sum())

    low, high = 1.0 / _SMOOTH_CELLS, 1.0
    if measure(low) <= low:
        return measure(low)
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle) > middle else (low, middle)
    return measure(high)


def fit_temperature(probabilities: ArrayLike, label_index: ArrayLike) -> Temperature:
    """The temperature in [0.05, 20] with the least NLL on a labelled split."""
    p, y = checked(probabilities, label_index)
    if not y.size:
        raise BadInput("a temperature cannot be fitted without labelled cases")

    def loss(log_t: float) -> float:
        return float(nll_terms(apply_temperature(p, float(np.exp(log_t))), y).mean())

    found = minimize_scalar(loss, bounds=_LOG_TEMPERATURE, method="bounded", options={"xatol": 1e-4})
    low, high = _LOG_TEMPERATURE
    # the fit must never do worse than leaving the answer alone
    best = float(found.x) if found.fun < loss(0.0) else 0.0
    at_bound = bool(min(best - low, high - best) < 1e-2)
    return Temperature(float(np.exp(best)), len(y), loss(0.0), loss(best), at_bound)


def apply_temperature(probabilities: ArrayLike, temperature: float) -> Float:
    """softmax(log p / T), rows renormalised; T > 1 flattens, T < 1 sharpens. Zeros stay (nearly) zero."""
    if not temperature > 0:
        raise BadInput("a temperature must be positive")
    p = checked_rows(probabilities)
    return np.exp(log_softmax(np.log(np.maximum(p, _LOGIT_FLOOR)) / temperature, axis=1))


def _top(p: Float, y: Int) -> tuple[Float, Float]:
    return p.max(axis=1, initial=0.0), (predictions(p) == y).astype(float) if len(y) else np.zeros(0)


# --------------------------------------------------------------------------- without its bias


def debiased_ece(p: Float, y: Int, rng: np.random.Generator) -> tuple[float, float, float]:
    """The median-unbiased figure and the ends of its 95 % interval."""
    bins = reliability(p, y)
    kept = bins["n"] > 0
    n, sure, right = (bins[name][kept] for name in ("n", "confidence", "accuracy"))
    gap, weight = sure - right, n / n.sum()
    observed = float(weight @ np.abs(gap))
    curves = []
    for share in _LAMBDAS:
        truth = np.clip(sure - share * gap, 0.0, 1.0)
        drawn = np.abs(rng.binomial(n, truth, size=(_SIMULATIONS, len(n))) / n - sure) @ weight
        curves.append(np.quantile(drawn, [0.5, 0.975, 0.025]))
    # Larger λ give larger errors, so each quantile crosses the observed error once, up to simulation noise.
    at = [_crossing(np.maximum.accumulate(values), observed) for values in np.transpose(curves)]
    value, first, last = (share * observed for share in at)
    return value, min(first, value), max(last, value)


def _crossing(values: Float, observed: float) -> float:
    """The λ at which a rising curve reaches the observed error; 0 where it begins above it."""
    if values[0] >= observed:
        return 0.0
    return float(np.interp(observed, values, _LAMBDAS))


def ece_difference(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Second minus first with its 95 % interval, from both intervals (Zou and Donner's MOVER)."""
    (value1, low1, high1), (value2, low2, high2) = first, second
    gap = value2 - value1
    low, high = gap - np.hypot(value2 - low2, high1 - value1), gap + np.hypot(high2 - value2, value1 - low1)
    return gap, float(low), float(high)
