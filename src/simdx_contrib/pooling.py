"""Several voices of one model as one answer: a log-linear pool whose weights no label chose.

Each voice gives log-likelihoods of the labels, divided by a temperature of its own that was found on
simulated text, where labels are known. One model stands behind all of them, so their evidence is not added
up: the weights sum to one, and the pool is about as sure as its voices are where they agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import log_softmax

from simdx.types import Float, Mask

FLOOR = 1e-6  # of a voice's probability: what one voice may say against a label
CHECKLIST = 0.5  # weight of a density on a list of questions and answers, which no prompt would write


def pooled(voices: Mapping[str, Float], checklist: Mask | None = None) -> Float:
    """(N, K) log-likelihoods, up to a constant per row, from tempered ones of each voice."""
    total: Float = np.zeros((1, 1))
    weights: Float = np.zeros((1, 1))
    for name, log_likelihood in voices.items():
        weight = np.ones((1, 1))
        if name == "likelihood" and checklist is not None:
            weight = np.where(checklist, CHECKLIST, 1.0)[:, None]
        total = total + weight * np.maximum(log_softmax(log_likelihood, axis=1), math.log(FLOOR))
        weights = weights + weight
    return total / weights
