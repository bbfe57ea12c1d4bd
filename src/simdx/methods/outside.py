"""None of these: the probability that a case belongs to no label of the panel.

The background bank is one more hypothesis, simulated like any label and compared in the same space. Its
share of the kernel mass, at even prior odds, is the out-of-class probability.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simdx.abc import exact
from simdx.abc.space import Space
from simdx.types import EmbeddedBank, Float

PRIOR_MASS = 0.5
BANDWIDTH = 0.05


def fit_outside(bank: EmbeddedBank) -> Callable[[Float], Float] | None:
    """raw observations (N, d) -> out-of-class probability (N,); None for a bank without background."""
    if bank.background is None or len(bank.background) == 0:
        return None
    space = Space.fit(bank, centre=True)
    assert space.background is not None
    vectors = np.concatenate([space.bank, space.background])
    labels = np.concatenate([space.label_index, np.full(len(space.background), bank.n_labels)])
    prior = np.append(np.full(bank.n_labels, (1 - PRIOR_MASS) / bank.n_labels), PRIOR_MASS)

    def outside(observations: Float) -> Float:
        z = space.transform(observations)
        posterior = exact.multinomial(vectors, labels, bank.n_labels + 1, z, prior, bandwidth=BANDWIDTH)
        return posterior.probabilities[:, -1]

    return outside
