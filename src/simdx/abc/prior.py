"""The prior over labels: the clinician's, given at test time, one object for M-SMC and D-SMC alike.

M-SMC reads the probabilities, D-SMC the Dirichlet parameters alpha = alpha0 * probabilities. A label
with probability zero is impossible: no engine ever gives it mass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from simdx.errors import BadInput
from simdx.types import Float

LARGEST = 1e100  # of any one number: a sum of thousands of them must not overflow
SUM_SLACK = 1e-3  # how far fully named probabilities may be from one: two or three decimals, typed by hand


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Probabilities over K labels and the concentration a Dirichlet prior with that mean has."""

    probabilities: Float  # (K,), sums to one
    alpha0: float

    def __post_init__(self) -> None:
        p = np.asarray(self.probabilities, dtype=float)
        if p.ndim != 1 or p.size == 0 or not _usable(p) or p.sum() <= 0:
            raise BadInput("a prior must be a list of finite, non-negative numbers, not all of them zero")
        if abs(p.sum() - 1) > SUM_SLACK:
            raise BadInput(f"prior probabilities sum to {p.sum():g}; make them sum to 1")
        if not (math.isfinite(self.alpha0) and self.alpha0 > 0):
            raise BadInput(f"alpha0 is {self.alpha0:g}; give a finite number above 0")
        p = p / p.sum()
        p.setflags(write=False)
        object.__setattr__(self, "probabilities", p)
        object.__setattr__(self, "alpha0", float(self.alpha0))

    @property
    def alpha(self) -> Float:
        """Dirichlet parameters; zero where the label is impossible."""
        return self.alpha0 * self.probabilities

    @property
    def n_labels(self) -> int:
        """K, impossible labels included."""
        return int(self.probabilities.size)

    @classmethod
    @cache  # one for all requests that bring none
    def uniform(cls, n_labels: int, alpha0: float | None = None) -> Prior:
        """Every label equally likely; alpha0 = K makes the Dirichlet flat."""
        if n_labels < 1:
            raise BadInput("a prior needs at least one label")
        return cls(np.full(n_labels, 1 / n_labels), float(n_labels) if alpha0 is None else alpha0)

    @classmethod
    def from_probabilities(
        cls, labels: Sequence[str], mapping: Mapping[str, float], alpha0: float | None = None
    ) -> Prior:
        """Named labels get what they are given; the rest is shared equally by labels not named."""
        _check_names(labels, mapping)
        given = {name: _number(name, value, "prior") for name, value in mapping.items()}
        for name, value in given.items():
            if value > 1:
                raise BadInput(f"the prior of '{name}' is {value:g}; give a probability between 0 and 1")
        total = math.fsum(given.values())
        unnamed = [name for name in labels if name not in given]
        if not unnamed:
            if total == 0:
                raise BadInput("every label has prior 0; leave at least one label possible")
            if abs(total - 1) > SUM_SLACK + 1e-12:
                raise BadInput(
                    f"all labels have a prior and they sum to {total:g}; make them sum to 1 within .001"
                )
        elif total > 1 + 1e-9:
            raise BadInput(f"the priors given sum to {total:g}; together they may be at most 1")
        share = max(0.0, 1 - total) / len(unnamed) if unnamed else 0.0
        p = np.array([given.get(name, share) for name in labels])
        return cls(p / p.sum(), float(len(labels)) if alpha0 is None else alpha0)

    @classmethod
    def from_counts(cls, labels: Sequence[str], mapping: Mapping[str, float]) -> Prior:
        """Dirichlet pseudo-counts: 1 for labels not named, 0 makes a label impossible."""
        _check_names(labels, mapping)
        counts = np.array([_number(name, mapping.get(name, 1.0), "prior count") for name in labels])
        if counts.sum() == 0:
            raise BadInput("every label has prior count 0; leave at least one label possible")
        return cls(counts / counts.sum(), float(counts.sum()))

    @classmethod
    def from_prevalence(
        cls,
        labels: Sequence[str],
        prevalence: Mapping[str, float],
        odds: Mapping[str, float] | None = None,
        alpha0: float | None = None,
    ) -> Prior:
        """Base rates, then odds multipliers (a risk factor that doubles the odds of a label is 2).

        Multiplying one label's mass and renormalising multiplies its odds against all others by that
        number; several multipliers keep the odds of the labels among themselves in proportion.
        """
        base = cls.from_probabilities(labels, prevalence, alpha0)
        odds = odds or {}
        _check_names(labels, odds)
        factor = np.array([_number(name, odds.get(name, 1.0), "odds multiplier") for name in labels])
        p = base.probabilities * factor
        if p.sum() <= 0:
            raise BadInput("these odds multipliers leave no label possible; keep at least one above 0")
        return cls(p / p.sum(), base.alpha0)

    def only(self, labels: Sequence[str], options: Sequence[str]) -> Prior:
        """The same given that the answer is among the options; their Dirichlet parameters stay."""
        _check_names(labels, dict.fromkeys(options, 0.0))
        inside = np.isin(np.arange(len(labels)), [list(labels).index(name) for name in options])
        mass = float(self.probabilities[inside].sum())
        if mass <= 0:
            raise BadInput("the prior leaves none of the options possible; give options it does not drop")
        return Prior(np.where(inside, self.probabilities, 0.0) / mass, self.alpha0 * mass)


def prior_rows(prior: Prior | Float, n_labels: int, n_cases: int) -> Float:
    """The prior as rows: (1, K) when all cases share it, (N, K) when each case brings its own."""
    if isinstance(prior, Prior):
        rows = prior.probabilities[None, :]
    else:
        rows = np.atleast_2d(np.asarray(prior, dtype=float))
        if rows.ndim != 2 or not _usable(rows) or np.any(rows.sum(axis=1) <= 0):
            raise BadInput("a prior must be finite, non-negative numbers, not all of them zero")
        rows = rows / rows.sum(axis=1, keepdims=True)
    if rows.shape[1] != n_labels:
        raise BadInput(f"the prior has {rows.shape[1]} labels and the bank has {n_labels}; they must match")
    if rows.shape[0] not in (1, n_cases):
        raise BadInput(f"there are {rows.shape[0]} priors for {n_cases} cases; give one, or one per case")
    return rows


def _usable(values: Float) -> bool:
    return bool(np.all((values >= 0) & (values <= LARGEST)))  # a NaN is neither


def _check_names(labels: Sequence[str], mapping: Mapping[str, float]) -> None:
    known = set(labels)
    for name in mapping:
        if name not in known:
            raise BadInput(f"'{name[:80]}' is not a label of this panel; its labels are {', '.join(labels)}")


def _number(name: str, value: float, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= LARGEST:  # a NaN is not
        raise BadInput(f"the {what} of '{name}' is {str(value)[:40]}; give a finite number of at least 0")
    return number
