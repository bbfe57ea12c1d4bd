"""None of these: the probability that a case belongs to no label of the panel.

    log odds(none of these) = log(exp(another condition) + exp(the library) + exp(another kind of text))

another condition     the panel's own background explains the case better than the best possible label does
                      (`background`), with a threshold that is the panel's (`calibration`)
the library           so does a condition of the library that no label stands for (`world`)
another kind of text  a line of code, a complaint about a train: slope · novelty + offset (`Novelty`)

*Novelty.* The scores take the common direction of all simulated texts out, since every label shares it; what
is left hardly tells a case from a cooking recipe that mentions a tongue. Novelty looks at what was taken
out: the typicality distance in the *uncentred* space, from all simulations, the background's too. Its scale
is its own: 0 is as far as half of the simulations lie from the others, 1 as far as half of the packaged
everyday texts do.

Constants were chosen on simulated text alone (docs/recipe.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.resources import files

import numpy as np

from simdx.abc.logs import expit, logit
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.embedders.base import Embedder, embed_cached, embed_texts
from simdx.errors import BadInput
from simdx.methods.background import BackgroundModel, condition_log_odds
from simdx.methods.calibration_record import Calibration
from simdx.methods.panel_data import Observations, PanelData
from simdx.methods.speed import Arrays, named, part
from simdx.methods.world import World, world_log_odds
from simdx.types import Bank, EmbeddedBank, Float

# Simulations must lie this much nearer to each other than everyday texts do, or nothing is novel.
LEAST_SPAN = 0.15
# From novelty to log odds: maximum likelihood on texts of three writers against everyday ones, and a prior
# mass that was set.
NOVELTY_SLOPE, NOVELTY_OFFSET, NOVELTY_PRIOR = 20.2, -12.7, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    background: BackgroundModel | None  # the panel's own
    world: World | None
    novelty: Novelty | None
    calibration: Calibration
    prior: float | None  # mass of another condition, where it is stated

    @classmethod
    def fit(cls, data: PanelData) -> Outside | None:
        """None where nothing stands against the labels, or nothing is known about how it does."""
        found, arrays = data.calibration, {} if data.real is not None else data.compiled or {}
        if found is None or (found.outside is None and found.world is None):
            return None
        background = None
        if found.outside is not None:
            kept = part(arrays, "outside")
            background = BackgroundModel.from_arrays(kept, data) if kept else BackgroundModel.fit(data)
        world = None if found.world is None else World.fit(data)
        novel = part(arrays, "novelty")
        novelty = Novelty.from_arrays(novel, data) if novel else None if arrays else Novelty.fit(data)
        if background is None and world is None:
            return None
        return cls(background, world, novelty, found, data.bank.none_prior)

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        own = {} if self.background is None else named("outside", self.background.arrays())
        novelty = {} if self.novelty is None else named("novelty", self.novelty.arrays())
        world = {} if self.world is None else named("world", self.world.arrays())
        return {**own, **world, **novelty}

    def log_odds(self, observations: Observations, prior: Prior) -> dict[str, Float]:
        """(N,) each against the labels: `background`, `world` and `novelty`, those that are weighed."""
        possible, found = prior.probabilities > 0, {}
        if self.background is not None and self.calibration.outside is not None:
            features = self.background.features(observations, possible)
            found["background"] = condition_log_odds(features, self.calibration.outside, self.prior)
        if self.world is not None and self.calibration.world is not None:
            features = self.world.features(self.world.compared(observations), possible)
            found["world"] = world_log_odds(features, observations.texts, self.calibration.world, self.prior)
        if self.novelty is not None:
            found["novelty"] = self.novelty.log_odds(observations)
        return found

    def __call__(self, observations: Observations, prior: Prior) -> Float:
        """(N,) probabilities of none of these."""
        return expit(reduce(np.logaddexp, self.log_odds(observations, prior).values()))


def at_prior(bank: Bank, prior: float) -> Bank:
    """The bank with this prior probability of another condition."""
    if not (np.isfinite(prior) and 0 < prior < 1):
        raise BadInput(f"the prior of none of these is {prior:g}: give a probability between 0 and 1")
    if not bank.background:
        raise BadInput("none of these has no prior here: the bank describes no other conditions")
    return replace(bank, none_prior=float(prior))


# --------------------------------------------------------------------------- another kind of text


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

    @classmethod
    def from_arrays(cls, arrays: Arrays, data: PanelData) -> Novelty:
        """What `fit` made."""
        space, (own, span) = cls.space_of(data), map(float, arrays["scale"])
        return cls(data.embedder, space, Typicality.known(space.bank, arrays["reference"]), own, span)

    def arrays(self) -> dict[str, Float]:
        return {"reference": self.typicality.reference, "scale": np.array([self.own, self.span])}

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
        return NOVELTY_SLOPE * self.of(observations) + NOVELTY_OFFSET + logit(NOVELTY_PRIOR)

    def _scaled(self, vectors: Float) -> Float:
        return (self.typicality.distance(self.space.transform(vectors)) - self.own) / self.span
