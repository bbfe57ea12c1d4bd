"""Rows that are mostly zero, and their products: by numpy for a few, by scipy for many.

A first answer takes less time than importing scipy does.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from simdx.types import Float, Int, Mask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FEW, FEW_AT_HAND = 16, 4  # rows that numpy handles before scipy is imported for them; once it is there
FEW_MEETINGS = 100_000  # of entries in a product, that numpy adds up faster than scipy is called
MOST_MEETINGS = 2_000_000  # some tens of megabytes, whatever scipy takes to import
SPARSE = 0.25  # of entries that are not zero: fewer are walked through, more are multiplied as a block
OFTEN = 0.2  # of the rows that a column must be in to stand in the dense block


def many(rows: int) -> bool:
    return rows > (FEW_AT_HAND if "scipy.sparse" in sys.modules else FEW)


def runs(starts: Int, lengths: Int) -> Int:
    """The places of runs of places, one run after another."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


class Sparse:
    """Rows that are mostly zero: row i has `value[k]` in `column[k]`, k from `ends[i]` to `ends[i + 1]`."""

    def __init__(self, ends: Int, column: Int, value: Float, width: int) -> None:
        self.ends, self.column, self.value, self.width = ends, column, value, width

    def __len__(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def csr(self) -> csr_matrix:
        from scipy.sparse import csr_matrix

        return csr_matrix((self.value, self.column, self.ends), shape=(len(self), self.width))

    @cached_property
    def row(self) -> Int:
        """Which row each value is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.ends))

    @cached_property
    def turned(self) -> Sparse:
        """The same with rows and columns exchanged."""
        order = np.argsort(self.column, kind="stable")
        ends = np.zeros(self.width + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.column, minlength=self.width), out=ends[1:])
        return Sparse(ends, self.row[order], self.value[order], len(self))

    def at(self, rows: Int) -> Sparse:
        lengths = np.diff(self.ends)[rows]
        place, ends = runs(self.ends[rows], lengths), np.concatenate([[0], np.cumsum(lengths)])
        return Sparse(ends, self.column[place], self.value[place], self.width)

    def only(self, entries: Mask) -> Sparse:
        """Some of the entries of all rows."""
        ends = np.concatenate([[0], np.cumsum(entries)])[self.ends]
        return Sparse(ends, self.column[entries], self.value[entries], self.width)

    def mean(self) -> Float:
        """(width,) of the rows."""
        return np.bincount(self.column, weights=self.value, minlength=self.width) / len(self)

    def sums(self, values: Float) -> Float:
        """(rows,) the sum over each row of one number per entry."""
        return np.asarray(np.bincount(self.row, weights=values, minlength=len(self)), dtype=float)

    def dot(self, dense: Float) -> Float:
        """(rows,) with a vector."""
        return self.sums(self.value * dense[self.column])

    def into(self, dense: Float) -> Float:
        """(rows, m) the product with a dense matrix."""
        if many(len(self)) and len(self.value) < len(self) * self.width * SPARSE:
            return np.asarray(self.csr @ dense)
        rows = np.zeros((len(self), self.width))
        rows[self.row, self.column] = self.value
        return rows @ dense

    def gathered(self, dense: Float) -> Float:
        """(rows, m) the same where the dense matrix has many more rows than are met."""
        if many(len(self)):
            return np.asarray(self.csr @ dense)
        mine = [slice(*ends) for ends in zip(self.ends[:-1], self.ends[1:], strict=True)]
        rows = [self.value[own] @ dense[self.column[own]] for own in mine]
        return np.array(rows, dtype=float).reshape(len(self), dense.shape[1])

    def times(self, other: Sparse) -> Float:
        """(rows, other.width) the product with rows that this one's columns count, dense."""
        meetings = np.diff(other.ends)[self.column]
        if meetings.sum() > (FEW_MEETINGS if many(len(self)) else MOST_MEETINGS):
            return np.asarray((self.csr @ other.csr).toarray())
        met = other.at(self.column)
        place = np.repeat(self.row * other.width, meetings) + met.column
        weight = met.value * np.repeat(self.value, meetings)
        found = np.asarray(np.bincount(place, weight, len(self) * other.width), dtype=float)
        return found.reshape(len(self), other.width)


class Turned:
    """Rows to take products with, by their columns: those that many rows have as a dense block.

    A few hundred frequent grams make most of the meetings of two texts; a matrix product is ten times faster
    at those than a walk through lists, and wasteful for all others.
    """

    def __init__(self, rows: Sparse) -> None:
        many = np.bincount(rows.column, minlength=rows.width)
        often = np.flatnonzero(many > OFTEN * len(rows))
        self._place = np.full(rows.width, -1)
        self._place[often] = np.arange(len(often))
        place = self._place[rows.column]
        here = place >= 0
        self._dense = np.zeros((len(often), len(rows)))
        self._dense[place[here], rows.row[here]] = rows.value[here]
        self._others = rows.only(~here).turned

    def under(self, rows: Sparse) -> Float:
        """(N, n) dot products of other rows with these."""
        place = self._place[rows.column]
        here = place >= 0
        often = rows.only(here)
        often = Sparse(often.ends, place[here], often.value, len(self._dense))
        return rows.only(~here).times(self._others) + often.into(self._dense)
