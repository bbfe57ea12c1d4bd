"""A preview: the posterior of a kept case under another prior, while a slider moves.

It is made to be there within a frame or two of the move: what the bars show and nothing else. It is no
answer: it announces no label, decides nothing, has no id, and is not recorded; the case it is about was
recorded with its first answer. Once the slider rests, the answer under that prior is asked for like any
other, and recorded before it leaves.
"""

from typing import Any

from simdx.abc.prior import Prior
from simdx.classifier import Classifier
from simdx.methods import Observations
from simdx.service.intervals import share_intervals
from simdx.words import outcomes


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
