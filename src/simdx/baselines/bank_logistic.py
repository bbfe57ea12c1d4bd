"""A discriminative classifier on the same simulations: logistic regression on the bank's embeddings.

It sees what M-SMC sees and no real label. The penalty is chosen by cross-validation within the bank.
"""

from __future__ import annotations

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.baselines.scores import posterior_of
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.methods.logistic import choose_penalty, fit_logistic
from simdx.types import Posterior, Trace


def fit_bank_logistic(material: Material, settings: Settings) -> Infer:
    space = Space.fit(material.embedded, centre=True)
    x, y = space.bank, space.label_index
    model = fit_logistic(x, y, space.n_labels, choose_penalty(x, y, space.n_labels, settings.seed))

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        # The loss is balanced over labels, so these are the probabilities under a uniform prior.
        scores = model.probabilities(space.transform(observations.vectors))
        return posterior_of(scores, prior, carried_by=len(x)), None

    return infer
