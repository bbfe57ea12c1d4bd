"""None of these: the probability that a case belongs to no label of the panel.

The background bank is one more hypothesis, simulated like any label and compared in the same two ways,
against the best label that the prior leaves possible. The log odds become a probability at a stated prior
mass; slope and offset were fitted on simulated text alone (docs/recipe.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from simdx.abc.prior import Prior
from simdx.methods.base import Material, Observations
from simdx.methods.comparison import BANDWIDTH, KERNEL_SHARE, Comparison
from simdx.types import EmbeddedBank, Float

SLOPE, OFFSET = 1.03, 1.20
PRIOR_MASS = 0.05

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

    def outside(observations: Observations, prior: Prior) -> Float:
        lexical, joint = comparison.observe(observations)
        score = comparison.summary(lexical) + KERNEL_SHARE * comparison.kernel(joint)
        best = score[:, :-1][:, prior.probabilities > 0].max(axis=1)
        return expit(SLOPE * (score[:, -1] - best) + OFFSET + logit(PRIOR_MASS))

    return outside
