"""Products of texts with a bank's texts, from those of their words.

A row's value is (1 + log n) idf for a gram that a text has n times. Were it n idf, the product with a bank's
row would be the sum over the text's words of a number that each word always has. So these sums are kept, a
text adds up those of its words, and only grams that it repeats are multiplied for the difference.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from simdx.types import Float, Int

KEPT_BYTES = 32_000_000  # at most; memory that no word has filled yet is not taken


class WordProducts:
    """(words, bank) products, made when a word is first met; a fuller memory starts anew."""

    def __init__(self, width: int, make: Callable[[list[str]], Float]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._place: dict[str, int] = {}
        self._kept = np.empty((KEPT_BYTES // (8 * max(1, width)), width))

    def sums(self, words: list[str], found: Int, ends: Int) -> Float | None:
        """(texts, bank) of texts that have these words; None where they are too many to be kept."""
        from scipy.sparse import csr_matrix

        with self._lock:
            rows = self._rows(words)
            if rows is None:
                return None
            shape = (len(ends) - 1, len(self._kept))
            return np.asarray(csr_matrix((np.ones(len(found)), rows[found], ends), shape=shape) @ self._kept)

    def _rows(self, words: list[str]) -> Int | None:
        with suppress(KeyError):  # as a rule all of them have been met
            return np.fromiter(map(self._place.__getitem__, words), np.int64, len(words))
        new = [word for word in words if word not in self._place]
        if len(self._place) + len(new) > len(self._kept):
            self._place, new = {}, words
        if len(new) > len(self._kept):
            return None
        if new:
            first = len(self._place)
            self._kept[first : first + len(new)] = self._make(new)
            self._place.update(zip(new, range(first, first + len(new)), strict=True))
        return np.fromiter(map(self._place.__getitem__, words), np.int64, len(words))
