"""What prior would change the answer?

Only the leading label's prior is moved, the others keep their proportions. Where the in-class posterior is
prior times likelihood, its odds give the likelihoods and the flip follows from them alone. Not every method
is of that form (a hard tolerance moves with the prior, D-SMC averages over a simplex): there the method
itself is asked on the way down from the present prior, and the first crossing bisected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simdx.types import Float

FAR = 40.0  # log odds beyond which a prior is certainty
EXACT = (60, 40)  # points scanned and halvings, where an answer is a handful of multiplications
ASKED = (10, 12)  # the same where the method itself must answer


@dataclass(frozen=True, slots=True)
class Flip:
    """At `prior` for the present leading label, the answer becomes `label` (an index)."""

    label: int
    prior: float


def find_flip(
    posterior_in_class: Float,
    out_of_class: float,
    prior: Float,
    leading: int,
    answer: Callable[[Float], Float] | None = None,
) -> Flip | None:
    """The flip of one answer, or None when no other label is possible.

    `answer(prior)` is the posterior (K,) the decision uses under another prior; it is left out where the
    method is known to be prior times likelihood.
    """
    others = np.where(np.arange(len(prior)) == leading, 0.0, prior)
    if others.sum() <= 0 or prior[leading] <= 0:
        return None
    likelihood = np.divide(posterior_in_class, prior, out=np.zeros(len(prior)), where=prior > 0)

    # Some forty times a case, on a handful of numbers: plain floats are several times faster than arrays.
    weights, fixed = likelihood.tolist(), (others / others.sum()).tolist()

    def closed(share: float) -> int:
        pi = [(1 - share) * f for f in fixed]
        pi[leading] = share
        inside = [p * w for p, w in zip(pi, weights, strict=True)]
        total = math.fsum(inside)
        if total > 0:
            inside = [v / total for v in inside]
        else:
            inside = pi
        mixed = [(1 - out_of_class) * v + out_of_class * p for v, p in zip(inside, pi, strict=True)]
        return mixed.index(max(mixed))

    def at(share: float) -> Float:
        moved = others / others.sum() * (1 - share)
        moved[leading] = share
        return moved

    now = math.log(prior[leading]) - math.log(others.sum())
    if answer is None:
        return _nearest(closed, leading, now, *EXACT)
    return _nearest(lambda share: int(answer(at(share)).argmax()), leading, now, *ASKED)


def _nearest(
    winner: Callable[[float], int], leading: int, now: float, points: int, halvings: int
) -> Flip | None:
    """The share below the present one at which the leading label first stops leading, in its log odds.

    A hard tolerance can let the label lead again further down, so the way down is scanned before the
    crossing is bisected; the scan is finest near the present prior.
    """
    high = low = now
    for step in np.geomspace(0.02, FAR + max(now, 0.0), points).tolist():
        low = now - step
        if winner(_share(low)) != leading:
            break
        high = low
    else:
        return None
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if winner(_share(middle)) == leading else (middle, high)
    return Flip(winner(_share(low)), _share(high))


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
