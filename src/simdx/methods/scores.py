"""Scores: two ways to compare a case with simulations, each a log-likelihood up to a constant per case.

regression  Fearnhead and Prangle's idea: the best summary of a text for inference about its label is its
            regression on the label, learned from simulations alone; here logistic, on the lexical rows
kernel      M-SMC with a soft kernel in a joint space, half lexical and half embedded: the logarithm of the
            mean over a label's rows of exp(cosine / bandwidth). A bias for each label makes it
            self-consistent: averaged over the bank, left out one by one, its posteriors return the prior

Their sum is what the background competes in (`outside`). Among the labels a bank weighs one against the other
by what its own held-out texts say (`calibration`): the regression fails where cases share few words with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from simdx.abc.logs import log_softmax, logsumexp
from simdx.abc.space import Apart, Space
from simdx.methods.features import LexicalBasis, LexicalSpace, Lexicon
from simdx.methods.logistic import PENALTY, Logistic, fit_logistic
from simdx.methods.panel_data import Observations, PanelData, TrainingRows
from simdx.methods.speed import Arrays, OneSlotCache, named, part
from simdx.types import Float, Int

LEXICAL_SHARE = 0.5  # of the joint cosine; the embedders share the rest equally
BANDWIDTH = 0.07  # of the kernel
SMALLEST = 1e-12  # a label's kernel share below this is rounding, not evidence


class Seen(NamedTuple):
    lexical: Float  # (N, basis) centred cosines to the texts of the basis
    embedded: Float  # (N, d) placed in the bank's space


class Near(NamedTuple):
    """How near cases are to each label's rows, under the kernel; up to a constant per case."""

    log_density: Float  # (N, K) logarithm of the mean kernel over a label's rows
    terms: Float  # (N, n) of the kernel, each case's largest at 1


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """A regression on the lexical or the joint rows, as weights of what a case is seen by."""

    lexical: Float  # (basis, K)
    bias: Float  # (K,)
    embedded: Float | None = None  # (d, K); None: of the lexical rows alone

    @classmethod
    def of(cls, fitted: Logistic, project: Float, *, joint: bool) -> Summary:
        """From weights of coordinates to weights of cosines: coordinates are cosines times `project`."""
        if not joint:
            return cls(project @ fitted.weights, fitted.bias)
        words, embedded = np.split(fitted.weights, [project.shape[1]])
        scale = np.sqrt(LEXICAL_SHARE), np.sqrt(1 - LEXICAL_SHARE)
        return cls(scale[0] * (project @ words), fitted.bias, scale[1] * embedded)

    def scores(self, seen: Seen) -> Float:
        """(N, K) what log-probabilities are made of; the penalty keeps their mean over labels at zero."""
        found = seen.lexical @ self.lexical + self.bias
        return found if self.embedded is None else found + seen.embedded @ self.embedded

    def arrays(self) -> dict[str, Float]:
        embedded = {} if self.embedded is None else {"embedded": self.embedded}
        return {"lexical": self.lexical, "bias": self.bias, **embedded}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Regression and kernel, fitted to labelled simulations.

    Products are in double precision and of the size of the batch, so that an answer is the same to 1e-9
    whatever is asked with it.
    """

    space: Space
    lexical: LexicalBasis  # the rows' own texts in their order, or some texts that span them
    through: Float | None  # (basis, n) from cosines to the basis to those to the rows; None: the same
    embedded: Float  # (n, d) label-sorted
    label_index: Int
    n_labels: int
    regressed: Summary
    bandwidth: float
    bias: Float  # (K,)
    weight: Float | None = None  # (n,) how many simulations each row counts as; None: one each
    joint: Summary | None = None  # the same labels told apart by the joint rows, where that was asked for
    last: OneSlotCache = field(default_factory=OneSlotCache)

    @classmethod
    def fit(
        cls,
        lexicon: Lexicon,
        rows: TrainingRows,
        *,
        bandwidth: float,
        self_consistent: bool,
        split_last: Callable[[Float], Int] | None = None,
        regress_joint: bool = False,
    ) -> Comparison:
        """Fit to rows. `split_last`, joint rows -> part of each: the last label becomes as many labels as it
        has parts.
        """
        real, centre = rows.real, rows.centre
        apart = None if real is None or centre is None else Apart(real, centre.embedded)
        space = Space.fit(rows.bank, centre=True, apart=apart)
        lexical = LexicalSpace(
            lexicon,
            [rows.texts[i] for i in space.rows],
            None if real is None or centre is None else Apart(real[space.rows], centre.lexical),
            None if rows.places is None or lexicon.own is None else rows.places[space.rows],
        )
        words, project, basis = lexical.bank, lexical.project, lexical.basis
        # Rows whose dot product is the weighted mean of the two cosines.
        parts = (np.sqrt(LEXICAL_SHARE) * words, np.sqrt(1 - LEXICAL_SHARE) * space.bank)
        joint = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
        order: Int = np.arange(len(words))
        if split_last is not None:
            space, order = with_last_split(space, split_last(joint[space.label_index == space.n_labels - 1]))
            words, joint = words[order], joint[order]
        through: Float | None = project @ words.T
        if len(basis.rows) == len(words):  # every row is in the basis, which can take the rows' order
            basis, project, through = basis.at(order), project[order], None
        label, n_labels = space.label_index, space.n_labels
        sorted_weight = None if rows.weight is None else rows.weight[space.rows]
        logistic = fit_logistic(words, label, n_labels, PENALTY, sorted_weight)
        bias: Float = np.zeros(n_labels)
        if self_consistent:
            # Not by texts whose labels were inferred: each stands under several, and would find itself there.
            known = np.ones(len(label), dtype=bool) if rows.inferred is None else ~rows.inferred[space.rows]
            each = None if sorted_weight is None else sorted_weight[known]
            bias = self_consistent_bias(joint[known], label[known], n_labels, bandwidth, each)
        by_both = None
        if regress_joint:
            found = fit_logistic(joint, label, n_labels, PENALTY, sorted_weight)
            by_both = Summary.of(found, project, joint=True)
        return cls(
            space, basis, through, space.bank.astype(np.float64), label, n_labels,
            Summary.of(logistic, project, joint=False), bandwidth, bias, sorted_weight, by_both,
        )  # fmt: skip

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        assert self.through is None  # what has no rows of its own in the lexicon is not compiled
        assert self.lexical.places is not None
        assert self.space.mean is not None
        return {
            "rows": self.space.rows.astype(np.int32),
            "places": self.lexical.places.astype(np.int32),
            "labels": self.label_index.astype(np.int32),
            "mean": self.space.mean,
            "bias": self.bias,
            **named(summary=self.regressed, joint=self.joint),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, data: PanelData, bandwidth: float) -> Comparison:
        """What `fit` made, weights and all."""
        embedded, lexicon = data.embedded, data.lexicon
        places, label = arrays["places"].astype(np.int64), arrays["labels"].astype(np.int64)
        others = [] if embedded.background is None else [embedded.background]
        width = embedded.blocks[0]
        vectors = np.concatenate([embedded.vectors, *others])[places, :width]
        n_labels = int(label.max()) + 1
        rows = arrays["rows"].astype(np.int64)
        space = Space.placed(vectors, label, rows, n_labels, (width,), arrays["mean"])
        basis = LexicalBasis(lexicon, lexicon.taken.at(places), places)
        joint = part(arrays, "joint")
        return cls(
            space, basis, None, space.bank.astype(np.float64), label, n_labels,
            Summary(**part(arrays, "summary")), bandwidth, arrays["bias"], None,
            Summary(**joint) if joint else None,
        )  # fmt: skip

    def observe(self, observations: Observations) -> Seen:

        def seen() -> Seen:
            own = observations.vectors[:, : sum(self.space.blocks)]  # other embedders have their own expert
            placed = self.space.transform(own).astype(np.float64)
            return Seen(self.lexical.cosines(observations.texts), placed)

        return self.last.get(observations.texts, seen)

    def cosine(self, seen: Seen) -> Float:
        """(N, n) joint cosines to every row: the weighted mean of the lexical and the embedded one."""
        found = ((1 - LEXICAL_SHARE) / LEXICAL_SHARE * seen.embedded) @ self.embedded.T
        found += seen.lexical if self.through is None else seen.lexical @ self.through
        found *= LEXICAL_SHARE
        return found

    def summary(self, seen: Seen) -> Float:
        """(N, K) log-probabilities of the learned summary under a uniform prior."""
        return log_softmax(self.regressed.scores(seen), axis=1)

    def near(self, seen: Seen) -> Near:
        """The kernel, summed over the rows of each label."""
        cosine = self.cosine(seen)
        starts, mass = self._labels
        cosine -= cosine.max(axis=1, keepdims=True)
        cosine *= 1 / self.bandwidth
        terms = np.exp(cosine, out=cosine)
        if self.weight is not None:
            terms *= self.weight
        return Near(_log(np.add.reduceat(terms, starts, axis=1)) - np.log(mass), terms)

    def pooled(self, seen: Seen, near: Near) -> tuple[Float, Float]:
        """(N, K) regression and kernel added, and the kernel alone; each up to a constant per case."""
        kernel = log_softmax(self.kernel(near), axis=1)
        return self.summary(seen) + kernel, kernel

    def log_likelihood(self, observations: Observations) -> tuple[Float, Float]:
        """The same for cases, not yet sharpened."""
        seen = self.observe(observations)
        return self.pooled(seen, self.near(seen))

    @property
    def _labels(self) -> tuple[Int, Float]:
        """First row and weight of all rows, of each label."""
        counts = np.bincount(self.label_index, minlength=self.n_labels)
        mass = counts if self.weight is None else np.bincount(self.label_index, weights=self.weight)
        return np.cumsum(counts) - counts, mass.astype(float)

    def kernel(self, near: Near) -> Float:
        """(N, K) log-probabilities of the soft kernel under a uniform prior."""
        return np.maximum(log_softmax(near.log_density + self.bias, axis=1), np.log(SMALLEST))

    def effective(self, near: Near, prior: Float) -> Float:
        """(N,) how many simulations carry the kernel's answer under a prior."""
        with np.errstate(divide="ignore"):
            log_mass = np.log(prior) + self.bias
        starts, mass = self._labels
        log_square = _log(np.add.reduceat(near.terms**2, starts, axis=1)) - 2 * np.log(mass)
        total = logsumexp(near.log_density + log_mass, axis=1)
        return np.exp(2 * total - logsumexp(log_square + 2 * log_mass, axis=1))

    def shares(self, cosine: Float, prior: Float) -> Float:
        """(N, n) the rows' shares of the kernel's answer under a prior."""
        _, mass = self._labels
        with np.errstate(divide="ignore"):
            offset = (np.log(prior) + self.bias - np.log(mass))[self.label_index]
            offset = offset if self.weight is None else offset + np.log(self.weight)
        return np.exp(log_softmax(cosine / self.bandwidth + offset, axis=1))


def _log(sums: Float) -> Float:
    """Of sums of the kernel's terms; of a narrow kernel far from a case nothing may be left."""
    return np.log(np.maximum(sums, 1e-300))


def with_last_split(space: Space, part: Int) -> tuple[Space, Int]:
    """The space with its last label divided into parts 0, 1, …, and the order its rows were brought into."""
    first = len(space.label_index) - len(part)
    order = np.concatenate([np.arange(first), first + np.argsort(part, kind="stable")])
    finer = np.concatenate([space.label_index[:first], space.n_labels - 1 + np.sort(part)])
    n = space.n_labels + int(part.max())
    split = replace(space, bank=space.bank[order], label_index=finer, rows=space.rows[order], n_labels=n)
    return split, order


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
