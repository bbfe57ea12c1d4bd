"""The bank as the inference engines see it: weighted atoms, sorted by label.

Given label y, a bank stands for p(x | y) as equal atoms on its M_y simulations (or weighted ones), so
the prior predictive puts mass pi_y * share_i on simulation i. Everything exact is arithmetic on these
atoms and on one matrix of similarities.

Two similarities closer than `TIE` are one and the same: single-precision dot products of equal texts
may differ in the last bits, and no answer may hang on that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simdx.abc.prior import Prior, prior_rows
from simdx.errors import BadInput
from simdx.types import Float, Int

Bool = NDArray[np.bool_]

TIE = 1e-6
SMALL_PRODUCT = 2**20  # multiplications up to which OpenBLAS uses its small-matrix routines (10^6)
CHUNK_BYTES = 96 * 2**20  # working memory of one chunk of cases


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


def make_atoms(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    prior: Float,
    row_weight: Float | None = None,
) -> Atoms:
    """Sort by label (free when already sorted) and leave out what no case's prior allows."""
    label_index = np.asarray(label_index)
    n = label_index.size
    if bank_vectors.shape[0] != n:
        raise BadInput(f"the bank has {bank_vectors.shape[0]} vectors and {n} labels; they must match")
    if n and (label_index.min() < 0 or label_index.max() >= n_labels):
        raise BadInput(f"a bank row names a label outside 0..{n_labels - 1}; rebuild the bank")
    weight = np.ones(n) if row_weight is None else np.asarray(row_weight, dtype=np.float64)
    if weight.shape != (n,) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise BadInput("row weights must be finite, non-negative and one per bank row")
    total = np.bincount(label_index, weights=weight, minlength=n_labels)
    possible = np.any(prior > 0, axis=0)
    empty = np.flatnonzero(possible & (total <= 0))
    if empty.size:
        raise BadInput(
            f"label number {int(empty[0]) + 1} of {n_labels} has no simulations but a prior above 0; "
            "simulate it or give it prior 0"
        )
    keep = possible[label_index] & (weight > 0)
    is_sorted = bool(np.all(label_index[:-1] <= label_index[1:]))
    if is_sorted and keep.all():
        rows, vectors = np.arange(n), np.ascontiguousarray(bank_vectors, dtype=np.float32)
    else:
        rows = np.flatnonzero(keep)
        rows = rows[np.argsort(label_index[rows], kind="stable")]
        vectors = np.ascontiguousarray(bank_vectors[rows], dtype=np.float32)
    label = label_index[rows]
    present, starts = np.unique(label, return_index=True)
    return Atoms(vectors, label, weight[rows] / total[label], rows, n, n_labels, present, starts)


def label_mass(
    prior: Prior | Float, n_labels: int, n_cases: int, bias: Float | None = None
) -> tuple[Float, Float]:
    """(prior rows, label masses rows): masses are the prior times exp(bias), summing to one."""
    rows = prior_rows(prior, n_labels, n_cases)
    if bias is None:
        return rows, rows
    shift = np.asarray(bias, dtype=float)
    mass = rows * np.exp(shift - shift.max())
    return rows, mass / mass.sum(axis=1, keepdims=True)


def similarity(observations: Float, vectors: Float) -> Float:
    """Cosines (N, n) in single precision, to the last bit independent of how cases are batched.

    BLAS libraries take other routines for a single row and for small products, and those add up in
    another order. So a small batch is filled up with zero rows until the product is a large one.
    """
    z = np.ascontiguousarray(observations, dtype=np.float32)
    rows = max(2, int(SMALL_PRODUCT // max(1, vectors.size)) + 1)
    if z.shape[0] >= rows:
        return z @ vectors.T
    filled = np.zeros((rows, z.shape[1]), dtype=np.float32)
    filled[: z.shape[0]] = z
    return (filled @ vectors.T)[: z.shape[0]]


def check_observations(observations: Float, width: int) -> Float:
    z = np.atleast_2d(np.asarray(observations))
    if z.shape[1] != width:
        raise BadInput(f"observations are {z.shape[1]} wide and the bank is {width}; use the bank's embedder")
    if not np.all(np.isfinite(z)):
        raise BadInput("an observation holds NaN or infinite values; embed it again")
    return z


def chunk_size(n_columns: int, bytes_per_entry: int = 16, chunk: int | None = None) -> int:
    """Cases per chunk: bounded memory, and never so many that a chunk leaves the cache hierarchy."""
    if chunk is not None:
        return max(1, int(chunk))
    return int(np.clip(CHUNK_BYTES // (bytes_per_entry * max(1, n_columns)), 8, 512))
