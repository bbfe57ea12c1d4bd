"""None of these: the probability that a case belongs to no label of the panel.

Two alternatives to the labels, each with a stated prior mass:

another condition   the background bank, simulated like any label and compared in the same two ways, against
                    the best label that the prior leaves possible (`background`)
another kind of     a line of code, a complaint about a train: the text does not describe anything the panel
text                is about (`Novelty`)

The comparisons take the common direction of all simulated texts out, since every label shares it; what is
left hardly tells a case from a cooking recipe that mentions a tongue. Novelty looks at what was taken out:
the typicality distance in the *uncentred* space, from all simulations, the background's too. It is scaled by
itself: 0 is as far as half of the simulations lie from the others, 1 as far as half of the packaged everyday
texts do. So it means the same with every panel and embedder.

Slopes and offsets, which make log odds of scores, were fitted on simulated text alone (docs/recipe.md); a
panel may bring its own for another condition (`odds`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from simdx.abc.logs import expit, logit
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.embedders.base import Embedder, embed_cached, embed_texts
from simdx.errors import BadInput
from simdx.methods.background import BackgroundModel
from simdx.methods.calibration import OutsideScale
from simdx.methods.crossfit import CrossFitted
from simdx.methods.data import Observations, PanelData
from simdx.types import Bank, EmbeddedBank, Float

# Simulations must lie this much nearer to each other than everyday texts do, or there is nothing to tell.
LEAST_SPAN = 0.15
# From the scale to log odds: maximum likelihood on texts of three writers against everyday ones, and a prior
# mass that was set (docs/recipe.md).
SLOPE, OFFSET, PRIOR = 20.2, -12.7, 0.01


@cache
def everyday_texts() -> tuple[str, ...]:
    """Short texts about anything but illness, packaged."""
    lines = files("simdx.methods").joinpath("data", "everyday.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)["text"] for line in lines)


@dataclass(frozen=True, slots=True, eq=False)
class Novelty:
    """Typicality distances on a scale from the simulations' own (0) to everyday texts' (1)."""

    embedder: Embedder
    space: Space
    typicality: Typicality
    own: float
    span: float

    @classmethod
    def fit(cls, data: PanelData) -> Novelty | None:
        """None for a panel whose own texts are everyday ones: there nothing is novel in this sense."""
        space = cls.space_of(data)
        typicality = Typicality.fit(space.bank)
        others = typicality.distance(space.transform(embed_cached(data.embedder, everyday_texts())))
        own = float(np.median(typicality.reference))
        span = float(np.median(others)) - own
        return None if span < LEAST_SPAN else cls(data.embedder, space, typicality, own, span)

    @staticmethod
    def space_of(data: PanelData) -> Space:
        """Every simulation, uncentred, and labelled cases."""
        bank, real = data.embedded, data.real
        parts = [bank.vectors]
        parts += [] if bank.background is None else [bank.background]
        # Not the archive's: whether they are cases at all is for this to say.
        labelled = bank.vectors[:0] if real is None else real.vectors[~real.inferred]
        parts += [labelled] if len(labelled) else []
        vectors = np.concatenate(parts)
        rows = EmbeddedBank(vectors, np.zeros(len(vectors), dtype=np.int64), 1, bank.blocks)
        return Space.fit(rows, centre=False)

    def of(self, observations: Observations) -> Float:
        """(N,) how far the cases are from every simulation.

        A text all in capitals is taken as written or in small letters, whichever is less novel: a note
        typed with the shift key down is not another kind of text.
        """
        found = self._scaled(observations.vectors)
        loud = np.array([i for i, text in enumerate(observations.texts) if text.isupper()], dtype=np.int64)
        if loud.size:
            quiet = embed_texts(self.embedder, [observations.texts[i].lower() for i in loud])
            found[loud] = np.minimum(found[loud], self._scaled(quiet))
        return found

    def log_odds(self, observations: Observations) -> Float:
        """(N,) of another kind of text."""
        return SLOPE * self.of(observations) + OFFSET + logit(PRIOR)

    def _scaled(self, vectors: Float) -> Float:
        return (self.typicality.distance(self.space.transform(vectors)) - self.own) / self.span


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    opposition: BackgroundModel
    novelty: Novelty | None
    scale: OutsideScale
    prior: float | None  # mass of another condition, where it is stated

    @classmethod
    def fit(cls, data: PanelData) -> Outside | None:
        """None for a bank without background, or one that nothing is known about."""
        scale = None if data.calibration is None else data.calibration.outside
        opposition = None if scale is None else BackgroundModel.fit(data)
        if opposition is None or scale is None:
            return None
        return cls(opposition, Novelty.fit(data), scale, data.bank.none_prior)

    def fit_again(self, data: PanelData) -> Outside:
        """To other texts of the archive, which novelty does not look at."""
        opposition = BackgroundModel.fit(data)
        assert opposition is not None  # it was the same bank before
        return replace(self, opposition=opposition)

    def log_odds(self, observations: Observations, prior: Prior) -> tuple[Float, Float]:
        """(N,) each: another condition, and another kind of text, against the labels."""
        signs = self.opposition.signs(observations, prior.probabilities > 0)
        another = self.scale.log_odds(signs, self.prior)
        if self.novelty is None:
            return another, np.full(len(another), -np.inf)
        return another, self.novelty.log_odds(observations)

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        """(N,) out-of-class probabilities."""
        return expit(np.logaddexp(*self.log_odds(observations, prior)))


def at_prior(bank: Bank, prior: float) -> Bank:
    """The bank with this prior probability of another condition."""
    if not (np.isfinite(prior) and 0 < prior < 1):
        raise BadInput(f"the prior of none of these is {prior:g}: give a probability between 0 and 1")
    if not bank.background:
        raise BadInput("none of these has no prior here: the bank describes no other conditions")
    return replace(bank, none_prior=float(prior))


def fit_outside(data: PanelData, before: Outside | None = None) -> CrossFitted[Outside] | None:
    """None for a bank without background. `before`: where it was fitted before."""
    whole = before or Outside.fit(data)
    return None if whole is None else CrossFitted(data, whole.fit_again, whole)
