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

from simdx.abc.logs import expit
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods.background import Opposition
from simdx.methods.calibration import OutsideScale
from simdx.methods.crossfit import CrossFitted
from simdx.methods.material import Material, Observations
from simdx.methods.novelty import Novelty
from simdx.types import Bank, Float


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """Both alternatives, fitted."""

    opposition: Opposition
    novelty: Novelty | None
    scale: OutsideScale
    prior: float | None  # mass of another condition, where it is stated

    @classmethod
    def fit(cls, material: Material) -> Outside | None:
        """None for a bank without background, or one that nothing is known about."""
        scale = None if material.calibration is None else material.calibration.outside
        opposition = None if scale is None else Opposition.fit(material)
        if opposition is None or scale is None:
            return None
        return cls(opposition, Novelty.fit(material), scale, material.bank.none_prior)

    def fit_again(self, material: Material) -> Outside:
        """To other texts of the archive, which novelty does not look at."""
        opposition = Opposition.fit(material)
        assert opposition is not None  # it was the same bank before
        return replace(self, opposition=opposition)

    def log_odds(self, observations: Observations, prior: Prior) -> tuple[Float, Float]:
        """(N,) each: another condition, and another kind of text, against the labels."""
        signs = self.opposition.signs(observations, prior.probabilities > 0)
        another = self.scale.log_odds(signs, self.prior)
        if self.novelty is None:
            return another, np.full(len(another), -np.inf)
        return another, self.novelty.log_odds(observations)

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        """(N,) out-of-class probabilities."""
        return expit(np.logaddexp(*self.log_odds(observations, prior)))


def at_prior(bank: Bank, prior: float) -> Bank:
    """The bank with this prior probability of another condition."""
    if not (np.isfinite(prior) and 0 < prior < 1):
        raise BadInput(f"the prior of none of these is {prior:g}: give a probability between 0 and 1")
    if not bank.background:
        raise BadInput("none of these has no prior here: the bank describes no other conditions")
    return replace(bank, none_prior=float(prior))


def fit_outside(material: Material, before: Outside | None = None) -> CrossFitted[Outside] | None:
    """None for a bank without background. `before`: where it was fitted before."""
    whole = before or Outside.fit(material)
    return None if whole is None else CrossFitted(material, whole.fit_again, whole)
