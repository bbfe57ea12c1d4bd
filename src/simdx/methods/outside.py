"""None of these: the probability that a case belongs to no label of the panel.

Two alternatives to the labels, each with a stated prior mass:

another condition   the background bank, simulated like any label and compared in the same two ways, against
                    the best label that the prior leaves possible (`background`)
another kind of     typicality without centring: the text does not describe anything the panel is about
text                (`novelty`)

Slopes and offsets, which make log odds of scores, were fitted on simulated text alone (docs/recipe.md); a
panel may bring its own for another condition (`odds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.background import Opposition
from simdx.methods.crossfit import CrossFitted
from simdx.methods.material import Material, Observations
from simdx.methods.novelty import Novelty
from simdx.types import BackgroundOdds, Bank, Float

# Of another condition, where a panel brings no odds of its own.
SHIPPED_ODDS = BackgroundOdds(slope=0.83, offset=1.83, prior=0.01)
NOVELTY_SLOPE, NOVELTY_OFFSET = 20.2, -12.7
NOVELTY_MASS = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """Both alternatives, fitted."""

    opposition: Opposition
    novelty: Novelty | None
    odds: BackgroundOdds

    @classmethod
    def fit(cls, material: Material) -> Outside | None:
        """None for a bank without background."""
        opposition = Opposition.fit(material)
        if opposition is None:
            return None
        return cls(opposition, Novelty.fit(material), material.bank.odds or SHIPPED_ODDS)

    def fit_again(self, material: Material) -> Outside:
        """To other texts of the archive, which novelty does not look at."""
        opposition = Opposition.fit(material)
        assert opposition is not None  # it was the same bank before
        return replace(self, opposition=opposition)

    def log_odds(self, observations: Observations, prior: Prior) -> tuple[Float, Float]:
        """(N,) each: another condition, and another kind of text, against the labels."""
        raw = self.opposition.log_odds(observations, prior.probabilities > 0)
        another = self.odds.slope * raw + self.odds.offset + logit(self.odds.prior)
        if self.novelty is None:
            return another, np.full(len(another), -np.inf)
        other_kind = NOVELTY_SLOPE * self.novelty.of(observations) + NOVELTY_OFFSET + logit(NOVELTY_MASS)
        return another, other_kind

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        """(N,) out-of-class probabilities."""
        return expit(np.logaddexp(*self.log_odds(observations, prior)))


def at_prior(bank: Bank, prior: float) -> Bank:
    """The bank with this prior probability of another condition, its odds otherwise as they are."""
    if not (np.isfinite(prior) and 0 < prior < 1):
        raise BadInput(f"the prior of none of these is {prior:g}: give a probability between 0 and 1")
    if not bank.background:
        raise BadInput("none of these has no prior here: the bank describes no other conditions")
    return replace(bank, odds=replace(bank.odds or SHIPPED_ODDS, prior=float(prior)))


def fit_outside(material: Material) -> CrossFitted[Outside] | None:
    """None for a bank without background."""
    whole = Outside.fit(material)
    return None if whole is None else CrossFitted(material, whole.fit_again, whole)
