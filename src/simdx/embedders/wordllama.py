"""The default embedder: wordllama's static token vectors. Small, fast, numpy only, no download.

A text's vector is the mean of its tokens' vectors, and this tokenizer never joins characters across a
space (no entry of its vocabulary has a word mark inside), so the tokens of a text are those of its words
one after another. Each word is therefore tokenised once and its sum of vectors kept: most words of a case
have been seen in the bank, and a text costs one gather instead of a run of the tokenizer. The result is
the library's own up to the order of summation; a test holds the two together.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from simdx.models import describe, verify
from simdx.types import Float

KEPT_WORDS = 16_384  # 17 MB of sums; a fuller memory starts anew


class WordLlamaEmbedder:
    """`l2_supercat`, 256 dimensions, from the files inside the installed package."""

    remote = False
    id = "wordllama/l2_supercat_256"
    blocks = (256,)

    def __init__(self) -> None:
        folder = verify(describe("wordllama"))
        from wordllama import WordLlama

        self._model = WordLlama.load(cache_dir=folder, disable_download=True)
        added = self._model.tokenizer.get_added_tokens_decoder().values()
        # Markers such as </s> are cut out of a text before its words are: such a text goes to the library.
        self._markers = tuple(token.content for token in added)
        self._lock = threading.Lock()
        self._forget()

    def embed_batch(self, texts: Sequence[str]) -> Float:
        out = np.zeros((len(texts), self.blocks[0]), dtype=np.float32)
        for i, text in enumerate(texts):
            if any(marker in text for marker in self._markers):
                out[i] = self._model.embed([text], norm=False)[0]
            elif words := text.split():
                with self._lock:
                    rows = self._rows(words)
                    out[i] = self._sums[rows].sum(axis=0) / self._counts[rows].sum()
        return out

    def _rows(self, words: list[str]) -> list[int]:
        """Where the words' sums lie; new words are tokenised and added."""
        try:
            return [self._place[word] for word in words]
        except KeyError:
            new = list(dict.fromkeys(word for word in words if word not in self._place))
        if len(self._place) + len(new) > len(self._counts):
            self._forget(len(set(words)))
            new = list(dict.fromkeys(words))
        encoded = self._model.tokenizer.encode_batch(new, add_special_tokens=False)
        for word, encoding in zip(new, encoded, strict=True):
            # The library pads a batch to one length; the mask says which ids are the word's own.
            ids = np.asarray(encoding.ids)[np.asarray(encoding.attention_mask, dtype=bool)]
            row = self._place[word] = len(self._place)
            vectors = self._model.embedding[np.clip(ids, 0, len(self._model.embedding) - 1)]
            self._sums[row] = vectors.sum(axis=0)
            self._counts[row] = len(ids)
        return [self._place[word] for word in words]

    def _forget(self, at_least: int = 0) -> None:
        size = max(KEPT_WORDS, at_least)
        self._place: dict[str, int] = {}
        self._sums = np.zeros((size, self.blocks[0]), dtype=np.float32)
        self._counts = np.zeros(size, dtype=np.float32)
