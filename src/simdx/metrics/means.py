"""Means with bootstrap intervals and medians with quartiles, for one number per case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.resampling import Interval, intervals_of
from simdx.metrics.scores import NO_CASES
from simdx.types import Float


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers by name, their intervals where drawn, and the reasons for what is undefined or left out."""

    values: dict[str, float | None]
    ci: dict[str, list[float] | None]
    undefined: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        return {**self.values, "ci": self.ci, "undefined": self.undefined}

    def add(self, name: str, value: float, interval: Interval) -> None:
        """One more figure; NaN means undefined."""
        self.values[name] = None if np.isnan(value) else value
        self.ci[name] = interval.as_list()
        if interval.reason:
            self.undefined[name] = interval.reason


def mean_values(
    terms: Mapping[str, ArrayLike],
    *,
    weights: ArrayLike | None = None,
    resamples: int = 2000,
    rng: np.random.Generator | None = None,
) -> Figures:
    """The mean of each vector of terms; intervals are drawn only when a generator is given.

    A term that is NaN is undefined for that case and left out. With `weights` a case counts as much as its
    weight; resamples draw cases, whatever they weigh.
    """
    table = np.column_stack([np.asarray(values, dtype=np.float64) for values in terms.values()])
    there = ~np.isnan(table)
    weight = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    total, share = np.where(there, table, 0.0) * weight[:, None], there * weight[:, None]

    def statistic(w: Float) -> Float:
        over = w @ share
        return np.where(over > 0, (w @ total) / np.where(over > 0, over, 1.0), np.nan)

    point = statistic(np.ones((1, len(table))))[0]
    values = {name: None if np.isnan(v) else float(v) for name, v in zip(terms, point, strict=True)}
    missing = dict(zip(terms, (~there).sum(axis=0).tolist(), strict=True))
    undefined = {name: f"cases left out: {n}" for name, n in missing.items() if n}
    undefined |= {name: "no case defines it" for name, value in values.items() if value is None}
    ci: dict[str, list[float] | None] = dict.fromkeys(terms)
    if rng is not None and len(table):
        low, high = (pick(np.where(there, table, 0.0), axis=0) for pick in (np.min, np.max))
        spans = {name: (low[i], high[i]) for i, name in enumerate(terms)}  # of terms, hence of their means
        found = intervals_of(statistic, len(table), spans, resamples=resamples, rng=rng)
        ci = {name: interval.as_list() for name, interval in found.items()}
        unsure = {name: i.reason for name, i in found.items() if i.reason and values[name] is not None}
        undefined |= {f"ci.{name}": reason for name, reason in unsure.items()}
    return Figures(values, ci, undefined)


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
