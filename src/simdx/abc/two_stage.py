"""M-SMC for large label sets: find the simulations near a case first, then be exact about those.

A bank of ten thousand labels holds a million simulations, and almost all of them are far from any one
case. An approximate neighbour search (injected: numerics know no library) hands over the nearest few
hundred with their cosines; what follows is `multinomial`'s own arithmetic on them.

hard  The answer needs the nearest 2^-T of prior mass and nothing else, so it is exact whenever the search
      missed none of those; where too little mass was found the search is asked for more.
soft  Far simulations count little each, but there are many of them: with K labels their sum is not
      negligible. A fixed random sample of each label's simulations stands for those that were not
      found, weighted by how many it stands for. The sum is unbiased, and its variance small, because the
      terms that could be large were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from simdx.abc.atoms import check_observations, chunk_size, label_mass, similarity
from simdx.abc.multinomial import _keep_fraction
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.types import Float, Int, Posterior

NEAREST = 512
SAMPLED = 4  # simulations per label that stand for those not found
NOTHING = -2.0  # a cosine no vector has: marks a place the search left empty


class Neighbours(Protocol):
    """Approximate nearest rows of a bank."""

    def nearest(self, observations: Float, count: int) -> tuple[Int, Float]:
        """(rows, cosines), each (N, count), nearest first; row -1 where fewer were found."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LargeBank:
    """A bank's labels with its far field: which rows stand for each label, and where they lie."""

    label_index: Int  # (n,)
    counts: Int  # (K,)
    sample: Int  # (m,) rows of the bank, label-sorted
    sample_vectors: Float  # (m, d)
    starts: Int  # (K,) where each label's sample begins
    place: Int  # (n,) position of a row in the sample, or -1

    @classmethod
    def prepare(
        cls, vectors: Float, label_index: Int, n_labels: int, *, sampled: int = SAMPLED, seed: int = 0
    ) -> LargeBank:
        counts = np.bincount(label_index, minlength=n_labels)
        if (counts == 0).any():
            raise BadInput("a label has no simulations in the bank; every label needs at least one")
        rng = np.random.default_rng([seed, 0x25])
        order = np.lexsort((rng.random(len(label_index)), label_index))  # by label, at random within
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        sample = order[rank < sampled]
        place = np.full(len(label_index), -1)
        place[sample] = np.arange(len(sample))
        held = np.minimum(counts, sampled)
        return cls(
            np.asarray(label_index),
            counts,
            sample,
            np.ascontiguousarray(vectors[sample], dtype=np.float32),
            np.cumsum(held) - held,
            place,
        )

    @property
    def n_labels(self) -> int:
        return int(self.counts.size)


def two_stage(
    bank: LargeBank,
    neighbours: Neighbours,
    observations: Float,
    prior: Prior | Float,
    *,
    kernel: Literal["soft", "hard"] = "soft",
    bandwidth: float = 0.05,
    populations: int = 5,
    nearest: int = NEAREST,
    far_field: bool = True,
    chunk: int | None = None,
) -> Posterior:
    """As `multinomial` (fractional boundary), from the `nearest` simulations the search finds."""
    if kernel not in ("soft", "hard"):
        raise BadInput(f"there is no kernel '{kernel}'; choose soft or hard")
    if nearest < 1:
        raise BadInput("the search must look for at least one neighbour")
    z = check_observations(observations, bank.sample_vectors.shape[1])
    prior_row, mass = label_mass(prior, bank.n_labels, z.shape[0], None)
    out = np.empty((z.shape[0], bank.n_labels))
    effective, reached = np.empty(z.shape[0]), np.empty(z.shape[0])
    step = chunk_size(max(len(bank.sample), nearest, bank.n_labels), chunk=chunk)
    for start in range(0, z.shape[0], step):
        part = slice(start, start + step)
        own = np.broadcast_to(mass if mass.shape[0] == 1 else mass[part], (len(z[part]), bank.n_labels))
        if kernel == "soft":
            result = _soft(bank, neighbours, z[part], own, bandwidth, nearest, far_field)
        else:
            result = _hard(bank, neighbours, z[part], own, 0.5**populations, nearest)
        out[part], effective[part], reached[part] = result
    nothing = effective == 0
    if nothing.any():  # every neighbour had a label the prior rules out
        out[nothing] = np.broadcast_to(prior_row, out.shape)[nothing]
    return Posterior(out, effective, reached)


def _found(
    bank: LargeBank, neighbours: Neighbours, z: Float, mass: Float, count: int
) -> tuple[Int, Float, Int, Float]:
    """(rows, cosines, labels, masses) of the nearest; a place left empty has no mass."""
    rows, cosine = neighbours.nearest(z, count)
    empty = rows < 0
    label = bank.label_index[np.where(empty, 0, rows)]
    each = np.take_along_axis(mass, label, axis=1) / bank.counts[label]
    return rows, np.where(empty, NOTHING, cosine), label, np.where(empty, 0.0, each)


def _label_sums(label: Int, values: Float, n_labels: int) -> Float:
    cases = label.shape[0]
    flat = (np.arange(cases)[:, None] * n_labels + label).ravel()
    sums = np.bincount(flat, weights=values.ravel(), minlength=cases * n_labels).astype(np.float64)
    return sums.reshape(cases, n_labels)


def _soft(
    bank: LargeBank,
    neighbours: Neighbours,
    z: Float,
    mass: Float,
    bandwidth: float,
    nearest: int,
    far_field: bool,
) -> tuple[Float, Float, Float]:
    count = min(nearest, bank.label_index.size)
    rows, cosine, label, each = _found(bank, neighbours, z, mass, count)
    far = similarity(z, bank.sample_vectors) if far_field else None
    top = cosine.max(axis=1, keepdims=True)
    if far is not None:
        top = np.maximum(top, far.max(axis=1, keepdims=True))
    weight = np.exp((cosine - top) / bandwidth) * each
    by_label = _label_sums(label, weight, bank.n_labels)
    squares = np.sum(weight**2, axis=1)
    if far is not None:
        there = (rows >= 0).astype(float)
        far_sums, far_squares = _far_field(bank, rows, label, there, far, top, bandwidth)
        share = mass / bank.counts
        by_label += far_sums * share
        squares += np.sum(far_squares * share**2, axis=1)
    total = by_label.sum(axis=1)
    some = total > 0
    posterior = by_label / np.where(some, total, 1.0)[:, None]
    effective = np.where(some, total**2 / np.where(squares > 0, squares, 1.0), 0.0)
    return posterior, effective, np.full(total.size, bandwidth)


def _far_field(
    bank: LargeBank, rows: Int, label: Int, there: Float, far: Float, top: Float, bandwidth: float
) -> tuple[Float, Float]:
    """(N, K) kernel sums, and sums of their squares, over the simulations the search did not find."""
    weight = np.exp((far - top.astype(np.float32)) / np.float32(bandwidth))
    case, column = np.nonzero(there)
    place = bank.place[rows[case, column]]
    known = place >= 0
    weight[case[known], place[known]] = 0.0  # found: counted exactly already
    found = _label_sums(label, there, bank.n_labels)
    found_in_sample = np.zeros_like(found)
    np.add.at(found_in_sample, (case[known], label[case[known], column[known]]), 1.0)
    held = np.diff(np.append(bank.starts, len(bank.sample)))
    left, stand_in = bank.counts - found, held - found_in_sample
    scale = np.divide(left, stand_in, out=np.zeros_like(found), where=stand_in > 0)
    sums = np.add.reduceat(weight, bank.starts, axis=1) * scale
    return sums, np.add.reduceat(weight**2, bank.starts, axis=1) * scale


def _hard(
    bank: LargeBank, neighbours: Neighbours, z: Float, mass: Float, target: float, nearest: int
) -> tuple[Float, Float, Float]:
    n = bank.label_index.size
    posterior = np.empty((len(z), bank.n_labels))
    effective, reached = np.empty(len(z)), np.empty(len(z))
    todo = np.arange(len(z))
    count = min(n, max(nearest, int(np.ceil(1.05 * target * n)) + 8))
    while todo.size:
        _, cosine, label, each = _found(bank, neighbours, z[todo], mass[todo], count)
        kept, last = _keep_fraction(cosine.astype(np.float64), each, target)
        # Done when the mass suffices and the boundary's block of ties ends inside what was looked at.
        done = ((each.sum(axis=1) >= target) & (last < count - 1)) | (count >= n)
        where, kept = todo[done], kept[done]
        total = kept.sum(axis=1)
        some = total > 0
        safe = np.where(some, total, 1.0)
        posterior[where] = _label_sums(label[done], kept, bank.n_labels) / safe[:, None]
        squares = np.einsum("ij,ij->i", kept, kept)
        effective[where] = np.where(some, total**2 / np.where(some, squares, 1.0), 0.0)
        reached[where] = 1 - cosine[np.arange(todo.size), last][done]
        todo, count = todo[~done], min(n, 2 * count)
    return posterior, effective, reached
