"""Logarithms, sums of exponentials and the digamma function in numpy alone; Dirichlet draws in logarithms.

scipy has them all and takes longer to import than a first answer takes to compute; what an answer needs of
it is here, and `tests/abc/test_second_order.py` holds it against scipy.
"""

import numpy as np

from simdx.types import Float

_SHIFT = 8  # steps of the recurrence, after which the asymptotic series is exact to the last bits
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # B_2k / 2k


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


def digamma(x: Float) -> Float:
    """The derivative of log Gamma for x > 0: its asymptotic series, after a few steps of the recurrence."""
    x = np.asarray(x, dtype=float)
    large = x + _SHIFT
    steps = sum(1 / (x + i) for i in range(_SHIFT))
    series = sum(c / large ** (2 * k + 2) for k, c in enumerate(_SERIES))
    return np.log(large) - 0.5 / large - series - steps


def log_dirichlet(rng: np.random.Generator, alpha: Float, size: int) -> Float:
    """(size, K) logarithms of Dirichlet draws; alpha must be positive.

    With alpha far below one a draw has components like 1e-300, which underflow when gammas are drawn and
    divided; log G(a) = log G(a+1) + log(U)/a is exact for every a > 0.
    """
    alpha = np.asarray(alpha, dtype=float)
    gamma = rng.standard_gamma(alpha + 1, size=(size, alpha.size))
    uniform = 1 - rng.random((size, alpha.size))  # (0, 1]
    log_gamma = np.log(gamma) + np.log(uniform) / alpha
    return log_gamma - logsumexp(log_gamma, keepdims=True)
