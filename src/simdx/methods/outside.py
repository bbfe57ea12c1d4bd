"""None of these: the probability that a case belongs to no label of the panel.

Two alternatives to the labels, each with a stated prior mass:

another condition   the background bank is one more hypothesis, simulated like any label and compared in the
                    same two ways, against the best label that the prior leaves possible
another kind of     typicality without centring: the text is no description of anything the panel is about
text                (`strangeness`)

Slopes and offsets, which make log odds of scores, were fitted on simulated text alone (docs/recipe.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.methods.base import Material, Observations
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.methods.strangeness import Strangeness
from simdx.types import EmbeddedBank, Float

SLOPE, OFFSET = 1.03, 1.20
PRIOR_MASS = 0.05
STRANGE_SLOPE, STRANGE_OFFSET = 20.2, -12.7
STRANGE_MASS = 0.01

Outside = Callable[[Observations, Prior], Float]


def fit_outside(material: Material) -> Outside | None:
    """observations, prior -> out-of-class probability (N,); None for a bank without background."""
    bank = material.embedded
    if bank.background is None or len(bank.background) == 0:
        return None
    texts = [*material.bank.texts, *material.bank.background]
    widened = EmbeddedBank(
        np.concatenate([bank.vectors, bank.background]),
        np.concatenate([bank.label_index, np.full(len(bank.background), bank.n_labels)]),
        bank.n_labels + 1,
        bank.blocks,
    )
    comparison = Comparison.fit(material.lexicon, texts, widened, bandwidth=BANDWIDTH, self_consistent=False)
    return outside_by(comparison, Strangeness.fit(material))


def outside_by(comparison: Comparison, strangeness: Strangeness | None) -> Outside:
    """The out-of-class probability from a comparison whose last label is the background."""

    def outside(observations: Observations, prior: Prior) -> Float:
        lexical, joint = comparison.observe(observations)
        score = comparison.summary(lexical) + KERNEL_SHARE * comparison.kernel(joint)
        best = score[:, :-1][:, prior.probabilities > 0].max(axis=1)
        odds = SLOPE * (score[:, -1] - best) + OFFSET + logit(PRIOR_MASS)
        if strangeness is not None:
            how_strange = strangeness.of(observations)
            odds = np.logaddexp(odds, STRANGE_SLOPE * how_strange + STRANGE_OFFSET + logit(STRANGE_MASS))
        return expit(odds)

    return outside
