"""How a metric says that it is undefined.

Some questions have no answer: there is no error-detection AUROC without an error, no class discrimination
with one class only. A metric then returns a `Value` whose `value` is None and whose `reason` says why;
a NaN never leaves this room. A `Value` may also carry both, when the number stands with a reservation
(an AUROC averaged over the classes that occur, say).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.types import Float, Int

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
