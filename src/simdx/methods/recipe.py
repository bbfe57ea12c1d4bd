"""The shipped recipe (`--method auto`): one for every panel, and no label of any case behind it.

labels         the log posterior is the learned summary plus a share of the self-consistent kernel, sharpened,
               plus the log prior (`comparison`)
none of these  the background and novelty (`outside`)
second order   D-SMC in closed form on the same bank (`smc`)

The constants are the same for every panel. They were chosen on simulated text: fitted to one bank of a panel,
judged on the other bank as pseudo-cases, all packaged panels together (docs/recipe.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import log_softmax

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.methods.crossfit import CrossFitted
from simdx.methods.fitted import Carried, Fitted, Inferred, Settings
from simdx.methods.material import Material, Observations, gather
from simdx.methods.outside import fit_outside
from simdx.methods.smc import SimplexPosterior
from simdx.types import Float, Posterior, SecondOrder

# Bandwidth and kernel share belong to the comparison and are the same wherever it is used.
SHARPNESS = 1.5


class AmongLabels:
    """The comparison with simulations and real cases, pooled to a posterior among the labels."""

    def __init__(self, material: Material, bandwidth: float | None = None) -> None:
        rows = gather(material, np.arange(len(material.bank.texts)), background=False)
        self.comparison = Comparison.fit(
            material.lexicon, rows.texts, rows.bank, bandwidth=bandwidth or BANDWIDTH, self_consistent=True,
            weight=rows.weight, real=rows.real,
        )  # fmt: skip
        # Label-sorted rows that are simulations: what may be shown as evidence.
        self.simulated = np.flatnonzero(self.comparison.space.rows < len(material.bank.texts))

    def __call__(self, observations: Observations, prior: Prior) -> Posterior:
        c = self.comparison
        lexical, joint = c.observe(observations)
        carried = exact.multinomial(
            c.bank, c.label_index, c.n_labels, joint, prior, bandwidth=c.bandwidth, bias=c.bias,
            row_weight=c.weight,
        )  # fmt: skip
        posterior = pool(c.summary(lexical), c.kernel(joint), prior.probabilities)
        return Posterior(posterior, carried.effective_simulations, carried.tolerance)

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


class Recipe(Fitted):
    """The recipe fitted to a bank, with real cases beside it where there are some."""

    kernel = "soft"
    proportional = True

    def __init__(self, material: Material, settings: Settings) -> None:
        super().__init__(material)
        self.labels = CrossFitted(material, lambda part: AmongLabels(part, settings.bandwidth))
        self.outside = fit_outside(material)
        self.none_of_these = self.outside is not None
        self.simplex: SimplexPosterior = SimplexPosterior(
            material, replace(settings, kernel=None, tolerance=None)
        )

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        parts = [(rows, labels(part, prior)) for rows, part, labels in self.labels.parts(observations)]
        if len(parts) == 1:
            return Inferred(parts[0][1])
        n = len(observations.texts)
        out = Posterior(np.empty((n, prior.n_labels)), np.empty(n), np.empty(n))
        for rows, found in parts:
            out.probabilities[rows] = found.probabilities
            out.effective_simulations[rows] = found.effective_simulations
            out.tolerance[rows] = found.tolerance
        return Inferred(out)

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        if self.outside is None:
            return None
        return self.outside.join(observations, lambda outside, part: outside(part, prior))

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return self.simplex(observations, prior).second_order

    def carried(self, observations: Observations, prior: Prior) -> Carried:
        whole = self.labels.whole
        space = whole.comparison.space
        return Carried(
            space.label_index[whole.simulated],
            space.rows[whole.simulated],
            self.labels.join(observations, lambda labels, part: labels.distances(part)),
            self.labels.join(observations, lambda labels, part: labels.shares(part, prior)),
        )


def pool(summary: Float, kernel: Float, prior: Float) -> Float:
    """(N, K) posteriors from the two log-likelihoods and a prior (K,) or (N, K)."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    pooled = SHARPNESS * (log_softmax(summary, axis=1) + KERNEL_SHARE * log_softmax(kernel, axis=1))
    return np.exp(log_softmax(pooled + log_prior, axis=1))


def fit_recipe(material: Material, settings: Settings) -> Fitted:
    if settings.engine != "exact":
        raise BadInput("--method auto is the exact engine: choose --method m-smc or d-smc for another engine")
    if settings.kernel == "hard":
        raise BadInput("--method auto has a soft kernel: choose --method m-smc for the hard one")
    return Recipe(material, settings)
