"""The shipped recipe (`--method auto`): one for every panel, and no label of any case behind it.

The log posterior is the learned summary plus a share of the self-consistent kernel, sharpened, plus the
log prior. The constants below are the same for every panel. They were chosen on simulated text: fitted to
one bank of a panel, judged on the other bank as pseudo-cases, all packaged panels together (docs/recipe.md).
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.types import Float, Posterior, Trace

# Bandwidth and kernel share belong to the pool and are the same wherever it is used.
SHARPNESS = 1.5


class Recipe:
    """The recipe fitted to a bank."""

    def __init__(self, material: Material, bandwidth: float | None = None) -> None:
        self.comparison = Comparison.fit(
            material.lexicon,
            material.bank.texts,
            material.embedded,
            bandwidth=bandwidth or BANDWIDTH,
            self_consistent=True,
        )

    def __call__(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        c = self.comparison
        lexical, joint = c.observe(observations)
        carried = exact.multinomial(
            c.bank, c.label_index, c.n_labels, joint, prior, bandwidth=c.bandwidth, bias=c.bias
        )
        posterior = pool(c.summary(lexical), c.kernel(joint), prior.probabilities)
        return Posterior(posterior, carried.effective_simulations, carried.tolerance), None

    def weights(self, observations: Observations, prior: Prior) -> Float:
        """(N, n) what share of the kernel's answer every bank row carries, label-sorted like the space."""
        c = self.comparison
        _, joint = c.observe(observations)
        return exact.simulation_weights(
            c.bank, c.label_index, c.n_labels, joint, prior, bandwidth=c.bandwidth, bias=c.bias
        )

    def distances(self, observations: Observations) -> Float:
        """(N, n) joint distances to every bank row, in the same order."""
        _, joint = self.comparison.observe(observations)
        return 1 - joint @ self.comparison.bank.T


def pool(summary: Float, kernel: Float, prior: Float) -> Float:
    """(N, K) posteriors from the two log-likelihoods and a prior (K,) or (N, K)."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    pooled = SHARPNESS * (log_softmax(summary, axis=1) + KERNEL_SHARE * log_softmax(kernel, axis=1))
    return np.exp(log_softmax(pooled + log_prior, axis=1))


def fit_recipe(material: Material, settings: Settings) -> Infer:
    if settings.engine != "exact":
        raise BadInput("--method auto is the exact engine: choose --method m-smc or d-smc for another engine")
    if settings.kernel == "hard":
        raise BadInput("--method auto has a soft kernel: choose --method m-smc for the hard one")
    return Recipe(material, settings.bandwidth)
