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

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.methods.background import Opposition
from simdx.methods.base import Material, Observations
from simdx.methods.strangeness import Strangeness
from simdx.types import BackgroundOdds, Float

# Of another condition, where a panel brings no odds of its own.
SHIPPED_ODDS = BackgroundOdds(slope=0.83, offset=1.83, prior=0.01)
STRANGE_SLOPE, STRANGE_OFFSET = 20.2, -12.7
STRANGE_MASS = 0.01

Outside = Callable[[Observations, Prior], Float]


def fit_outside(material: Material) -> Outside | None:
    """observations, prior -> out-of-class probability (N,); None for a bank without background."""
    opposition = Opposition.fit(material)
    if opposition is None:
        return None
    strangeness = Strangeness.fit(material)
    another = material.bank.odds or SHIPPED_ODDS

    def outside(observations: Observations, prior: Prior) -> Float:
        ahead = opposition.ahead(observations, prior.probabilities > 0)
        odds = another.slope * ahead + another.offset + logit(another.prior)
        if strangeness is not None:
            how_strange = strangeness.of(observations)
            odds = np.logaddexp(odds, STRANGE_SLOPE * how_strange + STRANGE_OFFSET + logit(STRANGE_MASS))
        return expit(odds)

    return outside
