"""The space in which distances are taken: blocks of unit vectors, joined, centred or not.

Embedders joined side by side each fill a block. Every block is brought to unit length on its own and
the join scaled, so that a dot product of two rows is the *mean of the block cosines*. Centring takes
the bank's mean out of every block first: embeddings share a large common direction that says "this is
a clinical text", and removing it sharpens what is left. D-SMC must use the uncentred space, because
centring makes the class means linearly dependent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.errors import BadInput
from simdx.types import EmbeddedBank, Float, Int, Mask


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
        return cls(
            space.bank,
            space.label_index,
            rows,
            bank.n_labels,
            bank.blocks,
            mean,
            space.transform(bank.background),
        )

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
