"""The shipped recipe (`--method auto`): one for every panel, and no label of any case behind it.

For a text x and the K labels of a panel,

    score_k   = 2 share · log softmax_k(W·t(x) + b)        regression on lexical rows t    (`scores`)
              + 2 (1 − share) · kernel_k                                                   (`scores`)
              + weight · log softmax_k(V·e(x) + c)         regression on a sentence encoder e (`experts`)
    inside_k  ∝ mean over sharpness of softmax_k(sharpness · score + learned) · prior_k    (`calibration`)
    none      = sigmoid(log odds of another condition, or of another kind of text + learned)    (`outside`)
    posterior = (1 − none) · inside + none · prior                                         (`fitted`)

kernel_k is log mean_{i in label k} exp(cos(x, x_i)/h) + bias_k, normalised over k; x_i are simulated texts,
cos the mean of a lexical and an embedded cosine (`features`); learned is what labelled cases add, and 0
without them. The second order of an answer is D-SMC in closed form on the same bank (`smc`). Bandwidth,
penalty and shares are the same for every panel, chosen on simulated text (docs/recipe.md). Sharpness, and
where none of these begins, are found for each bank. A text that is also in the archive is answered by a fit
without it (`CrossFitted`).
"""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from simdx.abc.logs import log_softmax
from simdx.abc.prior import Prior
from simdx.abc.space import Typicality
from simdx.disk import CannotWrite, arrays_hash
from simdx.errors import BadInput
from simdx.methods.calibration import calibrated
from simdx.methods.calibration_record import Calibration
from simdx.methods.experts import LogLikelihoods, Pool
from simdx.methods.fitted import (
    AnswerTable,
    CrossFitted,
    EvidenceWeights,
    Fitted,
    Inferred,
    Settings,
    chunked,
)
from simdx.methods.outside import Outside
from simdx.methods.panel_data import Observations, PanelData
from simdx.methods.smc import SimplexPosterior
from simdx.methods.speed import keep, named
from simdx.types import Float, Posterior, SecondOrder

NOT_FITTED = ("policy.", "words.")  # arrays of a compiled panel that the decision layer put there


class LabelPosterior:
    """Among the labels: the experts' scores, pooled, sharpened and shifted, times the prior."""

    def __init__(self, data: PanelData, bandwidth: float | None = None) -> None:
        self.calibration = data.calibration or Calibration()
        self.pool = Pool.fit(data, bandwidth)
        self.comparison = self.pool.first
        # Label-sorted rows that are simulations: what may be shown as evidence.
        self.simulated = np.flatnonzero(self.comparison.space.rows < len(data.bank.texts))

    def __call__(self, observations: Observations, prior: Prior) -> Posterior:
        c, p = self.comparison, prior.probabilities
        seen = c.observe(observations)
        near = c.near(seen)
        first, kernel = c.pooled(seen, near)
        second = None if self.pool.second is None else self.pool.second.log_likelihood(observations)
        found = LogLikelihoods(first, second, kernel, self.direction(observations))
        posterior = sharpened(found, p, self.calibration)
        return Posterior(posterior, c.effective(near, p), np.full(len(posterior), c.bandwidth))

    def direction(self, observations: Observations) -> Float | None:
        return self.pool.direction(observations) if self.calibration.residual else None

    def of_none(self, observations: Observations) -> Float | float:
        """(N,) log odds of none of these that labelled cases add."""
        weights, direction = self.calibration.residual_weights, self.direction(observations)
        return 0.0 if weights is None or direction is None else direction @ weights[-1]

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        """Joint distances to every simulation, and their shares of the kernel's answer.

        Shares of real cases are left out, so the sum may be below one.
        """
        c, own = self.comparison, self.simulated
        cosine = c.cosine(c.observe(observations))
        share = c.shares(cosine, prior.probabilities)
        return EvidenceWeights(
            c.space.label_index[own], c.space.rows[own], (1 - cosine)[:, own], share[:, own]
        )


def sharpened(found: LogLikelihoods, prior: Float, calibration: Calibration) -> Float:
    """(N, K) posteriors from log-likelihoods and a prior (K,) or (N, K)."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    return np.exp(log_softmax(found.under(calibration) + log_prior, axis=1))


class Recipe(Fitted):
    """The recipe fitted to a bank, with real cases beside it where there are some."""

    kernel = "soft"
    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        data = calibrated(data, settings.bandwidth)
        super().__init__(data)
        self.calibration = data.calibration
        self.labels = LabelPosterior(data, settings.bandwidth)
        self.outside = Outside.fit(data)
        self.none_of_these = self.outside is not None
        self.world = None if self.outside is None else self.outside.world
        self.simplex: SimplexPosterior = SimplexPosterior(
            data, replace(settings, kernel=None, tolerance=None)
        )
        self._usual = settings.bandwidth is None and data.real is None
        if (
            self._usual
            and data.compiled is None
            and data.address is not None
            and data.lexicon.own is not None
        ):
            with suppress(CannotWrite):  # a fit can be made again
                keep(data.address, self.arrays() or {})

    def arrays(self) -> dict[str, Float] | None:
        """All of it that depends on panel, bank and embedder alone."""
        if not self._usual or self.data.lexicon.own is None:
            return None
        if self.data.compiled is not None:
            return {n: a for n, a in self.data.compiled.items() if not n.startswith(NOT_FITTED)}
        outside = {} if self.outside is None else self.outside.arrays()
        fitted = {**named(labels=self.labels.pool), **outside, "typicality": self.typicality.reference}
        return self.data.arrays() | fitted

    @cached_property
    def identity(self) -> str | None:
        arrays = self.arrays()
        return None if arrays is None else arrays_hash(arrays)[:16]

    @cached_property
    def typicality(self) -> Typicality:
        arrays = self.data.compiled
        if arrays is None:
            return Typicality.fit(self.space.bank)
        return Typicality.known(self.space.bank, arrays["typicality"])

    def answer(self, observations: Observations, prior: Prior) -> AnswerTable:
        return chunked(super().answer, observations, prior)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        return Inferred(self.labels(observations, prior))

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        if self.outside is None:
            return None
        return self.outside(observations, prior, self.labels.of_none(observations))

    def second_order(
        self, observations: Observations, prior: Prior, posterior: Posterior
    ) -> SecondOrder | None:
        return self.simplex(observations, prior).second_order

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        return self.labels.evidence(observations, prior)


def fit_recipe(data: PanelData, settings: Settings) -> Fitted:
    if settings.engine != "exact":
        raise BadInput("--method auto is the exact engine: choose --method m-smc or d-smc for another engine")
    if settings.kernel == "hard":
        raise BadInput("--method auto has a soft kernel: choose --method m-smc for the hard one")
    if not data.has_archive:
        return Recipe(data, settings)
    return CrossFitted(calibrated(data, settings.bandwidth), lambda part: Recipe(part, settings))
