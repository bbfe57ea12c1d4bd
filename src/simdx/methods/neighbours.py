"""Approximate nearest neighbours in a bank, by faiss: an inverted file of unit vectors.

The bank is split into cells around trained centres and a search looks into the nearest cells only, so it
can miss neighbours but never gets a cosine wrong. More `probes` miss less and cost more.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from simdx.abc.two_stage import LargeBank
from simdx.errors import MissingExtra
from simdx.types import Float, Int

SMALL = 10_000  # rows below which looking at all of them is as fast
TRAINING_ROWS_PER_CELL = 32


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


class BySimulations:
    """A stage one for `abc.two_stage`: the labels whose simulations the search finds nearest.

    Where it finds fewer labels than are wanted, class means name the rest.
    """

    def __init__(self, bank: LargeBank, neighbours: FaissNeighbours, nearest: int = 512) -> None:
        self._bank, self._neighbours, self._nearest = bank, neighbours, nearest
        self._label_index = np.repeat(np.arange(bank.n_labels), bank.counts)

    def labels(self, observations: Float, count: int, bonus: Float) -> Int:
        rows, cosine = self._neighbours.nearest(observations, self._nearest)
        label = self._label_index[np.maximum(rows, 0)]
        score = observations @ self._bank.means.T - 4.0  # below every label that was found
        found = np.where(rows < 0, -np.inf, cosine)
        np.maximum.at(score, (np.arange(len(rows))[:, None], label), found)
        score = score + bonus
        if count >= score.shape[1]:
            return np.broadcast_to(np.arange(score.shape[1]), score.shape)
        return np.argpartition(-score, count, axis=1)[:, :count]
