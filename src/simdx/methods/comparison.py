"""Two ways to compare a case with simulations, pooled: a soft kernel and a learned summary.

kernel    M-SMC with a soft kernel in a joint space, half lexical and half embedded; label biases make it
          self-consistent: averaged over the bank, left out one by one, its posteriors return the prior
summary   Fearnhead and Prangle's idea: the best summary of a text for inference about its label is its
          regression on the label, learned from simulations alone; here logistic, on the lexical block

Both are log-likelihoods up to a constant per case; the pool adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import log_softmax

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.space import Apart, Space
from simdx.methods.lexical import LastBatch, LexicalSpace, Lexicon
from simdx.methods.logistic import Logistic, fit_logistic
from simdx.methods.material import Observations, RealRows
from simdx.types import EmbeddedBank, Float, Int

LEXICAL_SHARE = 0.5  # of the joint cosine; the embedders share the rest equally
BANDWIDTH = 0.07  # of the kernel
KERNEL_SHARE = 1.0  # weight of the kernel's log-likelihood beside the summary's
PENALTY = 0.1  # of the logistic regression, on unit vectors
SMALLEST = 1e-12  # a label's kernel share below this is rounding, not evidence


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Both comparisons, fitted to labelled simulations."""

    space: Space
    lexical: LexicalSpace  # its own rows are in the order before the last label was split
    bank: Float  # (n, r) joint rows, label-sorted
    label_index: Int
    n_labels: int
    logistic: Logistic
    bandwidth: float
    bias: Float  # (K,)
    weight: Float | None = None  # (n,) how many simulations each row counts as; None: one each
    last: LastBatch = field(default_factory=LastBatch)

    @classmethod
    def fit(
        cls,
        lexicon: Lexicon,
        texts: Sequence[str],
        bank: EmbeddedBank,
        *,
        bandwidth: float,
        self_consistent: bool,
        penalty: float = PENALTY,
        weight: Float | None = None,
        real: RealRows | None = None,
        split_last: Callable[[Float], Int] | None = None,
    ) -> Comparison:
        """Fit to a bank; the options are for callers who know more about its rows than their labels.

        `weight` (n,), in the bank's order: how many simulations each row counts as, within its label.
        `real`: which rows are not simulations.
        `split_last`, joint rows -> part of each: the last label becomes as many labels as it has parts.
        """
        embedded_apart = lexical_apart = None
        if real is not None and real.centre is not None:
            embedded_apart = Apart(real.rows, real.centre.embedded)
        space = Space.fit(bank, centre=True, apart=embedded_apart)
        if real is not None and real.centre is not None:
            lexical_apart = Apart(real.rows[space.rows], real.centre.lexical)
        lexical = LexicalSpace(lexicon, [texts[i] for i in space.rows], lexical_apart)
        words = lexical.bank
        joint = joint_rows(words, space.bank)
        if split_last is not None:
            space, order = with_last_split(space, split_last(joint[space.label_index == space.n_labels - 1]))
            words, joint = words[order], joint[order]
        label, n_labels = space.label_index, space.n_labels
        sorted_weight = None if weight is None else np.asarray(weight, dtype=float)[space.rows]
        logistic = fit_logistic(words, label, n_labels, penalty, sorted_weight)
        bias: Float = np.zeros(n_labels)
        if self_consistent:
            # Not by texts whose labels were inferred: each stands under several, and would find itself there.
            known = np.ones(len(label), dtype=bool) if real is None else ~real.inferred[space.rows]
            each = None if sorted_weight is None else sorted_weight[known]
            bias = self_consistent_bias(joint[known], label[known], n_labels, bandwidth, each)
        return cls(space, lexical, joint, label, n_labels, logistic, bandwidth, bias, sorted_weight)

    def observe(self, observations: Observations) -> tuple[Float, Float]:
        """(lexical rows, joint rows) of cases."""

        def make() -> tuple[Float, Float]:
            lexical = self.lexical.transform(observations.texts)
            return lexical, joint_rows(lexical, self.space.transform(observations.vectors))

        return self.last.get(observations.texts, make)

    def summary(self, lexical: Float) -> Float:
        """(N, K) log-probabilities of the learned summary under a uniform prior."""
        return self.logistic.log_probabilities(lexical)

    def kernel(self, joint: Float) -> Float:
        """(N, K) log-probabilities of the soft kernel under a uniform prior."""
        posterior = exact.multinomial(
            self.bank, self.label_index, self.n_labels, joint, Prior.uniform(self.n_labels),
            kernel="soft", bandwidth=self.bandwidth, bias=self.bias, row_weight=self.weight,
        )  # fmt: skip
        return np.log(np.maximum(posterior.probabilities, SMALLEST))


def with_last_split(space: Space, part: Int) -> tuple[Space, Int]:
    """The space with its last label divided into parts 0, 1, …, and the order its rows were brought into."""
    first = len(space.label_index) - len(part)
    order = np.concatenate([np.arange(first), first + np.argsort(part, kind="stable")])
    finer = np.concatenate([space.label_index[:first], space.n_labels - 1 + np.sort(part)])
    split = replace(
        space,
        bank=space.bank[order],
        label_index=finer,
        rows=space.rows[order],
        n_labels=space.n_labels + int(part.max()),
    )
    return split, order


def joint_rows(lexical: Float, embedded: Float) -> Float:
    """Rows whose dot product is the weighted mean of the two cosines."""
    parts = (np.sqrt(LEXICAL_SHARE) * lexical, np.sqrt(1 - LEXICAL_SHARE) * embedded)
    return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)


def self_consistent_bias(
    rows: Float, label_index: Int, n_labels: int, bandwidth: float, weight: Float | None = None
) -> Float:
    """Label biases under which the bank's leave-one-out posteriors average to the uniform prior.

    A Bayesian posterior averaged over the prior predictive is the prior; a finite bank and a kernel break
    that, and this mends it. A label with a single simulation cannot be left out and keeps the average.
    """
    n = len(label_index)
    each = np.ones(n) if weight is None else weight
    counts = np.bincount(label_index, minlength=n_labels)
    mass = np.bincount(label_index, weights=each, minlength=n_labels)
    starts = np.searchsorted(label_index, np.arange(n_labels))
    log_density = np.empty((n, n_labels))
    step = max(1, 4_000_000 // max(n, 1))
    for start in range(0, n, step):
        part = slice(start, min(n, start + step))
        near = np.exp((rows[part] @ rows.T - 1).astype(np.float64) / bandwidth) * each
        here = np.arange(part.stop - start)
        near[here, here + start] = 0
        own = label_index[part]
        others = np.tile(mass, (len(own), 1))
        alone = counts[own] == 1
        others[here, own] = np.where(alone, 1.0, mass[own] - each[part])
        sums = np.add.reduceat(near, starts, axis=1)
        log_density[part] = np.log(np.maximum(sums / others, 1e-300))
    usable = counts[label_index] > 1
    if not usable.any():
        return np.zeros(n_labels)
    share = (each / mass[label_index])[usable]
    share /= share.sum()
    bias = np.zeros(n_labels)
    for _ in range(500):
        mean = share @ np.exp(log_softmax(log_density[usable] + bias, axis=1))
        change = -np.log(np.maximum(n_labels * mean, 1e-12))
        bias += change - change.mean()
        if np.abs(change - change.mean()).max() < 1e-9:
            break
    return bias
