"""Bank embeddings on disk, keyed by content. Case texts and their embeddings are never written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simdx.disk import CannotWrite, load_arrays, make_folder, save_arrays
from simdx.embedders.base import Embedder, embed_texts
from simdx.models.verify import home
from simdx.types import Float, content_hash

_FORMAT = "1"  # raise it when chunking or pooling changes what an embedding is


def embed_cached(embedder: Embedder, texts: Sequence[str]) -> Float:
    """`embed_texts`, remembered under the hash of the embedder's id and every text."""
    path = home() / "embeddings" / (content_hash(_FORMAT, embedder.id, *texts) + ".safetensors")
    shape = (len(texts), sum(embedder.blocks))
    found = _read(path, shape)
    if found is not None:
        return found
    vectors = embed_texts(embedder, texts)
    _write(path, vectors)
    return vectors


def _read(path: Path, shape: tuple[int, int]) -> Float | None:
    """A cached matrix, or None when it is absent, damaged or of another shape: it can be made again."""
    vectors = (load_arrays(path) or {}).get("vectors")
    if vectors is None or vectors.shape != shape or not np.isfinite(vectors).all():
        return None
    return vectors


def _write(path: Path, vectors: Float) -> None:
    """Atomic, and best effort: a cache folder that cannot be written costs time, not the answer."""
    try:
        make_folder(path.parent)
        save_arrays(path, {"vectors": vectors})
    except CannotWrite:
        pass
