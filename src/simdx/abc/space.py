"""The space in which distances are taken: blocks of unit vectors, joined, centred or not.

Embedders joined side by side each fill a block. Every block is brought to unit length on its own and
the join scaled, so that a dot product of two rows is the *mean of the block cosines*. Centring takes
the bank's mean out of every block first: embeddings share a large common direction that says "this is
a clinical text", and removing it sharpens what is left. D-SMC must use the uncentred space, because
centring makes the class means linearly dependent.

Given label y, a bank stands for p(x | y) as equal atoms on its M_y simulations, so the prior predictive puts
mass pi_y / M_y on each. Everything exact is arithmetic on these atoms and on one matrix of similarities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simdx.errors import BadInput
from simdx.types import EmbeddedBank, Float, Int, Mask

TIE = 1e-6  # similarities closer than this are equal: products of equal texts may differ in the last bits
SMALL_PRODUCT = 2**20  # multiplications up to which OpenBLAS uses its small-matrix routines (10^6)
CHUNK_BYTES = 96 * 2**20  # working memory of one chunk of cases


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """Rows by other writers than the rest, and the mean to take out of such writing instead."""

    rows: Mask  # (n,)
    mean: Float


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """A fitted space with the bank inside it, its rows sorted by label.

    `bank[i]` is row `rows[i]` of the embedded bank it was fitted on, and has label `label_index[i]`.
    """

    bank: Float  # (n, d) float32, unit rows, label-sorted
    label_index: Int  # (n,), ascending
    rows: Int  # (n,) original row of each sorted row
    n_labels: int
    blocks: tuple[int, ...]
    mean: Float | None  # (d,) taken out of what is transformed: the block-normalised bank's, if no other was
    # given; None when not centred
    background: Float | None = None  # (m, d)

    @classmethod
    def fit(cls, bank: EmbeddedBank, centre: bool, apart: Apart | None = None) -> Space:
        """Place a bank. Rows that stand apart, and all that is transformed later, have their own mean."""
        if apart is not None and (not centre or bank.background is not None):
            raise ValueError("only rows of a centred space can stand apart, and no background beside them")
        vectors = np.asarray(bank.vectors)
        if vectors.ndim != 2 or vectors.shape[1] != sum(bank.blocks):
            raise BadInput("the bank's vectors do not have the width of its embedders; embed it again")
        if not np.all(np.isfinite(vectors)):
            raise BadInput("the bank's vectors hold NaN or infinite values; embed it again")
        empty = np.flatnonzero(bank.counts == 0)
        if empty.size:
            raise BadInput(
                f"label number {int(empty[0]) + 1} of {bank.n_labels} has no simulations in the bank; "
                "every label needs at least one"
            )
        rows = np.argsort(bank.label_index, kind="stable")
        unit = _unit_blocks(vectors[rows], bank.blocks)
        mean = None
        if centre:
            mean = (unit if apart is None else unit[~apart.rows[rows]]).mean(axis=0, dtype=np.float64)
        placed = _place(unit, bank.blocks, mean)
        if apart is not None:
            mean = apart.mean
            placed[apart.rows[rows]] = _place(unit[apart.rows[rows]], bank.blocks, mean)
        space = cls(placed, bank.label_index[rows], rows, bank.n_labels, bank.blocks, mean)
        if bank.background is None:
            return space
        return replace(space, background=space.transform(bank.background))

    @classmethod
    def placed(
        cls,
        vectors: Float,
        label_index: Int,
        rows: Int,
        n_labels: int,
        blocks: tuple[int, ...],
        mean: Float | None,
    ) -> Space:
        """A space that was fitted before: raw vectors in its order, and the mean that was found."""
        bank = _place(_unit_blocks(vectors, blocks), blocks, mean)
        return cls(bank, label_index, rows, n_labels, blocks, mean)

    def transform(self, vectors: Float) -> Float:
        """Raw joined embeddings -> float32 rows of unit length (a zero block stays zero)."""
        return _place(_unit_blocks(np.atleast_2d(vectors), self.blocks), self.blocks, self.mean)

    @property
    def class_means(self) -> Float:
        """Mean vector of each label's simulations, (K, d), not normalised: what D-SMC mixes."""
        starts = np.searchsorted(self.label_index, np.arange(self.n_labels))
        counts = np.bincount(self.label_index, minlength=self.n_labels)
        sums = np.add.reduceat(self.bank.astype(np.float64), starts, axis=0)
        return sums / counts[:, None]


def mean_of(vectors: Float, blocks: tuple[int, ...]) -> Float:
    """(d,) the mean that centring takes out of such texts."""
    return _unit_blocks(vectors, blocks).mean(axis=0)


def _unit_blocks(vectors: Float, blocks: tuple[int, ...]) -> Float:
    """Each block of each row to unit length, in double precision."""
    out = np.array(vectors, dtype=np.float64)
    if out.shape[1] != sum(blocks):
        raise BadInput(f"vectors are {out.shape[1]} wide and the bank's are {sum(blocks)}; use its embedder")
    start = 0
    for width in blocks:
        block = out[:, start : start + width]
        length = np.linalg.norm(block, axis=1, keepdims=True)
        np.divide(block, length, out=block, where=length > 1e-12)
        start += width
    return out


def _place(unit: Float, blocks: tuple[int, ...], mean: Float | None) -> Float:
    """Centre and renormalise the blocks, then scale the join so that a dot is the mean of cosines."""
    out = unit if mean is None else _unit_blocks(unit - mean, blocks)
    return np.ascontiguousarray(out / np.sqrt(len(blocks)), dtype=np.float32)


# --------------------------------------------------------------------------- atoms


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Bank rows of possible labels, label-sorted, with each row's share of its label."""

    vectors: Float  # (n, d) float32
    label: Int  # (n,) ascending label of each column
    share: Float  # (n,) float64, sums to one within a label
    rows: Int  # (n,) the caller's row of each column
    n_rows: int  # how many rows the caller gave
    n_labels: int
    present: Int  # labels that have columns, ascending
    starts: Int  # first column of each present label

    def spread(self, per_present: Float) -> Float:
        """(…, labels present) -> (…, K), zero elsewhere."""
        out = np.zeros((*per_present.shape[:-1], self.n_labels))
        out[..., self.present] = per_present
        return out


def make_atoms(bank_vectors: Float, label_index: Int, n_labels: int, prior: Float) -> Atoms:
    """Sort by label (free when already sorted) and leave out what no case's prior allows."""
    label_index = np.asarray(label_index)
    n = label_index.size
    if bank_vectors.shape[0] != n:
        raise BadInput(f"the bank has {bank_vectors.shape[0]} vectors and {n} labels; they must match")
    if n and (label_index.min() < 0 or label_index.max() >= n_labels):
        raise BadInput(f"a bank row names a label outside 0..{n_labels - 1}; rebuild the bank")
    total = np.bincount(label_index, minlength=n_labels)
    possible = np.any(prior > 0, axis=0)
    empty = np.flatnonzero(possible & (total == 0))
    if empty.size:
        raise BadInput(
            f"label number {int(empty[0]) + 1} of {n_labels} has no simulations but a prior above 0; "
            "simulate it or give it prior 0"
        )
    keep = possible[label_index]
    is_sorted = bool(np.all(label_index[:-1] <= label_index[1:]))
    if is_sorted and keep.all():
        rows, vectors = np.arange(n), np.ascontiguousarray(bank_vectors, dtype=np.float32)
    else:
        rows = np.flatnonzero(keep)
        rows = rows[np.argsort(label_index[rows], kind="stable")]
        vectors = np.ascontiguousarray(bank_vectors[rows], dtype=np.float32)
    label = label_index[rows]
    present, starts = np.unique(label, return_index=True)
    return Atoms(vectors, label, 1 / total[label], rows, n, n_labels, present, starts)


def similarity(observations: Float, vectors: Float) -> Float:
    """Cosines (N, n) in single precision, whose last bits hardly depend on how cases are batched.

    BLAS libraries take other routines for a single row and for small products, and those add up in
    another order. So a small batch is filled up with zero rows until the product is a large one. On some
    processors (OpenBLAS's routines for Haswell and Zen) the order also depends on a row's position: TIE
    allows for that.
    """
    z = np.ascontiguousarray(observations, dtype=np.float32)
    rows = max(2, int(SMALL_PRODUCT // max(1, vectors.size)) + 1)
    if z.shape[0] >= rows:
        return z @ vectors.T
    filled = np.zeros((rows, z.shape[1]), dtype=np.float32)
    filled[: z.shape[0]] = z
    return (filled @ vectors.T)[: z.shape[0]]


def check_kernel(kernel: str, bandwidth: float, tolerance: float | None) -> None:
    if kernel not in ("soft", "hard"):
        raise BadInput(f"there is no kernel '{kernel}'; choose soft or hard")
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise BadInput(f"the bandwidth is {bandwidth}; give a finite number above 0")
    if tolerance is not None and not (np.isfinite(tolerance) and tolerance >= 0):
        raise BadInput(f"the tolerance is {tolerance}; give a finite distance of at least 0")
    if tolerance is not None and kernel == "soft":
        raise BadInput("an absolute tolerance belongs to the hard kernel; set a bandwidth for the soft one")


def check_observations(observations: Float, width: int) -> Float:
    z = np.atleast_2d(np.asarray(observations))
    if z.shape[1] != width:
        raise BadInput(f"observations are {z.shape[1]} wide and the bank is {width}; use the bank's embedder")
    if not np.all(np.isfinite(z)):
        raise BadInput("an observation holds NaN or infinite values; embed it again")
    return z


def chunk_size(n_columns: int, bytes_per_entry: int = 16) -> int:
    """Cases per chunk: bounded memory, and never so many that a chunk leaves the cache hierarchy."""
    return int(np.clip(CHUNK_BYTES // (bytes_per_entry * max(1, n_columns)), 8, 512))


# --------------------------------------------------------------------------- how usual a text is
#
# Quantile tolerances always accept something and a soft kernel always normalises, so a posterior stays
# confident on a text unlike every label. Typicality looks at the distances themselves: the mean distance
# to the k nearest simulations, as a p-value against the same quantity for every simulation of the bank
# left out in turn. Small means: hardly any simulated text lies this far from the others.


@dataclass(frozen=True, slots=True, eq=False)
class Typicality:
    """The bank's own leave-one-out distances, ready to judge observations in the same space."""

    vectors: Float  # (n, d) distinct bank rows, in double precision: distances do not depend on the batch
    reference: Float  # (n,) ascending mean k-nearest distance of each row to the others
    neighbours: int

    @classmethod
    def fit(cls, bank_vectors: Float, neighbours: int = 5) -> Typicality:
        """`neighbours` is cut to what the bank has; repeated rows count once, or they would look typical."""
        if neighbours < 1:
            raise BadInput("typicality needs at least 1 neighbour")
        vectors = _distinct(bank_vectors)
        if vectors.shape[0] < 2:
            raise BadInput("typicality needs a bank of at least two different simulations")
        k = min(neighbours, vectors.shape[0] - 1)
        reference = np.sort(_mean_nearest(vectors, vectors, k, leave_out=True))
        return cls(vectors, reference, k)

    @classmethod
    def known(cls, bank_vectors: Float, reference: Float, neighbours: int = 5) -> Typicality:
        """What `fit` made of the same bank before, from its reference."""
        all_distinct = len(reference) == len(bank_vectors)  # finding that out takes longer than an answer
        vectors = bank_vectors.astype(np.float64) if all_distinct else _distinct(bank_vectors)
        return cls(vectors, reference, min(neighbours, len(reference) - 1))

    def distance(self, observations: Float) -> Float:
        """Mean distance of each observation to its nearest simulations, (N,)."""
        z = check_observations(observations, self.vectors.shape[1])
        return _mean_nearest(z, self.vectors, self.neighbours, leave_out=False)

    def p_value(self, observations: Float) -> Float:
        """Share of simulations at least as far from the rest of the bank, with +1 smoothing, in (0, 1]."""
        farther = self.reference.size - np.searchsorted(
            self.reference, self.distance(observations), side="left"
        )
        return (1 + farther) / (1 + self.reference.size)


def _distinct(vectors: Float) -> Float:
    return np.unique(np.ascontiguousarray(vectors, dtype=np.float32), axis=0).astype(np.float64)


def _mean_nearest(rows: Float, bank: Float, k: int, leave_out: bool) -> Float:
    out = np.empty(rows.shape[0])
    step = chunk_size(bank.shape[0])
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        cosine = np.asarray(rows[part], dtype=np.float64) @ bank.T
        if leave_out:
            here = np.arange(cosine.shape[0])
            cosine[here, here + start] = -np.inf
        n = bank.shape[0]
        nearest = np.partition(cosine, n - k, axis=1)[:, n - k :]
        out[part] = 1 - nearest.mean(axis=1, dtype=np.float64)
    return np.clip(out, 0, None)
