"""Embedders by name: `wordllama`, `minilm`, `mpnet`, `hashing`, one of another package, a folder or
hub name, or `a+b`."""

from functools import lru_cache

from simdx import plugins
from simdx.egress import admit
from simdx.embedders.base import (
    Embedder,
    HashingEmbedder,
    JointEmbedder,
    WordLlamaEmbedder,
    chunks,
    embed_cached,
    embed_texts,
)
from simdx.errors import BadInput


def get_embedder(name: str, *, allow_remote: bool = False) -> Embedder:
    """The embedder of that name, loaded once per process.

    `openai:MODEL@URL` may be on another machine, and a hub name may have to be asked for: without permission
    each is refused, alone or as a part.
    """
    asks = any("/" in part and not part.startswith("openai:") for part in parts_of(name))
    return admit(_loaded(name, allow_remote and asks), allow_remote)


def parts_of(name: str) -> list[str]:
    """The parts of a joint embedder's name; of another, its name alone."""
    parts = [p.strip() for p in name.split("+")]
    if not all(parts):
        raise BadInput(f"embedder '{name}' has an empty part: write NAME or NAME+NAME")
    if len(set(parts)) < len(parts):
        raise BadInput(f"embedder '{name}' names a part twice")
    return parts


@lru_cache(maxsize=8)
def _loaded(name: str, may_ask_hub: bool) -> Embedder:
    parts = parts_of(name)
    if len(parts) > 1:
        return JointEmbedder([_loaded(p, may_ask_hub) for p in parts])
    if name in ("wordllama", "hashing"):
        return WordLlamaEmbedder() if name == "wordllama" else HashingEmbedder()
    if name == "minilm":
        from simdx.embedders.sentence import MiniLMEmbedder

        return MiniLMEmbedder()
    if name.startswith("openai:"):
        from simdx.embedders.openai import OpenAIEmbedder

        # Making it sends nothing; `get_embedder` hands it to nobody without permission.
        return OpenAIEmbedder.from_name(name, allow_remote=True)
    if name in plugins.named("embedders"):
        return plugins.load("embedders", name)()
    from simdx.embedders.sentence import SentenceEmbedder

    return SentenceEmbedder(name, allow_remote=may_ask_hub)
