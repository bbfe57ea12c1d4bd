"""Vectors of a slow encoder, made on another machine and kept in half precision: looked up by text, else made here."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from simdx.embedders import get_embedder
from simdx.embedders.base import Embedder, JointEmbedder, chunks
from simdx.models import REGISTRY
from simdx.reading.text import as_read
from simdx.types import Float

SLOW, WIDTH = "mpnet", 768
PER_FILE = 10_000  # vectors: 15 MB


def pieces_of(texts: Iterable[str]) -> set[str]:
    """What an embedder is given of these texts as the artefacts read them."""
    return {piece for text in texts for piece in chunks(as_read(text)[0])}


def _key(piece: str) -> bytes:
    return sha256(piece.encode()).digest()[:16]


def save_vectors(out: Path, pieces: Sequence[str], batch: int = 256) -> None:
    """Files of PER_FILE vectors each; those that are there already are not made again."""
    known, embedder = set(read_vectors(out)), get_embedder(SLOW)
    pieces = [piece for piece in pieces if _key(piece) not in known]
    first = len(list(out.glob("vectors-*.npz")))
    for i in range(0, len(pieces), PER_FILE):
        part = pieces[i : i + PER_FILE]
        made = [embedder.embed_batch(part[j : j + batch]) for j in range(0, len(part), batch)]
        keys = np.frombuffer(b"".join(map(_key, part)), dtype=np.uint8).reshape(-1, 16)
        np.savez(out / f"vectors-{first + i // PER_FILE:02}.npz", key=keys,
                 vector=np.concatenate(made).astype(np.float16))  # fmt: skip


def read_vectors(folder: Path) -> dict[bytes, Float]:
    found: dict[bytes, Float] = {}
    for place in sorted(folder.glob("vectors-*.npz")):
        with np.load(place) as arrays:
            found.update(zip(map(bytes, arrays["key"]), arrays["vector"], strict=True))
    return found


class Remembered:
    """The slow encoder under its own id: half precision moves a cosine by less than .001. It is loaded when missed."""

    remote = False

    def __init__(self, name: str, vectors: dict[bytes, Float]) -> None:
        self._name, self._vectors = name, vectors
        self.id, self.blocks = f"{name}/{REGISTRY[name].files['model.safetensors'][:12]}", (WIDTH,)

    def embed_batch(self, texts: Sequence[str]) -> Float:
        keys = [_key(text) for text in texts]
        if missing := [text for text, key in zip(texts, keys, strict=True) if key not in self._vectors]:
            new = get_embedder(self._name).embed_batch(missing)
            self._vectors.update(zip(map(_key, missing), new, strict=True))
        return np.stack([self._vectors[key] for key in keys]).astype(np.float32)


def embedder_with(name: str, vectors: dict[bytes, Float]) -> Embedder:
    """The embedder of that name, its slow part looked up."""
    if not vectors or SLOW not in name.split("+"):
        return get_embedder(name)
    parts = [Remembered(part, vectors) if part == SLOW else get_embedder(part) for part in name.split("+")]
    return parts[0] if len(parts) == 1 else JointEmbedder(parts)
