"""How far each posterior probability could move if the bank were simulated again.

A soft-kernel posterior is a weighted share among the simulations that carry it; `effective_simulations`
says how many those are worth. The interval is the Jeffreys interval of a share seen in that many draws, of
what none of these leaves to the labels. It speaks of the bank's finite size alone, not of whether the
simulator writes like the clinic.

A preview is the posterior of a kept case under another prior, with its intervals, while a slider moves: made
to be there within a frame or two of the move. It is no answer: it announces no label, decides nothing, has no
id, and is not recorded; the case it is about was recorded with its first answer. Once the slider rests, the
answer under that prior is asked for like any other, and recorded before it leaves.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import betaincinv

from simdx.abc.prior import Prior
from simdx.classifier import Classifier
from simdx.methods import Observations
from simdx.types import Float
from simdx.words import outcomes

COVERAGE = 0.9


def posterior_intervals(answer: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """label -> (low, high) for the outcomes of an answer's JSON."""
    inside = answer["posterior_in_class"]
    low, high = share_intervals(
        np.fromiter(inside.values(), dtype=float),
        answer["effective_simulations"],
        np.array([answer["provenance"]["prior"][label] for label in inside]),
        answer["out_of_class"],
    )
    return {label: (float(a), float(b)) for label, a, b in zip(inside, low, high, strict=True)}


def share_intervals(
    inside: Float, effective: float | None, prior: Float, outside: float | None
) -> tuple[Float, Float]:
    """(K,) lower and (K,) upper ends, from one case's in-class posterior (K,) and what pulls it."""
    p = np.clip(inside, 0, 1)
    n = max(0.0, float(effective or 0.0))
    tail = (1 - COVERAGE) / 2
    low = betaincinv(n * p + 0.5, n * (1 - p) + 0.5, tail)
    high = betaincinv(n * p + 0.5, n * (1 - p) + 0.5, 1 - tail)
    possible, share = prior > 0, float(outside or 0.0)
    low, high = np.where(possible, np.minimum(low, p), 0), np.where(possible, np.maximum(high, p), 0)
    return (1 - share) * low, (1 - share) * high


def previews(classifier: Classifier, observations: Observations, prior: Prior) -> list[dict[str, Any]]:
    """One for each case: its outcomes and their intervals."""
    batch = classifier.infer_batch_observed(observations, prior)
    names, outside = classifier.panel.names, batch.out_of_class
    out = []
    for i, inside in enumerate(batch.posterior_in_class):
        share = None if outside is None else float(outside[i])
        low, high = share_intervals(inside, float(batch.effective_simulations[i]), prior.probabilities, share)
        out.append(
            {
                "outcomes": outcomes(dict(zip(names, inside.tolist(), strict=True)), share),
                "intervals": dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
            }
        )
    return out
