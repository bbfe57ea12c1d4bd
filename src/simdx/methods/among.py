"""The comparison with simulations and real cases, pooled to a posterior among the labels.

The log posterior is the learned summary plus the self-consistent kernel (`comparison`), sharpened and shifted
as the calibration says, plus the log prior.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.methods.calibration import Calibration
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.methods.material import Material, Observations, gather
from simdx.types import Float, Posterior


class AmongLabels:
    """Fitted to a bank, with real cases beside it where there are some."""

    def __init__(self, material: Material, bandwidth: float | None = None) -> None:
        self._calibration = material.calibration or Calibration()
        rows = gather(material, np.arange(len(material.bank.texts)), background=False)
        self.comparison = Comparison.fit(
            material.lexicon, rows.texts, rows.bank, bandwidth=bandwidth or BANDWIDTH, self_consistent=True,
            weight=rows.weight, real=rows.real,
        )  # fmt: skip
        # Label-sorted rows that are simulations: what may be shown as evidence.
        self.simulated = np.flatnonzero(self.comparison.space.rows < len(material.bank.texts))

    def __call__(self, observations: Observations, prior: Prior) -> Posterior:
        c = self.comparison
        _, joint = c.observe(observations)
        carried = exact.multinomial(
            c.bank, c.label_index, c.n_labels, joint, prior, bandwidth=c.bandwidth, bias=c.bias,
            row_weight=c.weight,
        )  # fmt: skip
        posterior = sharpened(self.log_likelihood(observations), prior.probabilities, self._calibration)
        return Posterior(posterior, carried.effective_simulations, carried.tolerance)

    def log_likelihood(self, observations: Observations) -> Float:
        """(N, K) what both comparisons say, not yet sharpened."""
        c = self.comparison
        lexical, joint = c.observe(observations)
        kernel = KERNEL_SHARE * log_softmax(c.kernel(joint), axis=1)
        return log_softmax(c.summary(lexical), axis=1) + kernel

    def shares(self, observations: Observations, prior: Prior) -> Float:
        """(N, n) the simulations' shares of the kernel's answer; real cases carry what is missing to one."""
        c = self.comparison
        _, joint = c.observe(observations)
        shares = exact.simulation_weights(
            c.bank, c.label_index, c.n_labels, joint, prior, bandwidth=c.bandwidth, bias=c.bias,
            row_weight=c.weight,
        )  # fmt: skip
        return shares[:, self.simulated]

    def distances(self, observations: Observations) -> Float:
        """(N, n) joint distances to every simulation."""
        _, joint = self.comparison.observe(observations)
        return (1 - joint @ self.comparison.bank.T)[:, self.simulated]


def sharpened(log_likelihood: Float, prior: Float, calibration: Calibration) -> Float:
    """(N, K) posteriors from log-likelihoods and a prior (K,) or (N, K)."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    shift = np.array(calibration.shift) if calibration.shift else 0.0
    return np.exp(log_softmax(calibration.sharpness * log_likelihood + shift + log_prior, axis=1))
