"""M-SMC for large label sets: shortlist labels first, then be exact about those.

A bank of ten thousand labels holds a million simulations, and comparing a case with each of them is what
an exact answer costs. Stage one picks the labels that matter for a case (how is injected: by class means
here, or by an approximate search over simulations). Stage two is exact inside: every simulation of those
labels is compared. The labels left out are many, so what they hold together is not negligible and is not
dropped:

soft  Their kernel sum is taken from their class mean, exp(cos(mean) / h), times a factor found on the
      shortlisted labels of the same case, where both the sum and its stand-in are known.
hard  Only the nearest 2^-T of prior mass counts; it is looked for among the shortlisted simulations.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from simdx.abc.atoms import check_observations, label_mass, similarity
from simdx.abc.multinomial import _keep_fraction
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.types import Float, Int, Posterior

SHORTLISTED = 128
NOTHING = np.float32(-2.0)  # a cosine no vector has: pads labels with fewer simulations than the largest
ENTRIES_AT_ONCE = 1 << 24


class Shortlist(Protocol):
    """Stage one."""

    def labels(self, observations: Float, count: int, bonus: Float) -> Int:
        """(N, count) different labels of each row that matter most.

        `bonus` (1 or N, K) is to be added to a label's cosine: h times its log prior, -inf where it is
        impossible.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LargeBank:
    """A label-sorted bank with its class means."""

    vectors: Float  # (n, d) float32
    starts: Int  # (K,)
    counts: Int  # (K,)
    means: Float  # (K, d) float32

    @classmethod
    def prepare(cls, vectors: Float, label_index: Int, n_labels: int) -> LargeBank:
        counts = np.bincount(label_index, minlength=n_labels)
        if (counts == 0).any():
            raise BadInput("a label has no simulations in the bank; every label needs at least one")
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        if np.any(np.diff(label_index) < 0):
            rows = rows[np.argsort(label_index, kind="stable")]
        starts = np.cumsum(counts) - counts
        means = np.add.reduceat(rows, starts, axis=0, dtype=np.float32) / counts[:, None]
        return cls(rows, starts, counts, means.astype(np.float32))

    @property
    def n_labels(self) -> int:
        return int(self.counts.size)


@dataclass(frozen=True, slots=True, eq=False)
class ByClassMeans:
    """The labels whose class means are nearest: K comparisons instead of n."""

    bank: LargeBank

    def labels(self, observations: Float, count: int, bonus: Float) -> Int:
        score = similarity(observations, self.bank.means) + bonus
        if count >= score.shape[1]:
            return np.broadcast_to(np.arange(score.shape[1]), score.shape)
        return np.argpartition(-score, count, axis=1)[:, :count]


def two_stage(
    bank: LargeBank,
    shortlist: Shortlist,
    observations: Float,
    prior: Prior | Float,
    *,
    kernel: Literal["soft", "hard"] = "soft",
    bandwidth: float = 0.05,
    populations: int = 5,
    shortlisted: int = SHORTLISTED,
    far_field: bool = True,
) -> Posterior:
    """As `multinomial` (fractional boundary), exact for the `shortlisted` labels of each case."""
    if kernel not in ("soft", "hard"):
        raise BadInput(f"there is no kernel '{kernel}'; choose soft or hard")
    if shortlisted < 1:
        raise BadInput("at least one label must be shortlisted")
    z = check_observations(observations, bank.vectors.shape[1])
    prior_row, mass = label_mass(prior, bank.n_labels, z.shape[0], None)
    count = min(shortlisted, bank.n_labels)
    out = np.empty((z.shape[0], bank.n_labels))
    effective, reached = np.empty(z.shape[0]), np.empty(z.shape[0])
    step = max(1, ENTRIES_AT_ONCE // max(count * int(bank.counts.max()), bank.n_labels))
    for start in range(0, z.shape[0], step):
        part = slice(start, start + step)
        own = mass if mass.shape[0] == 1 else mass[part]
        with np.errstate(divide="ignore"):
            log_mass = np.log(own)
        labels = shortlist.labels(z[part], count, (bandwidth * log_mass).astype(np.float32))
        cosine = _inside(bank, z[part], labels)
        if kernel == "soft":
            far = similarity(z[part], bank.means) if far_field else None
            result = _soft(bank, labels, cosine, far, log_mass, bandwidth)
        else:
            result = _hard(bank, labels, cosine, own, 0.5**populations)
        out[part], effective[part], reached[part] = result
    nothing = effective == 0
    if nothing.any():  # every shortlisted label is one the prior rules out
        out[nothing] = np.broadcast_to(prior_row, out.shape)[nothing]
    return Posterior(out, effective, reached)


def _inside(bank: LargeBank, z: Float, labels: Int) -> Float:
    """(N, L, M) cosines with every simulation of each case's labels; one product per label, not per case."""
    cosine = np.full((*labels.shape, int(bank.counts.max())), NOTHING, dtype=np.float32)
    flat = labels.ravel()
    order = np.argsort(flat, kind="stable")
    edges = np.flatnonzero(np.diff(flat[order], prepend=-1, append=bank.n_labels))
    for first, last in pairwise(edges):
        label = flat[order[first]]
        case, slot = np.divmod(order[first:last], labels.shape[1])
        start, count = bank.starts[label], bank.counts[label]
        cosine[case, slot, :count] = z[case] @ bank.vectors[start : start + count].T
    return cosine


def _soft(
    bank: LargeBank, labels: Int, cosine: Float, far: Float | None, log_mass: Float, bandwidth: float
) -> tuple[Float, Float, Float]:
    counts = bank.counts[labels]
    top = cosine.max(axis=2)
    weight = np.exp((cosine - top[:, :, None]) / np.float32(bandwidth))  # padding: far below any cosine
    sums, squares = weight.sum(axis=2, dtype=np.float64), np.einsum("nlm,nlm->nl", weight, weight)
    # The logarithm of each label's mean kernel, and of what one of its simulations carries squared.
    inside = top / bandwidth + np.log(sums / counts)
    log_kernel = np.full((len(labels), bank.n_labels), -np.inf)
    if far is not None:
        stand_in = far.astype(np.float64) / bandwidth
        known = np.take_along_axis(stand_in, labels, axis=1)
        log_kernel = stand_in + _log_sum(inside) - _log_sum(known)
    np.put_along_axis(log_kernel, labels, inside, axis=1)
    score = log_kernel + log_mass
    best = score.max(axis=1, keepdims=True)
    some = np.isfinite(best[:, 0])
    unnormalised = np.exp(score - np.where(np.isfinite(best), best, 0.0))
    total = unnormalised.sum(axis=1)
    posterior = unnormalised / np.where(some, total, 1.0)[:, None]
    # A label's share is carried evenly by its simulations where they were not looked at.
    per_label = np.broadcast_to(1.0 / bank.counts, posterior.shape).copy()
    np.put_along_axis(per_label, labels, squares / sums**2, axis=1)
    carried = np.sum(posterior**2 * per_label, axis=1)
    effective = np.where(some, 1 / np.where(carried > 0, carried, 1.0), 0.0)
    return posterior, effective, np.full(len(labels), bandwidth)


def _hard(
    bank: LargeBank, labels: Int, cosine: Float, mass: Float, target: float
) -> tuple[Float, Float, Float]:
    cases, width = len(labels), cosine.shape[1] * cosine.shape[2]
    share = np.take_along_axis(np.broadcast_to(mass, (cases, bank.n_labels)), labels, axis=1)
    each = np.repeat(share / bank.counts[labels], cosine.shape[2], axis=1)
    value = cosine.reshape(cases, width)
    each = np.where(value > NOTHING, each, 0.0)
    order = np.argsort(-value, axis=1)
    value = np.take_along_axis(value, order, axis=1).astype(np.float64)
    kept, last = _keep_fraction(value, np.take_along_axis(each, order, axis=1), target)
    label = np.take_along_axis(np.repeat(labels, cosine.shape[2], axis=1), order, axis=1)
    flat = (np.arange(cases)[:, None] * bank.n_labels + label).ravel()
    sums = np.bincount(flat, weights=kept.ravel(), minlength=cases * bank.n_labels)
    total = kept.sum(axis=1)
    some = total > 0
    squares = np.einsum("ij,ij->i", kept, kept)
    return (
        sums.reshape(cases, bank.n_labels) / np.where(some, total, 1.0)[:, None],
        np.where(some, total**2 / np.where(some, squares, 1.0), 0.0),
        1 - value[np.arange(cases), last],
    )


def _log_sum(rows: Float) -> Float:
    """log sum exp along a row, kept as a column."""
    top = rows.max(axis=1, keepdims=True)
    return top + np.log(np.exp(rows - top).sum(axis=1, keepdims=True))
