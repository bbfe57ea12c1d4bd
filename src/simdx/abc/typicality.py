"""How usual is an observation among what was simulated?

Quantile tolerances always accept something and a soft kernel always normalises, so a posterior stays
confident on a text unlike every label. Typicality looks at the distances themselves: the mean distance
to the k nearest simulations, as a p-value against the same quantity for every simulation of the bank
left out in turn. Small means: hardly any simulated text lies this far from the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.abc.space import check_observations, chunk_size
from simdx.errors import BadInput
from simdx.types import Float


@dataclass(frozen=True, slots=True, eq=False)
class Typicality:
    """The bank's own leave-one-out distances, ready to judge observations in the same space."""

    vectors: Float  # (n, d) distinct bank rows, in double precision: distances do not depend on the batch
    reference: Float  # (n,) ascending mean k-nearest distance of each row to the others
    neighbours: int

    @classmethod
    def fit(cls, bank_vectors: Float, neighbours: int = 5) -> Typicality:
        """`neighbours` is cut to what the bank has; repeated rows count once, or they would look typical."""
        if neighbours < 1:
            raise BadInput("typicality needs at least 1 neighbour")
        vectors = _distinct(bank_vectors)
        if vectors.shape[0] < 2:
            raise BadInput("typicality needs a bank of at least two different simulations")
        k = min(neighbours, vectors.shape[0] - 1)
        reference = np.sort(_mean_nearest(vectors, vectors, k, leave_out=True))
        return cls(vectors, reference, k)

    @classmethod
    def known(cls, bank_vectors: Float, reference: Float, neighbours: int = 5) -> Typicality:
        """What `fit` made of the same bank before, from its reference."""
        all_distinct = len(reference) == len(bank_vectors)  # finding that out takes longer than an answer
        vectors = bank_vectors.astype(np.float64) if all_distinct else _distinct(bank_vectors)
        return cls(vectors, reference, min(neighbours, len(reference) - 1))

    def distance(self, observations: Float) -> Float:
        """Mean distance of each observation to its nearest simulations, (N,)."""
        z = check_observations(observations, self.vectors.shape[1])
        return _mean_nearest(z, self.vectors, self.neighbours, leave_out=False)

    def p_value(self, observations: Float) -> Float:
        """Share of simulations at least as far from the rest of the bank, with +1 smoothing, in (0, 1]."""
        farther = self.reference.size - np.searchsorted(
            self.reference, self.distance(observations), side="left"
        )
        return (1 + farther) / (1 + self.reference.size)


def _distinct(vectors: Float) -> Float:
    return np.unique(np.ascontiguousarray(vectors, dtype=np.float32), axis=0).astype(np.float64)


def _mean_nearest(rows: Float, bank: Float, k: int, leave_out: bool) -> Float:
    out = np.empty(rows.shape[0])
    step = chunk_size(bank.shape[0])
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        cosine = np.asarray(rows[part], dtype=np.float64) @ bank.T
        if leave_out:
            here = np.arange(cosine.shape[0])
            cosine[here, here + start] = -np.inf
        n = bank.shape[0]
        nearest = np.partition(cosine, n - k, axis=1)[:, n - k :]
        out[part] = 1 - nearest.mean(axis=1, dtype=np.float64)
    return np.clip(out, 0, None)
