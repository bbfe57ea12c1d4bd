"""Logarithms, sums of exponentials and the gamma function in numpy alone.

scipy has them all and takes longer to import than a first answer takes to compute; what an answer needs of
it is here, and `tests/abc/test_pieces.py` holds it against scipy.
"""

from __future__ import annotations

import numpy as np

from simdx.types import Float

_SHIFT = 8  # steps of the recurrence, after which the asymptotic series is exact to the last bits
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # B_2k / (2k (2k - 1))


def logsumexp(x: Float, axis: int = -1, keepdims: bool = False) -> Float:
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        out = top + np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True))
    return out if keepdims else np.squeeze(out, axis=axis)


def log_softmax(x: Float, axis: int = -1) -> Float:
    return x - logsumexp(x, axis=axis, keepdims=True)


def softmax(x: Float, axis: int = -1) -> Float:
    return np.exp(log_softmax(x, axis=axis))


def expit(x: Float) -> Float:
    """1 / (1 + exp(-x)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -np.asarray(x, dtype=float)))


def logit(p: float) -> float:
    return float(np.log(p) - np.log1p(-p))


def gammaln(x: Float) -> Float:
    """log Gamma(x) for x > 0: Stirling's series, after a few steps of the recurrence."""
    x = np.asarray(x, dtype=float)
    large = x + _SHIFT
    steps = np.prod([x + i for i in range(_SHIFT)], axis=0)
    series = sum(c / large ** (2 * k + 1) for k, c in enumerate(_SERIES))
    stirling = (large - 0.5) * np.log(large) - large + 0.5 * np.log(2 * np.pi) + series
    return np.where(x < 1e8, stirling - np.log(steps), (x - 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi))


def digamma(x: Float) -> Float:
    """Its derivative."""
    x = np.asarray(x, dtype=float)
    large = x + _SHIFT
    steps = sum(1 / (x + i) for i in range(_SHIFT))
    series = sum((2 * k + 1) * c / large ** (2 * k + 2) for k, c in enumerate(_SERIES))
    return np.log(large) - 0.5 / large - series - steps
