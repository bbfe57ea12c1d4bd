"""The default embedder: wordllama's static token vectors. Small, fast, numpy only, no download."""

from __future__ import annotations

from collections.abc import Sequence

from simdx.models import locate
from simdx.types import Float


class WordLlamaEmbedder:
    """`l2_supercat`, 256 dimensions, from the files inside the installed package."""

    id = "wordllama/l2_supercat_256"
    blocks = (256,)

    def __init__(self) -> None:
        folder = locate("wordllama")
        from wordllama import WordLlama

        self._model = WordLlama.load(cache_dir=folder, disable_download=True)

    def embed_batch(self, texts: Sequence[str]) -> Float:
        return self._model.embed(list(texts), norm=False, batch_size=64)
