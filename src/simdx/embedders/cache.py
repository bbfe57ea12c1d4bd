"""Bank embeddings on disk, keyed by content. Case texts and their embeddings are never written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

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
    if not path.is_file():
        return None
    try:
        vectors = load_file(path)["vectors"]
    except Exception:  # safetensors raises its own error types for any damage
        return None
    if vectors.shape != shape or not np.isfinite(vectors).all():
        return None
    return vectors


def _write(path: Path, vectors: Float) -> None:
    """Atomic, and best effort: a cache folder that cannot be written costs time, not the answer."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
        try:
            save_file({"vectors": np.ascontiguousarray(vectors)}, scratch)
            os.replace(scratch, path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError:
        pass
