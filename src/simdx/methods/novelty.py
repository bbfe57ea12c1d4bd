"""Is a text of the kind that was simulated at all? A line of code, a complaint about a train are not.

The comparisons take the common direction of all simulated texts out, since every label shares it; what is
left hardly tells a case from a cooking recipe that mentions a tongue. Novelty looks at what was
taken out: the typicality distance in the *uncentred* space, from all simulations, the background's too.
It is scaled by itself: 0 is as far as half of the simulations lie from the others, 1 as far as half of
the packaged everyday texts do. So it means the same with every panel and embedder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from simdx.abc.logs import logit
from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.embedders.base import Embedder, embed_texts
from simdx.embedders.cache import embed_cached
from simdx.methods.material import Material, Observations
from simdx.types import EmbeddedBank, Float

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
    def fit(cls, material: Material) -> Novelty | None:
        """None for a panel whose own texts are everyday ones: there nothing is novel in this sense."""
        space = cls.space_of(material)
        typicality = Typicality.fit(space.bank)
        others = typicality.distance(space.transform(embed_cached(material.embedder, everyday_texts())))
        own = float(np.median(typicality.reference))
        span = float(np.median(others)) - own
        return None if span < LEAST_SPAN else cls(material.embedder, space, typicality, own, span)

    @staticmethod
    def space_of(material: Material) -> Space:
        """Every simulation, uncentred, and labelled cases."""
        bank, real = material.embedded, material.real
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
