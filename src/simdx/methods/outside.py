"""None of these: the probability that a case belongs to no label of the panel.

Three signs, none of which needs a real case, become log odds by one logistic regression that was fitted on
simulated text alone, all panels together (benchmarks/outside_choice.py, docs/recipe.md):

background  how much better the background bank explains the case than the best label the prior leaves
            possible: one more hypothesis, simulated like any label and compared in the same two ways
entropy     bits of the posterior over the labels under an even prior: a case between two labels is more
            often of neither
rarity      how far the case's typicality lies below its level, on a log scale, in the lexical space of the
            labels' simulations: the background is in the panel's own register, so a text unlike anything
            simulated needs a sign of its own; nineteen in twenty simulations show none of it

The odds are at an even chance of none of these; a stated prior mass turns them into a probability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.abc.typicality import Typicality
from simdx.methods.base import Material, Observations
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.methods.recipe import pool
from simdx.types import EmbeddedBank, Float, entropy_bits

SIGNS = ("background", "entropy", "rarity")
WEIGHTS = (0.93, 0.66, 1.53)
OFFSET = 0.17
LEVEL = 0.05  # of typicality; above it a case is as usual as the simulations themselves
PRIOR_MASS = 0.05

Outside = Callable[[Observations, Prior], Float]


@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """The hypothesis beside the labels; called, it is the out-of-class probability (N,) under a prior."""

    comparison: Comparison  # the labels, and the background as one more
    typicality: Typicality | None  # of the labels' simulations, in the lexical space

    @classmethod
    def fit(cls, comparison: Comparison) -> Complement:
        labelled = comparison.label_index < comparison.n_labels - 1
        rows = comparison.lexical.bank[labelled].astype(np.float32)
        # A bank of a few words has no vocabulary to be rare in.
        tells = bool(np.ptp(rows, axis=0).any())
        return cls(comparison, Typicality.fit(rows) if tells else None)

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        log_odds = self.signs(observations, prior) @ np.array(WEIGHTS) + OFFSET
        return expit(log_odds + logit(PRIOR_MASS))

    def signs(self, observations: Observations, prior: Prior) -> Float:
        """(N, 3) in the order of `SIGNS`. Of the prior only what it makes impossible counts: how likely the
        labels are among themselves says nothing about a case of none of them."""
        c = self.comparison
        lexical, joint = c.observe(observations)
        summary, kernel = c.summary(lexical), c.kernel(joint)
        possible = prior.probabilities > 0
        score = summary + KERNEL_SHARE * kernel
        background = score[:, -1] - score[:, :-1][:, possible].max(axis=1)
        among = pool(summary[:, :-1], kernel[:, :-1], possible / possible.sum())
        usual = np.ones(len(joint)) if self.typicality is None else self.typicality.p_value(lexical)
        return np.column_stack([background, entropy_bits(among), rarity(usual)])


def rarity(typicality: Float) -> Float:
    """Zero down to the level, then the logarithm of how many times smaller the typicality is."""
    return np.maximum(0.0, np.log(LEVEL / typicality))


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
    return Complement.fit(
        Comparison.fit(material.lexicon, texts, widened, bandwidth=BANDWIDTH, self_consistent=False)
    )
