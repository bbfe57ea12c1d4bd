"""Embedders that remember, for one run and in memory alone, the batches they embedded.

Joint embedders share their parts (`minilm` is one of `wordllama+minilm`), and an encoder's batch is the slow
part of a run. Embeddings of cases are never written, so what one process embedded twice it must remember
itself. Whole batches are remembered rather than texts: a text's vector depends, in its last digits, on the
batch it was padded in, and so an answer from memory is the very array that would be computed again.

A batch from memory costs nothing, which no measured time may claim: `spared_seconds` counts what the batches
answered from memory took when they were embedded, to be added to the time that passed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from simdx.egress import is_remote
from simdx.embedders import Embedder, JointEmbedder, get_embedder
from simdx.types import Float


class RememberingEmbedder:
    """An embedder with the same identity and the same vectors; a batch is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.id = inner.id
        self.remote = is_remote(inner)
        self.blocks = tuple(inner.blocks)
        self.spared_seconds = 0.0
        self._known: dict[tuple[str, ...], tuple[Float, float]] = {}

    def embed_batch(self, texts: Sequence[str]) -> Float:
        batch = tuple(texts)
        if batch in self._known:
            vectors, seconds = self._known[batch]
            self.spared_seconds += seconds
            return vectors
        began = time.perf_counter()
        vectors = np.array(self.inner.embed_batch(texts))
        vectors.setflags(write=False)  # handed out again: nobody may change it
        self._known[batch] = vectors, time.perf_counter() - began
        return vectors


class RememberedEmbedders:
    """Embedders by name, as `get_embedder` gives them, whose parts remember together."""

    def __init__(self) -> None:
        self._parts: dict[str, RememberingEmbedder] = {}

    def get(self, name: str) -> Embedder:
        whole = get_embedder(name)
        if not isinstance(whole, JointEmbedder):
            return self._part(whole)
        return JointEmbedder([self._part(part) for part in whole.parts])

    @property
    def spared_seconds(self) -> float:
        """Of all embedders together, since the run began."""
        return sum(part.spared_seconds for part in self._parts.values())

    def _part(self, embedder: Embedder) -> RememberingEmbedder:
        return self._parts.setdefault(embedder.id, RememberingEmbedder(embedder))
