"""A bank as bags of words: the view of it that no embedding model has touched.

An embedding model may carry a bias that every bank seen through it shares. Word counts have other faults
and none of that one, so agreement between the two says more than either alone. Term frequencies count
logarithmically, inverse document frequencies come from the bank, and only words that occur in at least
two of its texts count: a word of one text alone could help that text only when it judges itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from simdx.types import Float

_WORD = re.compile(r"[^\W\d_]{2,}")
LEAST_TEXTS = 2


class LexicalSpace:
    """Centred TF-IDF cosines to the texts it was fitted on, without ever making the matrix dense."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(_WORD.findall(text.lower())) for text in texts]
        documents = Counter(word for count in counts for word in count)
        shared = sorted(word for word, n in documents.items() if n >= LEAST_TEXTS)
        self._column = {word: i for i, word in enumerate(shared)}
        held = np.array([documents[word] for word in shared], dtype=float)
        self._idf = np.log((1 + len(texts)) / (1 + held)) + 1
        self._bank = self._rows(counts)
        self._columns = self._bank.T.tocsr()  # turned once: a product with .T would turn it every time
        self._mean = np.asarray(self._bank.mean(axis=0)).ravel()
        self._mean_square = float(self._mean @ self._mean)
        self._bank_on_mean, self._bank_length = self._centred_lengths(self._bank)

    def cosine(self, texts: Sequence[str]) -> Float:
        """(N, n) cosines after the bank's mean is taken out of both sides; 0 for a text of unknown words."""
        rows = self._rows([Counter(_WORD.findall(text.lower())) for text in texts])
        on_mean, length = self._centred_lengths(rows)
        dot = np.asarray((rows @ self._columns).todense())
        centred = dot - on_mean[:, None] - self._bank_on_mean[None, :] + self._mean_square
        scale = length[:, None] * self._bank_length[None, :]
        silent = np.diff(rows.indptr) == 0
        return np.where(silent[:, None], 0.0, centred / np.maximum(scale, 1e-12))

    def _rows(self, counts: Sequence[Counter[str]]) -> csr_matrix:
        column = self._column
        columns: list[int] = []
        often: list[int] = []
        ends = [0]
        for count in counts:
            for word, n in count.items():
                if word in column:
                    columns.append(column[word])
                    often.append(n)
            ends.append(len(columns))
        value = (1 + np.log(np.array(often, dtype=float))) * self._idf[np.array(columns, dtype=int)]
        owner = np.repeat(np.arange(len(counts)), np.diff(ends))
        length = np.sqrt(np.bincount(owner, weights=value**2, minlength=len(counts)))
        return csr_matrix((value / length[owner], columns, ends), shape=(len(counts), len(column)))

    def _centred_lengths(self, rows: csr_matrix) -> tuple[Float, Float]:
        on_mean = rows @ self._mean
        square = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return on_mean, np.sqrt(np.maximum(square - 2 * on_mean + self._mean_square, 1e-12))
