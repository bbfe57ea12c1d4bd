"""Second-order output: what a posterior on the simplex says about its own spread.

All entropies are in bits. total = H(E theta), aleatoric = E H(theta), epistemic = total - aleatoric.
A Dirichlet fit condenses the draws to alpha0 by the moments of all components pooled,
sum m_k(1-m_k) / sum var_k - 1. (The paper fits the first component alone; the two must not be compared.)

D-SMC with *quantile* tolerances keeps a fixed share 2^-T of prior mass, and that alone caps the top
probability it can express (`concentration_cap`), however clear the case. The remedies are more
populations, a sparser prior (alpha0 below K), or an absolute tolerance, for which there is no such cap.
"""

import numpy as np

from simdx.abc.logs import digamma
from simdx.types import Float, SecondOrder, entropy_bits

LN2 = float(np.log(2))
ALPHA0_MAX = 1e8  # a posterior without spread: more would only be rounding error
ALPHA0_MIN = 1e-6


def of_draws(log_theta: Float, weight: Float, cap: float | None = None) -> SecondOrder:
    """Of each case's own draws: log_theta (N, S, K), weight (N, S)."""
    w = weight / weight.sum(axis=1, keepdims=True)
    theta = np.exp(log_theta)
    entropy = -np.sum(theta * log_theta, axis=2) / LN2
    mean, square = (np.einsum("ns,nsk->nk", w, power) for power in (theta, theta**2))
    return summarise(mean, square, np.einsum("ns,ns->n", w, entropy), 1 / np.sum(w**2, axis=1), cap)


def summarise(mean: Float, square: Float, entropy: Float, effective: Float, cap: float | None) -> SecondOrder:
    """Bits and Dirichlet fit from averages over weighted draws and their effective number.

    The averages are of theta and theta^2 (N, K), and of the entropy in bits (N,); every label is possible.
    """
    mean = mean / mean.sum(axis=1, keepdims=True)
    total = entropy_bits(mean)
    aleatoric = np.clip(entropy, 0, total)
    return SecondOrder(
        mean=mean,
        total_bits=total,
        aleatoric_bits=aleatoric,
        epistemic_bits=total - aleatoric,
        alpha0=fit_all_components(mean, square).sum(axis=1),
        effective_draws=effective,
        cap=cap,
    )


def of_dirichlet(alpha: Float, *, effective: Float | None = None, cap: float | None = None) -> SecondOrder:
    """The same quantities of Dir(alpha) in closed form; alpha (N, K), zero for impossible labels."""
    alpha = np.atleast_2d(np.asarray(alpha, dtype=float))
    alpha0 = alpha.sum(axis=1)
    mean = alpha / alpha0[:, None]
    total = entropy_bits(mean)
    aleatoric = -np.sum(mean * (digamma(alpha + 1) - digamma(alpha0 + 1)[:, None]), axis=1) / LN2
    return SecondOrder(
        mean=mean,
        total_bits=total,
        aleatoric_bits=np.clip(aleatoric, 0, total),
        epistemic_bits=total - np.clip(aleatoric, 0, total),
        alpha0=alpha0,
        effective_draws=np.zeros(alpha0.size) if effective is None else effective,
        cap=cap,
    )


def fit_all_components(mean: Float, square: Float) -> Float:
    """alpha (N, K) with the spread pooled over components, so that no label's position matters."""
    variance = np.sum(square - mean**2, axis=1)
    ratio = np.sum(mean * (1 - mean), axis=1) / np.maximum(variance, 1e-300) - 1
    return mean * np.clip(ratio, ALPHA0_MIN, ALPHA0_MAX)[:, None]


def dirichlet_differential_entropy(alpha: Float) -> Float:
    """Differential entropy in bits of Dir(alpha) on its possible labels (N,); -inf for a single label."""
    from scipy.special import gammaln

    alpha = np.atleast_2d(np.asarray(alpha, dtype=float))
    possible = alpha > 0
    a = np.where(possible, alpha, 1.0)
    n_labels = possible.sum(axis=1)
    alpha0 = alpha.sum(axis=1)
    log_beta = np.sum(np.where(possible, gammaln(a), 0), axis=1) - gammaln(alpha0)
    spread = np.sum(np.where(possible, (a - 1) * digamma(a), 0), axis=1)
    nats = log_beta + (alpha0 - n_labels) * digamma(alpha0) - spread
    return np.where(n_labels > 1, nats / LN2, -np.inf)


# --------------------------------------------------------------------------- the cap of quantile tolerances


def concentration_cap(alpha: Float | int, populations: int) -> float:
    """Largest posterior mean any label can reach when D-SMC keeps 2^-T of the mass of Dir(alpha).

    Among all regions of that mass, {theta_k >= q} gives label k the largest mean, and theta_k is
    Beta(alpha_k, alpha0 - alpha_k): E[theta_k | theta_k >= q] has a closed form. An integer K stands
    for the flat Dir(1, ..., 1), where it is x + (1-x)/K with x = 1 - 2^(-T/(K-1)).
    It does not apply to absolute tolerances or the soft kernel.
    """
    a = np.ones(alpha) if isinstance(alpha, (int, np.integer)) else np.asarray(alpha, dtype=float)
    a = a[a > 0]
    if a.size == 1:
        return 1.0
    keep = 0.5**populations
    if np.all(a == 1):
        corner = 1 - keep ** (1 / (a.size - 1))
        return float(corner + (1 - corner) / a.size)
    from scipy.special import betaincc, betainccinv  # slow to import, and the usual prior is flat

    rest = a.sum() - a
    q = betainccinv(a, rest, keep)
    top = a / a.sum() * betaincc(a + 1, rest, q) / keep
    top = np.where(q >= 1, 1.0, top)  # a sparse prior has that much mass within rounding of the corner
    return float(np.clip(np.max(top), np.max(a) / a.sum(), 1.0))
