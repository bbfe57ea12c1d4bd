"""`--engine two-stage`: M-SMC over thousands of labels.

The space and kernel are those of `--engine exact`, which it approximates; docs/scaling.md has the measured
error. Typicality goes through an approximate search: against every simulation it would cost more than the
answer. Its reference goes through the same search, so that what the search misses cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.abc.two_stage import ByClassMeans, LargeBank, two_stage
from simdx.errors import BadInput
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.methods.neighbours import FaissNeighbours
from simdx.types import Float, Posterior, Trace

BANDWIDTH = 0.05
REFERENCE_ROWS = 4096
TYPICAL_NEIGHBOURS = 5


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
        others = np.where(found == rows[:, None], -np.inf, cosine)  # a row is no neighbour of its own
        nearest = -np.sort(-others, axis=1)[:, :TYPICAL_NEIGHBOURS]
        return cls(neighbours, np.sort(1 - np.mean(np.where(np.isfinite(nearest), nearest, 0.0), axis=1)))

    def p_value(self, observations: Float) -> Float:
        _, cosine = self.neighbours.nearest(observations, TYPICAL_NEIGHBOURS)
        distance = np.clip(1 - cosine.mean(axis=1, dtype=np.float64), 0, None)
        farther = self.reference.size - np.searchsorted(self.reference, distance, side="left")
        return (1 + farther) / (1 + self.reference.size)


class TwoStage:
    """An inference function that also brings the typicality a bank of its size can afford."""

    def __init__(self, material: Material, settings: Settings) -> None:
        if settings.tolerance is not None:
            raise BadInput("an absolute tolerance has no two-stage form: use --engine exact")
        if settings.kernel is None:
            raise BadInput(
                "--engine two-stage needs its kernel named: --kernel soft, or hard with a larger error"
            )
        self._settings = settings
        self._space = Space.fit(material.embedded, centre=False)
        self._bank = LargeBank.prepare(self._space.bank, self._space.label_index, self._space.n_labels)

    def __call__(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        settings = self._settings
        posterior = two_stage(
            self._bank, ByClassMeans(self._bank), self._space.transform(observations.vectors), prior,
            kernel=settings.kernel or "soft", bandwidth=settings.bandwidth or BANDWIDTH,
            populations=settings.populations,
        )  # fmt: skip
        return posterior, None

    def typicality(self, space: Space) -> SampledTypicality:
        return SampledTypicality.fit(space, self._settings.seed)


def fit_two_stage(material: Material, settings: Settings) -> Infer:
    return TwoStage(material, settings)
