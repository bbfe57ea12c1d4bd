"""Scores of predictive distributions against gold labels, and how a metric says that it is undefined.

Every score takes probabilities (N, K) and label positions (N,). The prediction is the most probable label
(the first of them on a tie, so that the panel's order decides and not the row order). Some questions have no
answer: no error-detection AUROC without an error, no class discrimination with one class only. A metric then
returns a `Value` whose `value` is None and whose `reason` says why; a NaN never leaves this room. A `Value`
may carry both, when the number stands with a reservation.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.types import Float, Int, entropy_bits

NLL_FLOOR = 1e-6  # a probability of zero would make one case outweigh every other
NO_CASES = "there are no cases"


@dataclass(frozen=True, slots=True)
class Value:
    """A number, or None with the reason why there is none; with its interval and two-sided p-value against
    nought where those were drawn."""

    value: float | None
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None

    @property
    def interval(self) -> list[float] | None:
        return None if self.low is None or self.high is None else [self.low, self.high]


def defined(value: float, reason: str | None = None) -> Value:
    return Value(None if np.isnan(value) else float(value), reason)


def undefined(reason: str) -> Value:
    return Value(None, reason)


def checked(probabilities: ArrayLike, label_index: ArrayLike) -> tuple[Float, Int]:
    """The arrays as float64 and int64 after the checks every metric relies on.

    Rows must be finite, non-negative and sum to one within 1e-3 (single precision and rounded files
    both pass) and are then renormalised where they need it.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    y = np.asarray(label_index)
    if p.ndim != 2:
        raise BadInput(f"probabilities must be an (N, K) array, not one of shape {p.shape}")
    if y.shape != (p.shape[0],):
        raise BadInput(f"there are {p.shape[0]} rows of probabilities but labels of shape {y.shape}")
    if y.size and not np.issubdtype(y.dtype, np.integer):
        raise BadInput("labels must be given as integer positions in the panel")
    y = y.astype(np.int64)
    if y.size and (y.min() < 0 or y.max() >= p.shape[1]):
        raise BadInput(f"a label index lies outside 0..{p.shape[1] - 1}")
    return checked_rows(p), y


def checked_rows(probabilities: ArrayLike) -> Float:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.size == 0:
        return p
    if not np.all(np.isfinite(p)) or p.min() < -1e-9:
        raise BadInput("probabilities must be finite and non-negative")
    sums = p.sum(axis=1, keepdims=True)
    if np.abs(sums - 1).max() > 1e-3:
        row = int(np.abs(sums - 1).argmax())
        raise BadInput(
            f"probabilities must sum to one in each row, row {row} gives {float(sums[row, 0]):.4f}"
        )
    # a row that sums to one up to rounding is left alone: dividing it would break exact ties
    return np.maximum(p, 0.0) / np.where(np.abs(sums - 1) > 1e-9, sums, 1.0)


# --------------------------------------------------------------------------- scores


def predictions(probabilities: ArrayLike) -> Int:
    """Position of the most probable label in each row."""
    return np.asarray(probabilities).argmax(axis=1)


def confusion(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """Counts (K, K): rows are gold labels, columns are predictions."""
    p, y = checked(probabilities, label_index)
    k = p.shape[1]
    return np.bincount(y * k + predictions(p), minlength=k * k).reshape(k, k)


def gold_rank(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """How many labels each answer puts before the gold one, ties in the panel's order; 0: none."""
    p, y = checked(probabilities, label_index)
    own = p[np.arange(len(y)), y][:, None]
    earlier = np.arange(p.shape[1]) < y[:, None]
    return ((p > own) | ((p == own) & earlier)).sum(axis=1)


def brier_terms(p: Float, y: Int) -> Float:
    """Per-case Brier terms of checked arrays."""
    return (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1.0


def nll_terms(p: Float, y: Int) -> Float:
    """Per-case negative log-likelihoods of checked arrays, in nats, with the probability floored."""
    return -np.log(np.maximum(p[np.arange(len(y)), y], NLL_FLOOR))


# --------------------------------------------------------------------------- rankings


class Ranking:
    """An order by a score with its tied blocks, computed once; cases count as often as `w` (B, N) says."""

    def __init__(self, score: Float) -> None:
        self.order = np.argsort(score, kind="stable")
        ranked = score[self.order]
        new = np.r_[True, ranked[1:] != ranked[:-1]]
        self.starts = np.flatnonzero(new)
        self._block = np.empty(len(score), dtype=np.int64)  # which tied block a case is in
        self._block[self.order] = np.cumsum(new) - 1

    def blocks(self, w: Float) -> Float:
        """Total weight of each tied block, lowest score first."""
        ranked = w[:, self.order]
        return ranked if len(self.starts) == ranked.shape[1] else np.add.reduceat(ranked, self.starts, axis=1)

    def ranks(self, w: Float) -> Float:
        """Each case's rank (B, N) among w cases, tied ones sharing the middle of theirs."""
        size = self.blocks(w)
        return (np.cumsum(size, axis=1) - (size - 1) / 2)[:, self._block]

    def auroc(self, w: Float, positive: Float) -> Float:
        """(B,) probability that a positive outranks a negative, ties one half; NaN without either."""
        pos, both = self.blocks(w * positive), self.blocks(w)
        neg = both - pos
        below = np.cumsum(neg, axis=1)
        n_pos, n_neg = pos.sum(axis=1), below[:, -1]
        wins = np.einsum("ij,ij->i", pos, below - neg / 2)
        pairs = n_pos * n_neg
        return np.where(pairs > 0, wins / np.where(pairs > 0, pairs, 1), np.nan)


def auroc(score: ArrayLike, positive: ArrayLike) -> Value:
    """Probability that a positive outranks a negative, ties counting one half (Mann–Whitney)."""
    s = np.asarray(score, dtype=float)
    t = np.asarray(positive, dtype=bool)
    if not t.any():
        return undefined("there are no positives")
    if t.all():
        return undefined("there are no negatives")
    return defined(Ranking(s).auroc(np.ones((1, len(s))), t.astype(float))[0])


def ood_auroc(inside: ArrayLike, outside: ArrayLike) -> Value:
    """Probability that an out-of-class case scores above a case of the panel, ties one half."""
    a, b = np.asarray(inside, dtype=float), np.asarray(outside, dtype=float)
    if not a.size:
        return undefined("there are no cases of the panel to compare with")
    if not b.size:
        return undefined("there are no out-of-class cases")
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        raise BadInput("out-of-class scores must be finite")
    return auroc(np.concatenate([a, b]), np.r_[np.zeros(a.size, bool), np.ones(b.size, bool)])


# --------------------------------------------------------------------------- selective prediction
#
# Does the answer know when it is wrong? A selective classifier answers its most certain cases first. The
# selective risk at coverage n/N is the error rate among the n most certain. Cases with equal uncertainty are
# one block, and the risk inside it is the one expected over its random orders. The areas under the curve are
# in `resampling`, in closed form.


# Entropies of the same probabilities in another order differ in the last bits; they are still ties.
_TIE_DECIMALS = 12


def uncertainty(probabilities: ArrayLike) -> Float:
    """Predictive entropy in bits, rounded so that equal distributions tie."""
    return np.round(entropy_bits(np.asarray(probabilities, dtype=float)), _TIE_DECIMALS)


def errors(probabilities: ArrayLike, label_index: ArrayLike) -> Float:
    """1 where the most probable label is not the gold label."""
    p, y = checked(probabilities, label_index)
    return (predictions(p) != y).astype(float) if y.size else np.zeros(0)


def risk_coverage(score: ArrayLike, error: ArrayLike) -> tuple[Float, Float]:
    """The coverages 1/N … 1 and the expected selective risk at each, most certain (lowest score) first."""
    s, e = np.asarray(score, dtype=float), np.asarray(error, dtype=float)
    order = np.argsort(s, kind="stable")
    _, block, size = np.unique(s[order], return_inverse=True, return_counts=True)
    share = np.bincount(block, weights=e[order], minlength=len(size)) / size  # errors per case of the block
    kept = np.arange(1, len(s) + 1)
    return kept / len(s), np.cumsum(share[block]) / kept


def kept_at(coverage: float, n: int) -> int:
    """How many cases a coverage keeps; the small slack undoes products such as .8 · 5 = 4.0000001."""
    return max(1, math.ceil(coverage * n - 1e-9))


def entropy_strata(probabilities: ArrayLike, label_index: ArrayLike) -> list[dict[str, Any]]:
    """Accuracy within three bands of entropy cut at its quantiles; equal entropies share a band.

    It is None in a band where no case falls.
    """
    p, y = checked(probabilities, label_index)
    if not y.size:
        return []
    bits, wrong = uncertainty(p), errors(p, y)
    edges = np.quantile(bits, np.linspace(0, 1, 4))
    index: Int = np.searchsorted(edges[1:-1], bits, side="left")
    strata = []
    for b in range(3):
        own = wrong[index == b]
        accuracy = float(1 - own.mean()) if own.size else None
        band = {"low_bits": float(edges[b]), "high_bits": float(edges[b + 1])}
        strata.append({**band, "n": own.size, "accuracy": accuracy})
    return strata
