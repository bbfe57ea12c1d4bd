"""Approximate nearest neighbours in a bank, by faiss: an inverted file of unit vectors.

The bank is split into cells around trained centres and a search looks into the nearest cells only, so it
can miss neighbours but never gets a cosine wrong. More `probes` miss less and cost more.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from simdx.errors import MissingExtra
from simdx.types import Float, Int

SMALL = 10_000  # rows below which looking at all of them is as fast
TRAINING_ROWS_PER_CELL = 64


class FaissNeighbours:
    """The rows of a bank nearest to an observation; `probes` cells are looked into."""

    def __init__(self, vectors: Float, *, cells: int | None = None, probes: int | None = None) -> None:
        logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # it reports every guess it makes
        try:
            import faiss
        except ImportError:
            raise MissingExtra("--engine two-stage", "scale") from None
        n, width = vectors.shape
        self.cells = cells or int(4 * np.sqrt(n))
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
