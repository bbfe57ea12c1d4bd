"""From scores per label to a posterior under the clinician's prior.

A baseline ends in one non-negative score per label and case. Under a uniform prior its normalised scores
are its answer; under another prior the answer is prior × score, as Bayes' rule would have it if the score
were a likelihood. A label with prior zero gets zero. Where nothing is left (no score above zero on a
possible label) the scores say nothing, and the answer is the prior.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from simdx.abc.prior import Prior
from simdx.types import Float, Posterior

BANDWIDTH = 0.05


def posterior_of(scores: Float, prior: Prior, carried_by: float | Float) -> Posterior:
    """`carried_by`: how many simulations (or replies) stand behind each answer."""
    scores = np.asarray(scores, dtype=float)
    joint = scores * prior.probabilities
    total = joint.sum(axis=1, keepdims=True)
    silent = ~(total > 0)
    probabilities = np.where(silent, prior.probabilities, joint / np.where(silent, 1.0, total))
    n = len(scores)
    return Posterior(probabilities, np.broadcast_to(np.asarray(carried_by, float), (n,)), np.full(n, np.nan))


def similarity_scores(similarity: Float, kernel: str | None, bandwidth: float | None) -> Float:
    """Similarities as scores: normalised as they are (hard, the paper's way) or through a softmax (soft).

    Similarities lie close together, so normalising them as they are gives answers close to uniform; the
    softmax at the kernel's own bandwidth is the fair form, and the one whose temperature can be fitted.
    """
    if kernel == "soft":
        return softmax(np.asarray(similarity, float) / (bandwidth or BANDWIDTH), axis=1)
    clipped = np.maximum(np.asarray(similarity, float), 0.0)
    total = clipped.sum(axis=1, keepdims=True)
    return clipped / np.where(total > 0, total, 1.0)
