"""None of these: the probability that a case belongs to no label of the panel.

Two alternatives to the labels, each with a stated prior mass:

another condition   the background bank is one more hypothesis, simulated like any label and compared in the
                    same two ways, against the best label that the prior leaves possible; a panel may name
                    which of its banks speak for the labels here
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
from simdx.types import Bank, EmbeddedBank, Float, Int, Mask

SLOPE, OFFSET = 1.10, 1.60
PRIOR_MASS = 0.02
STRANGE_SLOPE, STRANGE_OFFSET = 20.2, -12.7
STRANGE_MASS = 0.01

Outside = Callable[[Observations, Prior], Float]


def fit_outside(material: Material) -> Outside | None:
    """observations, prior -> out-of-class probability (N,); None for a bank without background."""
    comparison = with_background(material)
    return None if comparison is None else outside_by(comparison, Strangeness.fit(material))


def with_background(material: Material) -> Comparison | None:
    """The recipe's comparison with the background as one more label; None for a bank without one."""
    bank = material.embedded
    if bank.background is None or len(bank.background) == 0:
        return None
    rows = standing_against(material.bank)
    texts = [*(material.bank.texts[i] for i in rows), *material.bank.background]
    widened = EmbeddedBank(
        np.concatenate([bank.vectors[rows], bank.background]),
        np.concatenate([bank.label_index[rows], np.full(len(bank.background), bank.n_labels)]),
        bank.n_labels + 1,
        bank.blocks,
    )
    return Comparison.fit(material.lexicon, texts, widened, bandwidth=BANDWIDTH, self_consistent=False)


def standing_against(bank: Bank) -> Int:
    """Rows that are weighed against the background: those named, and all of a label that has none of them."""
    if bank.against is None:
        return np.arange(len(bank.texts))
    spoken_for = np.isin(bank.label_index, bank.label_index[bank.against])
    return np.flatnonzero(bank.against | ~spoken_for)


def outside_by(comparison: Comparison, strangeness: Strangeness | None) -> Outside:
    """The out-of-class probability from a comparison whose last label is the background."""

    def outside(observations: Observations, prior: Prior) -> Float:
        ahead = background_ahead(comparison, observations, prior.probabilities > 0)
        odds = SLOPE * ahead + OFFSET + logit(PRIOR_MASS)
        if strangeness is not None:
            how_strange = strangeness.of(observations)
            odds = np.logaddexp(odds, STRANGE_SLOPE * how_strange + STRANGE_OFFSET + logit(STRANGE_MASS))
        return expit(odds)

    return outside


def background_ahead(comparison: Comparison, observations: Observations, possible: Mask) -> Float:
    """(N,) how far the background is ahead of the best of the possible labels: log odds, uncalibrated."""
    lexical, joint = comparison.observe(observations)
    score = comparison.summary(lexical) + KERNEL_SHARE * comparison.kernel(joint)
    return score[:, -1] - score[:, :-1][:, possible].max(axis=1)
