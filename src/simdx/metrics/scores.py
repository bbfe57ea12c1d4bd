"""Scores of predictive distributions against gold labels, and how a metric says that it is undefined.

Every score takes probabilities (N, K) and label positions (N,). The prediction is the most probable label
(the first of them on a tie, so that the panel's order decides and not the row order). Some questions have no
answer: no error-detection AUROC without an error, no class discrimination with one class only. A metric then
returns a `Value` whose `value` is None and whose `reason` says why; a NaN never leaves this room. A `Value`
may carry both, when the number stands with a reservation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from simdx.errors import BadInput
from simdx.types import Float, Int, entropy_bits

NLL_FLOOR = 1e-6  # a probability of zero would make one case outweigh every other
NO_CASES = "there are no cases"
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Value:
    """A number, or None with the reason why there is none."""

    value: float | None
    reason: str | None = None


def defined(value: float, reason: str | None = None) -> Value:
    return Value(float(value), reason)


def undefined(reason: str) -> Value:
    return Value(None, reason)


def of_cases(
    metric: Callable[Concatenate[Float, Int, P], float | Value],
) -> Callable[Concatenate[ArrayLike, ArrayLike, P], Value]:
    """A metric of checked probabilities and labels; undefined where there are no cases."""

    @wraps(metric)
    def measured(probabilities: ArrayLike, label_index: ArrayLike, *more: P.args, **named: P.kwargs) -> Value:
        p, y = checked(probabilities, label_index)
        found = metric(p, y, *more, **named) if y.size else undefined(NO_CASES)
        return found if isinstance(found, Value) else defined(found)

    return measured


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


def scores_and_errors(score: ArrayLike, error: ArrayLike) -> tuple[Float, Float]:
    """One-dimensional scores with their 0/1 outcomes, as floats."""
    s = np.asarray(score, dtype=np.float64)
    e = np.asarray(error).astype(np.float64)
    if s.ndim != 1 or s.shape != e.shape:
        raise BadInput(f"scores and outcomes must be vectors of one length, not {s.shape} and {e.shape}")
    if not np.all(np.isfinite(s)):
        raise BadInput("scores must be finite")
    if not np.all((e == 0) | (e == 1)):
        raise BadInput("outcomes must be 0 or 1")
    return s, e


# --------------------------------------------------------------------------- scores


def predictions(probabilities: ArrayLike) -> Int:
    """Position of the most probable label in each row."""
    return np.asarray(probabilities).argmax(axis=1)


def confusion(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """Counts (K, K): rows are gold labels, columns are predictions."""
    p, y = checked(probabilities, label_index)
    k = p.shape[1]
    return np.bincount(y * k + predictions(p), minlength=k * k).reshape(k, k)


@of_cases
def accuracy(p: Float, y: Int) -> float:
    return float((predictions(p) == y).mean())


def gold_rank(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """How many labels each answer puts before the gold one, ties in the panel's order; 0: none."""
    p, y = checked(probabilities, label_index)
    own = p[np.arange(len(y)), y][:, None]
    earlier = np.arange(p.shape[1]) < y[:, None]
    return ((p > own) | ((p == own) & earlier)).sum(axis=1)


def macro_f1(probabilities: ArrayLike, label_index: ArrayLike, labels: int | None = None) -> Value:
    """Unweighted mean of F1 over the labels that occur as gold label or prediction.

    `labels`: how many of the columns are labels, where another outcome stands behind them.
    """
    table = confusion(probabilities, label_index)
    if not table.sum():
        return undefined(NO_CASES)
    hits = np.diagonal(table).astype(float)[:labels]
    either = (table.sum(axis=0) + table.sum(axis=1))[:labels]
    return defined((2 * hits[either > 0] / either[either > 0]).mean())


@of_cases
def brier(p: Float, y: Int) -> float:
    """Mean over cases of the sum over labels of squared differences, 0 to 2."""
    return float(brier_terms(p, y).mean())


@of_cases
def nll(p: Float, y: Int, floor: float = NLL_FLOOR) -> float:
    """Mean negative log-likelihood in nats, with the gold label's probability floored."""
    return float(nll_terms(p, y, floor).mean())


def mean_entropy_bits(probabilities: ArrayLike) -> Value:
    p = checked_rows(probabilities)
    if not p.shape[0]:
        return undefined(NO_CASES)
    return defined(entropy_bits(p).mean())


@of_cases
def class_auroc(p: Float, y: Int) -> Value:
    """Class discrimination: macro mean over labels of one-vs-rest AUROC.

    A label that no case (or every case) carries has no AUROC and is left out of the mean, with a note.
    """
    each = [auroc(p[:, k], y == k).value for k in range(p.shape[1])]
    present = [v for v in each if v is not None]
    if not present:
        return undefined("every case has the same label, so there is nothing to discriminate")
    missing = len(each) - len(present)
    return defined(float(np.mean(present)), f"labels without cases left out: {missing}" if missing else None)


def auroc(score: ArrayLike, positive: ArrayLike) -> Value:
    """Probability that a positive outranks a negative, ties counting one half (Mann–Whitney)."""
    s = np.asarray(score, dtype=float)
    t = np.asarray(positive, dtype=bool)
    n_pos, n_neg = int(t.sum()), int((~t).sum())
    if not n_pos or not n_neg:
        return undefined("there are no positives" if not n_pos else "there are no negatives")
    rank_sum = rankdata(s)[t].sum()
    return defined((rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))


def brier_terms(p: Float, y: Int) -> Float:
    """Per-case Brier terms of checked arrays."""
    return (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1.0


def nll_terms(p: Float, y: Int, floor: float = NLL_FLOOR) -> Float:
    """Per-case negative log-likelihoods of checked arrays."""
    return -np.log(np.maximum(p[np.arange(len(y)), y], floor))


# --------------------------------------------------------------------------- out-of-class detection


@dataclass(frozen=True, slots=True)
class OutOfClass:
    """AUROC of a score (higher means out of class), overall and per kind of out-of-class case."""

    n: int
    auroc: Value
    by: dict[str, tuple[int, Value]] = field(default_factory=dict)


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


def out_of_class(inside: ArrayLike, outside: ArrayLike, by: Sequence[str] | None = None) -> OutOfClass:
    """The overall AUROC and, where kinds are given, one per kind against the same panel cases."""
    b = np.asarray(outside, dtype=float)
    kinds: dict[str, tuple[int, Value]] = {}
    if by is not None:
        if len(by) != b.size:
            raise BadInput(f"there are {b.size} out-of-class scores but {len(by)} kinds")
        names = np.asarray(by, dtype=object)
        for name in sorted(set(by)):
            chosen = names == name
            kinds[name] = (int(chosen.sum()), ood_auroc(inside, b[chosen]))
    return OutOfClass(int(b.size), ood_auroc(inside, b), kinds)
