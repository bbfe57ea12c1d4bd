"""How far each posterior probability could move if the bank were simulated again.

A soft-kernel posterior is a weighted share among the simulations that carry it; `effective_simulations`
says how many those are worth. The interval is the Jeffreys interval of a share seen in that many draws, of
what none of these leaves to the labels. It speaks of the bank's finite size alone, not of whether the
simulator writes like the clinic.

A preview is the posterior under another prior, with its intervals, while a slider moves. It is no answer: it
announces no label, decides nothing, has no id, and is not recorded. It is made only for a text about which
the caller was answered before, so that the log has it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import betaincinv

from simdx.abc.prior import Prior
from simdx.answer import Answer, by_name
from simdx.classifier import Classifier
from simdx.methods import Observations
from simdx.types import Float

COVERAGE = 0.9


def posterior_intervals(answer: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """label -> (low, high) for the labels of an answer's JSON."""
    among = answer["among_labels"]
    low, high = share_intervals(
        np.fromiter(among.values(), dtype=float),
        answer["effective_simulations"],
        np.array([answer["provenance"]["prior"][label] for label in among]),
        answer["out_of_class"],
    )
    return {label: (float(a), float(b)) for label, a, b in zip(among, low, high, strict=True)}


def share_intervals(
    among: Float, effective: float | None, prior: Float, outside: float | None
) -> tuple[Float, Float]:
    """(K,) lower and (K,) upper ends, from one case's posterior among the labels (K,)."""
    p = np.clip(among, 0, 1)
    n = max(0.0, float(effective or 0.0))
    tail = (1 - COVERAGE) / 2
    low = betaincinv(n * p + 0.5, n * (1 - p) + 0.5, tail)
    high = betaincinv(n * p + 0.5, n * (1 - p) + 0.5, 1 - tail)
    possible, share = prior > 0, float(outside or 0.0)
    low, high = np.where(possible, np.minimum(low, p), 0), np.where(possible, np.maximum(high, p), 0)
    return (1 - share) * low, (1 - share) * high


def preview(classifier: Classifier, case: Observations, prior: Prior) -> dict[str, Any]:
    """One case's outcomes and their intervals."""
    table, names = classifier.infer_batch_observed(case, prior), classifier.panel.names
    share = None if table.out_of_class is None else float(table.out_of_class[0])
    effective = float(table.effective_simulations[0])
    low, high = share_intervals(table.among_labels[0], effective, prior.probabilities, share)
    return {
        "outcomes": by_name(classifier.outcomes, table.posterior[0]),
        "intervals": dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
    }


def beside(
    classifier: Classifier, case: Observations, prior: Prior, answer: Answer, draws: int
) -> dict[str, Any]:
    """What the page shows beside an answer."""
    drawn = classifier.simplex_draws_observed(case, prior, draws) if draws else ()
    return {
        "outcomes": answer.posterior,
        "intervals": posterior_intervals(answer.to_json()),
        "words": {
            "headline": answer.headline,
            "leading": answer.leading,
            "uncertainty": answer.uncertainty_words,
            "uncertainty_is_its_own": answer.second_order_is_its_own,
            "alarm": answer.alarm_words,
            "outside": answer.outside_words,
        },
        "pairs": [pair.model_dump() for pair in classifier.pairs(case.texts[0], answer)],
        "draws": [[round(float(v), 4) for v in row] for row in drawn],
    }


def one(observed: Observations, place: int) -> Observations:
    return Observations(observed.texts[place : place + 1], observed.vectors[place : place + 1])
