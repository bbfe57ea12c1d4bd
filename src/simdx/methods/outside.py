"""None of these: the probability that a case belongs to no label of the panel.

Two alternatives to the labels, each with a stated prior mass:

another condition   the background bank, simulated like any label and compared in the same two ways, against
                    the best label that the prior leaves possible (`background`)
another kind of     typicality without centring: the text is no description of anything the panel is about
text                (`strangeness`)

Slopes and offsets, which make log odds of scores, were fitted on simulated text alone (docs/recipe.md); a
panel may bring its own for another condition (`outside_odds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.methods.background import Opposition
from simdx.methods.base import Material, Observations
from simdx.methods.folds import InFolds
from simdx.methods.strangeness import Strangeness
from simdx.types import BackgroundOdds, Float

# Of another condition, where a panel brings no odds of its own.
SHIPPED_ODDS = BackgroundOdds(slope=0.83, offset=1.83, prior=0.01)
STRANGE_SLOPE, STRANGE_OFFSET = 20.2, -12.7
STRANGE_MASS = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """Both alternatives, fitted."""

    opposition: Opposition
    strangeness: Strangeness | None
    odds: BackgroundOdds

    @classmethod
    def fit(cls, material: Material) -> Outside | None:
        """None for a bank without background."""
        opposition = Opposition.fit(material)
        if opposition is None:
            return None
        return cls(opposition, Strangeness.fit(material), material.bank.odds or SHIPPED_ODDS)

    def fit_again(self, material: Material) -> Outside:
        """To other texts of the archive, which strangeness does not look at."""
        opposition = Opposition.fit(material)
        assert opposition is not None  # it was the same bank before
        return replace(self, opposition=opposition)

    def log_odds(self, observations: Observations, prior: Prior) -> tuple[Float, Float]:
        """(N,) each: another condition, and another kind of text, against the labels."""
        ahead = self.opposition.ahead(observations, prior.probabilities > 0)
        another = self.odds.slope * ahead + self.odds.offset + logit(self.odds.prior)
        if self.strangeness is None:
            return another, np.full(len(another), -np.inf)
        strange = STRANGE_SLOPE * self.strangeness.of(observations) + STRANGE_OFFSET + logit(STRANGE_MASS)
        return another, strange

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        """(N,) out-of-class probabilities."""
        return expit(np.logaddexp(*self.log_odds(observations, prior)))


def fit_outside(material: Material) -> Callable[[Observations, Prior], Float] | None:
    """observations, prior -> out-of-class probability (N,); None for a bank without background."""
    whole = Outside.fit(material)
    if whole is None or not material.has_archive:
        return whole
    fits = InFolds(material, whole.fit_again, whole)
    return lambda observations, prior: fits.join(observations, lambda outside, part: outside(part, prior))
