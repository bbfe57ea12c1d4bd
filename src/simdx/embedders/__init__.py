"""Embedders by name: `wordllama`, `minilm`, `mpnet`, `hashing`, a folder or hub name, or `a+b`."""

from __future__ import annotations

from functools import lru_cache

from simdx.embedders.base import Embedder, chunks, embed_texts
from simdx.embedders.cache import embed_cached
from simdx.embedders.joint import JointEmbedder
from simdx.errors import BadInput

__all__ = ["Embedder", "JointEmbedder", "chunks", "embed_cached", "embed_texts", "get_embedder"]


@lru_cache(maxsize=8)
def get_embedder(name: str) -> Embedder:
    """The embedder of that name, loaded once per process. `openai:MODEL@URL` is a remote one."""
    parts = [p.strip() for p in name.split("+")]
    if not all(parts):
        raise BadInput(f"embedder '{name}' has an empty part: write NAME or NAME+NAME")
    if len(parts) > 1:
        if len(set(parts)) < len(parts):
            raise BadInput(f"embedder '{name}' names a part twice")
        return JointEmbedder([get_embedder(p) for p in parts])
    if name == "wordllama":
        from simdx.embedders.wordllama import WordLlamaEmbedder

        return WordLlamaEmbedder()
    if name == "hashing":
        from simdx.embedders.hashing import HashingEmbedder

        return HashingEmbedder()
    if name.startswith("openai:"):
        from simdx.embedders.openai import OpenAIEmbedder

        return OpenAIEmbedder.from_name(name)
    from simdx.embedders.sentence import SentenceEmbedder

    return SentenceEmbedder(name)
