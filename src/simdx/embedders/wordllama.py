"""The default embedder: wordllama's static token vectors. Small, fast, numpy only, no download.

A text's vector is the mean of its tokens' vectors, and this tokenizer never joins characters across a
space (no entry of its vocabulary has a word mark inside), so the tokens of a text are those of its words
one after another. Each word is therefore tokenised once and its sum of vectors kept: most words of a case
have been seen in the bank, and a text costs one gather instead of a run of the tokenizer. The library's two
files are read without it, because importing it takes longer than an answer; a test holds the vectors against
its own.
"""

import threading
from collections.abc import Sequence
from itertools import chain

import numpy as np

from simdx.disk import read_safetensors
from simdx.models import describe, verify
from simdx.types import Float, Int

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
KEPT_WORDS = 16_384  # 17 MB of sums; a fuller memory starts anew
FEW = 16  # texts that are added up one by one; more go through scipy, which is slow to import


class WordLlamaEmbedder:
    """`l2_supercat`, 256 dimensions, from the files inside the installed package."""

    remote = False
    id = "wordllama/l2_supercat_256"
    blocks = (256,)

    def __init__(self) -> None:
        folder = verify(describe("wordllama"))
        from tokenizers import Tokenizer

        self._vectors = read_safetensors(folder / WEIGHTS)["embedding.weight"]  # half precision, mapped
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # Markers such as </s> are cut out of a text before its words are: such a text is tokenised whole.
        self._markers = tuple(t.content for t in self._tokenizer.get_added_tokens_decoder().values())
        self._lock = threading.Lock()
        self._forget()

    def embed_batch(self, texts: Sequence[str]) -> Float:
        marked = [i for i, text in enumerate(texts) if any(marker in text for marker in self._markers)]
        words = [text.split() for text in texts]
        for i in marked:
            words[i] = []
        ends = np.cumsum([0, *map(len, words)])
        with self._lock:
            rows = self._rows(list(chain.from_iterable(words)))
            out = self._added(rows, ends)
            counts = np.add.reduceat(np.append(self._counts[rows], 0), ends[:-1]) * (np.diff(ends) > 0)
        for i in marked:
            whole = self._tokenizer.encode(texts[i], add_special_tokens=False)
            out[i], counts[i] = self._of_tokens(whole.ids)
        return out / np.maximum(counts, 1)[:, None]

    def _added(self, rows: Int, ends: Int) -> Float:
        """(texts, d) sums of the words' sums."""
        if len(ends) <= FEW:
            out = np.zeros((len(ends) - 1, self.blocks[0]), dtype=np.float32)
            for i, sums in enumerate(out):
                sums += self._sums[rows[ends[i] : ends[i + 1]]].sum(axis=0)
            return out
        from scipy.sparse import csr_matrix

        shape = (len(ends) - 1, len(self._sums))
        return csr_matrix((np.ones(len(rows), dtype=np.float32), rows, ends), shape=shape) @ self._sums

    def _rows(self, words: list[str]) -> Int:
        """Where the words' sums lie; new words are tokenised and added."""
        place = self._place
        try:
            return np.array([place[word] for word in words], dtype=np.int64)
        except KeyError:
            new = list(dict.fromkeys(word for word in words if word not in place))
        if len(place) + len(new) > len(self._counts):
            self._forget(len(set(words)))
            new = list(dict.fromkeys(words))
        encodings = self._tokenizer.encode_batch(new, add_special_tokens=False)
        for word, encoding in zip(new, encodings, strict=True):
            row = self._place[word] = len(self._place)
            self._sums[row], self._counts[row] = self._of_tokens(encoding.ids)
        return np.array([self._place[word] for word in words], dtype=np.int64)

    def _of_tokens(self, ids: list[int]) -> tuple[Float, int]:
        """The sum of their vectors, and how many they are."""
        known = np.clip(np.array(ids, dtype=np.int64), 0, len(self._vectors) - 1)
        return self._vectors[known].astype(np.float32).sum(axis=0), len(ids)

    def _forget(self, at_least: int = 0) -> None:
        size = max(KEPT_WORDS, at_least)
        self._place: dict[str, int] = {}
        self._sums = np.zeros((size, self.blocks[0]), dtype=np.float32)
        self._counts = np.zeros(size, dtype=np.float32)
