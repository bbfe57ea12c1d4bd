"""A pool of experts: each representation of a text brings its own log-likelihood, and they are added.

first   the recipe's two scores on words and on the first embedder (`scores`)
second  a logistic regression on the vectors of the other embedders: a sentence encoder sees what words do
        not say. It is fitted to the same simulations

    score_k = first_k + weight · second_k,   first_k = 2 (share · regression_k + (1 − share) · kernel_k)
    log p_k = log mean over s of softmax_k(s · score + shift + residual · direction),
              log s ~ Normal(log sharpness, spread²)

The mean over sharpness says that nobody knows how sure a new panel's answers should be: at a spread of 0 it
is the plug-in answer, and a wider one is softer where it was surest. It is taken under the uniform prior, so
that the prior still enters by Bayes' rule. Share, weight, sharpness, spread, shift and residual are the
calibration's (`calibration`). The direction of a text is its place in the sentence encoder's space, or in the
first embedder's where there is no other; only labelled cases have a residual to multiply it with.

One joined vector, which this replaces, let the second embedder move only the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simdx.abc.logs import log_softmax, logsumexp
from simdx.abc.space import Apart, Space
from simdx.methods.calibration_record import Calibration
from simdx.methods.logistic import Logistic, fit_logistic
from simdx.methods.panel_data import Observations, PanelData, TrainingRows, gather
from simdx.methods.scores import BANDWIDTH, Comparison
from simdx.methods.speed import Arrays, named, part
from simdx.types import Float, Int, Mask

SECOND_PENALTY = 0.1  # of the second expert's regression, on unit vectors
# Of a mean over a standard normal variable, here log sharpness: Gauss and Hermite's five points.
NODES, _MASS = np.polynomial.hermite_e.hermegauss(5)
LOG_MASS = np.log(_MASS / _MASS.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SecondExpert:
    """A regression on the blocks of a vector after the first."""

    space: Space  # of those blocks
    model: Logistic

    @classmethod
    def fit(cls, rows: TrainingRows, label_index: Int | None = None) -> SecondExpert | None:
        """None where there is one embedder. `label_index`: finer labels than the rows' own."""
        first, *others = rows.bank.blocks
        if not others:
            return None
        label = rows.bank.label_index if label_index is None else label_index
        bank = replace(
            rows.bank,
            vectors=rows.bank.vectors[:, first:],
            blocks=tuple(others),
            label_index=label,
            n_labels=int(label.max()) + 1,
        )
        apart = None
        if rows.real is not None and rows.centre is not None:
            apart = Apart(rows.real, rows.centre.embedded[first:])
        space = Space.fit(bank, centre=True, apart=apart)
        weight = None if rows.weight is None else rows.weight[space.rows]
        return cls(space, fit_logistic(space.bank, space.label_index, space.n_labels, SECOND_PENALTY, weight))

    def scores(self, observations: Observations) -> Float:
        """(N, K) what log-probabilities are made of."""
        return self.model.scores(self.placed(observations))

    def placed(self, observations: Observations) -> Float:
        """(N, d) unit directions around the bank's mean."""
        return self.space.transform(observations.vectors[:, -sum(self.space.blocks) :])

    def log_likelihood(self, observations: Observations) -> Float:
        return log_softmax(self.scores(observations), axis=1)

    def arrays(self) -> dict[str, Float]:
        assert self.space.mean is not None
        return {"weights": self.model.weights, "bias": self.model.bias, "mean": self.space.mean}

    @classmethod
    def from_arrays(cls, arrays: Arrays, blocks: tuple[int, ...]) -> SecondExpert | None:
        """What `fit` made; the rows it was fitted to are not needed any more."""
        if not arrays:
            return None
        mean, n_labels = arrays["mean"], len(arrays["bias"])
        none = np.zeros(0, dtype=np.int64)
        space = Space.placed(np.zeros((0, len(mean))), none, none, n_labels, blocks[1:], mean)
        return cls(space, Logistic(arrays["weights"], arrays["bias"]))


def first_block(rows: TrainingRows) -> TrainingRows:
    """The rows as the first expert sees them."""
    first, *others = rows.bank.blocks
    if not others:
        return rows
    bank = replace(rows.bank, vectors=rows.bank.vectors[:, :first], blocks=(first,))
    centre = None if rows.centre is None else replace(rows.centre, embedded=rows.centre.embedded[:first])
    return replace(rows, bank=bank, centre=centre)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Both experts, fitted to the labels' simulations."""

    first: Comparison
    second: SecondExpert | None

    @classmethod
    def fit(cls, data: PanelData, bandwidth: float | None = None) -> Pool:
        """Every simulation, and real cases beside them where there are some."""
        kept = data.kept("labels") if bandwidth is None else {}
        if kept:
            return cls(
                Comparison.from_arrays(kept, data, BANDWIDTH),
                SecondExpert.from_arrays(part(kept, "second"), data.embedded.blocks),
            )
        rows = gather(data, np.arange(len(data.bank.texts)), background=False)
        first = Comparison.fit(
            data.lexicon, first_block(rows), bandwidth=bandwidth or BANDWIDTH, self_consistent=True
        )
        return cls(first, SecondExpert.fit(rows))

    def log_likelihoods(self, observations: Observations) -> LogLikelihoods:
        first, kernel = self.first.log_likelihood(observations)
        second = None if self.second is None else self.second.log_likelihood(observations)
        return LogLikelihoods(first, second, kernel, self.direction(observations))

    def direction(self, observations: Observations) -> Float:
        """(N, d) where texts lie around the bank's mean: what a residual is linear in."""
        if self.second is not None:
            return self.second.placed(observations).astype(np.float64)
        return self.first.observe(observations).embedded

    def arrays(self) -> dict[str, Float]:
        return {**self.first.arrays(), **named(second=self.second)}


@dataclass(frozen=True, slots=True, eq=False)
class LogLikelihoods:
    """(N, K) of each expert, up to a constant per case."""

    first: Float  # regression and kernel added
    second: Float | None = None
    kernel: Float | None = None  # its part of the first; None: there is nothing to weigh
    direction: Float | None = None  # (N, d); None: a residual has nothing to be linear in

    def at(self, rows: Int | Mask) -> LogLikelihoods:
        perhaps = (self.second, self.kernel, self.direction)
        return LogLikelihoods(self.first[rows], *(p if p is None else p[rows] for p in perhaps))

    def pooled(self, calibration: Calibration) -> Float:
        score, share = self.first, calibration.share
        if self.kernel is not None and share != 0.5:
            score = 2 * share * score + 2 * (1 - 2 * share) * self.kernel
        return score if self.second is None else score + calibration.weight * self.second

    def under(self, calibration: Calibration) -> Float:
        """(N, K) log-probabilities under the uniform prior, as sure as the calibration says."""
        score = self.pooled(calibration)
        shift: Any = np.array(calibration.shift) if calibration.shift else 0.0
        weights = calibration.residual_weights
        if weights is not None and self.direction is not None:
            shift = shift + self.direction @ weights[:-1].T
        if not calibration.spread:
            return log_softmax(calibration.sharpness * score + shift, axis=1)
        sharpness = calibration.sharpness * np.exp(calibration.spread * NODES[:, None, None])
        return logsumexp(log_softmax(sharpness * score + shift) + LOG_MASS[:, None, None], axis=0)


def joined(found: Sequence[LogLikelihoods]) -> LogLikelihoods:
    def whole(name: str) -> Float | None:
        parts = [part for part in (getattr(f, name) for f in found) if part is not None]
        return np.concatenate(parts) if len(parts) == len(found) else None

    return LogLikelihoods(
        np.concatenate([f.first for f in found]), whole("second"), whole("kernel"), whole("direction")
    )
