"""The comparison with simulations and real cases, pooled to a posterior among the labels.

The log posterior is the learned summary plus the self-consistent kernel (`comparison`), sharpened and shifted
as the calibration says, plus the log prior.
"""

from __future__ import annotations

import numpy as np

from simdx.abc.logs import log_softmax
from simdx.abc.prior import Prior
from simdx.methods.calibration import Calibration
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison, Near
from simdx.methods.material import Material, Observations, gather
from simdx.types import Float, Posterior


class AmongLabels:
    """Fitted to a bank, with real cases beside it where there are some."""

    def __init__(
        self, material: Material, bandwidth: float | None = None, comparison: Comparison | None = None
    ) -> None:
        """`comparison`: where it was fitted before."""
        self._calibration = material.calibration or Calibration()
        self.comparison = comparison or self._fitted(material, bandwidth)
        # Label-sorted rows that are simulations: what may be shown as evidence.
        self.simulated = np.flatnonzero(self.comparison.space.rows < len(material.bank.texts))

    @staticmethod
    def _fitted(material: Material, bandwidth: float | None) -> Comparison:
        rows = gather(material, np.arange(len(material.bank.texts)), background=False)
        return Comparison.fit(
            material.lexicon, rows.texts, rows.bank, bandwidth=bandwidth or BANDWIDTH, self_consistent=True,
            weight=rows.weight, real=rows.real, places=rows.places,
        )  # fmt: skip

    def __call__(self, observations: Observations, prior: Prior) -> Posterior:
        c = self.comparison
        likelihood, near = self._compared(observations)
        posterior = sharpened(likelihood, prior.probabilities, self._calibration)
        return Posterior(
            posterior, c.effective(near, prior.probabilities), np.full(len(posterior), c.bandwidth)
        )

    def log_likelihood(self, observations: Observations) -> Float:
        """(N, K) what both comparisons say, not yet sharpened."""
        return self._compared(observations)[0]

    def _compared(self, observations: Observations) -> tuple[Float, Near]:
        c = self.comparison
        seen = c.observe(observations)
        near = c.near(seen)
        return c.summary(seen) + KERNEL_SHARE * log_softmax(c.kernel(near), axis=1), near

    def carried(self, observations: Observations, prior: Prior) -> tuple[Float, Float]:
        """(N, n) each: joint distances to every simulation, and their shares of the kernel's answer.

        Real cases carry what is missing to one.
        """
        c = self.comparison
        cosine = c.cosine(c.observe(observations))
        return (1 - cosine)[:, self.simulated], c.shares(cosine, prior.probabilities)[:, self.simulated]


def sharpened(log_likelihood: Float, prior: Float, calibration: Calibration) -> Float:
    """(N, K) posteriors from log-likelihoods and a prior (K,) or (N, K)."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    shift = np.array(calibration.shift) if calibration.shift else 0.0
    return np.exp(log_softmax(calibration.sharpness * log_likelihood + shift + log_prior, axis=1))
