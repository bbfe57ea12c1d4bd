"""`--engine two-stage`: M-SMC over thousands of labels.

The space and kernel are those of `--engine exact`, which it approximates; docs/scaling.md has the measured
error. Typicality goes through an approximate search (faiss: an inverted file of unit vectors, which can miss
neighbours but never gets a cosine wrong): against every simulation it would cost more than the answer. Its
reference goes through the same search, so that what the search misses cancels.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.two_stage import ByClassMeans, LargeBank, two_stage
from simdx.errors import BadInput, MissingExtra
from simdx.methods.fitted import Carried, Inferred, Settings, nearby
from simdx.methods.material import Material, Observations
from simdx.methods.smc import OnRawCosines
from simdx.types import Float, Int

SMALL = 10_000  # rows below which looking at all of them is as fast
TRAINING_ROWS_PER_CELL = 32
REFERENCE_ROWS = 4096
TYPICAL_NEIGHBOURS = 5  # as in the exact typicality


class FaissNeighbours:
    """The rows of a bank nearest to an observation; `probes` cells are looked into."""

    def __init__(self, vectors: Float, *, cells: int | None = None, probes: int | None = None) -> None:
        logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it reports every guess it makes
        try:
            import faiss
        except ImportError:
            raise MissingExtra("--engine two-stage", "scale") from None
        n, width = vectors.shape
        self.cells = cells or int(2 * np.sqrt(n))
        self.probes = probes or max(8, self.cells // 32)
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        self._index: Any
        if n < SMALL and cells is None:
            self._index = faiss.IndexFlatIP(width)
        else:
            centres = faiss.IndexFlatIP(width)
            self._index = faiss.IndexIVFFlat(centres, width, self.cells, faiss.METRIC_INNER_PRODUCT)
            self._index.cp.max_points_per_centroid = TRAINING_ROWS_PER_CELL
            self._index.cp.min_points_per_centroid = 1
            self._index.cp.seed = 1234
            self._index.train(rows)
            self._index.nprobe = self.probes
            self._keep_centres = centres  # faiss holds it by pointer
        self._index.add(rows)

    def nearest(self, observations: Float, count: int) -> tuple[Int, Float]:
        cosine, rows = self._index.search(np.ascontiguousarray(observations, dtype=np.float32), count)
        return rows, np.minimum(cosine, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SampledTypicality:
    """As `abc.typicality.Typicality`, its reference taken from a sample of the bank's rows."""

    neighbours: FaissNeighbours
    reference: Float  # ascending

    @classmethod
    def fit(cls, space: Space, seed: int = 0) -> SampledTypicality:
        rng = np.random.default_rng([seed, 0x79])
        rows = rng.permutation(len(space.bank))[:REFERENCE_ROWS]
        neighbours = FaissNeighbours(space.bank)
        found, cosine = neighbours.nearest(space.bank[rows], TYPICAL_NEIGHBOURS + 1)
        others = np.where(found == rows[:, None], -np.inf, cosine)  # a row is not its own neighbour
        nearest = -np.sort(-others, axis=1)[:, :TYPICAL_NEIGHBOURS]
        return cls(neighbours, np.sort(1 - np.mean(np.where(np.isfinite(nearest), nearest, 0.0), axis=1)))

    def p_value(self, observations: Float) -> Float:
        _, cosine = self.neighbours.nearest(observations, TYPICAL_NEIGHBOURS)
        distance = np.clip(1 - cosine.mean(axis=1, dtype=np.float64), 0, None)
        farther = self.reference.size - np.searchsorted(self.reference, distance, side="left")
        return (1 + farther) / (1 + self.reference.size)


class TwoStage(OnRawCosines):
    refits = False
    cheap = False

    def __init__(self, material: Material, settings: Settings) -> None:
        if settings.tolerance is not None:
            raise BadInput("an absolute tolerance has no two-stage form: use --engine exact")
        if settings.kernel is None:
            raise BadInput(
                "--engine two-stage needs its kernel named: --kernel soft, or hard with a larger error"
            )
        super().__init__(material, settings)
        self.proportional = settings.kernel == "soft"
        self._bank = LargeBank.prepare(*self.rows)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        found = two_stage(
            self._bank, ByClassMeans(self._bank), self.placed(observations), prior,
            kernel=self.hard_or_soft, bandwidth=self.width, populations=self.settings.populations,
        )  # fmt: skip
        return Inferred(found)

    def carried(self, observations: Observations, prior: Prior) -> Carried:
        return nearby(self.raw, observations)

    @cached_property
    def typicality(self) -> SampledTypicality:
        return SampledTypicality.fit(self.space, self.settings.seed)
