"""Medians and quartiles, of aleatoric and epistemic bits above all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.value import NO_CASES


@dataclass(frozen=True, slots=True)
class Spread:
    """Median with the quartiles around it; None with a reason when there is nothing to summarise."""

    n: int
    median: float | None
    q1: float | None
    q3: float | None
    reason: str | None = None

    @property
    def iqr(self) -> float | None:
        return None if self.q1 is None or self.q3 is None else self.q3 - self.q1

    def as_dict(self) -> dict[str, float | int | str | None]:
        row = {"n": self.n, "median": self.median, "q1": self.q1, "q3": self.q3, "iqr": self.iqr}
        return row | ({"reason": self.reason} if self.reason else {})


def spread(values: ArrayLike) -> Spread:
    """Median and quartiles (linear interpolation) of a vector."""
    x = np.asarray(values, dtype=float).ravel()
    if not x.size:
        return Spread(0, None, None, None, NO_CASES)
    if not np.all(np.isfinite(x)):
        raise BadInput("values to summarise must be finite")
    q1, median, q3 = (float(q) for q in np.quantile(x, [0.25, 0.5, 0.75]))
    return Spread(int(x.size), median, q1, q3)
