"""Dirichlet draws and coordinates on the simplex, safe for sparse priors.

With alpha far below one a Dirichlet draw has components like 1e-300, which underflow when gammas are
drawn and divided. Everything here is therefore carried in logarithms: log G(a) = log G(a+1) + log(U)/a
is exact for every a > 0.
"""

from __future__ import annotations

import numpy as np

from simdx.types import Float


def log_sum_exp(x: Float) -> Float:
    """Over the last axis, which is kept; at least one entry must be above -inf."""
    top = x.max(axis=-1, keepdims=True)
    return top + np.log(np.sum(np.exp(x - top), axis=-1, keepdims=True))


def log_dirichlet(rng: np.random.Generator, alpha: Float, size: int) -> Float:
    """(size, K) logarithms of Dirichlet draws; alpha must be positive."""
    alpha = np.asarray(alpha, dtype=float)
    gamma = rng.standard_gamma(alpha + 1, size=(size, alpha.size))
    uniform = 1 - rng.random((size, alpha.size))  # (0, 1]
    log_gamma = np.log(gamma) + np.log(uniform) / alpha
    return log_gamma - log_sum_exp(log_gamma)


def log_ratio(log_theta: Float) -> Float:
    """Additive log-ratio coordinates against the last component: (…, K) -> (…, K-1)."""
    return log_theta[..., :-1] - log_theta[..., -1:]


def from_log_ratio(x: Float) -> Float:
    """Back to log theta: (…, K-1) -> (…, K)."""
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], 1))], axis=-1)
    return padded - log_sum_exp(padded)


def log_prior_in_log_ratio(log_theta: Float, alpha: Float) -> Float:
    """Log density of Dir(alpha) *in log-ratio coordinates*, where the Jacobian adds one to each power."""
    from scipy.special import gammaln  # the draws above must import with numpy alone

    constant = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return np.sum(alpha * log_theta, axis=-1) + constant
