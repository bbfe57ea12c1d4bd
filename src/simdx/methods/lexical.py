"""What a text says, letter by letter: TF-IDF of character n-grams, as vectors in the span of the bank.

Embedding models smooth over the very words that decide between neighbouring diagnoses. Character
3- to 5-grams inside words keep them, and stay robust to endings and misspellings. Vocabulary and inverse
document frequencies come from simulated text alone.

The sparse rows are centred on the bank's mean and expressed in the span of the bank's own rows, which
loses nothing a comparison with the bank can see: every cosine to a bank row is exact. So the lexical
space is one more block of dense vectors, and the same engines work on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from simdx.methods.memo import LastBatch
from simdx.types import Float

SHORTEST, LONGEST = 3, 5
LEAST_TEXTS = 3  # a gram of one or two texts alone cannot generalise
LARGEST_BASIS = 3000  # beyond it, an evenly spaced part of the bank spans the space (Nyström)
LARGEST_FOLD = 12_000_000  # entries of the folded map, 48 MB; a larger one is not made
REMEMBERED_WORDS = 50_000
_WORD = re.compile(r"[^\W\d_]+")


def _grams(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + n] for n in range(SHORTEST, LONGEST + 1) for i in range(len(padded) - n + 1)]


class Lexicon:
    """Texts to sparse unit rows. Words repeat far more than texts do, so each word is taken apart once."""

    def __init__(self, texts: Sequence[str]) -> None:
        grams = {word: _grams(word) for text in texts for word in set(_words(text))}
        documents: Counter[str] = Counter()
        for text in texts:
            documents.update({gram for word in set(_words(text)) for gram in grams[word]})
        kept = sorted(gram for gram, n in documents.items() if n >= LEAST_TEXTS)
        self._column = {gram: i for i, gram in enumerate(kept)}
        held = np.array([documents[gram] for gram in kept], dtype=float)
        self._idf = np.log((1 + len(texts)) / (1 + held)) + 1
        self._columns_of: dict[str, np.ndarray] = {}
        self._last = LastBatch()

    def rows(self, texts: Sequence[str]) -> csr_matrix:
        """(N, vocabulary) unit rows, logarithmic counts; a text of unknown words is a zero row."""
        return self._last.get(texts, lambda: self._make_rows(texts))

    def _make_rows(self, texts: Sequence[str]) -> csr_matrix:
        ends, columns, values = [0], [], []
        for text in texts:
            found, value = self._row(text)
            columns.append(found)
            values.append(value)
            ends.append(ends[-1] + len(found))
        shape = (len(ends) - 1, len(self._column))
        if not columns:
            return csr_matrix(shape)
        return csr_matrix((np.concatenate(values), np.concatenate(columns), ends), shape=shape)

    def _row(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        counts = Counter(_words(text))
        parts = [self._of_word(word) for word in counts]
        if not parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        weight = np.repeat(np.fromiter(counts.values(), float, len(parts)), [len(p) for p in parts])
        column, place = np.unique(np.concatenate(parts), return_inverse=True)
        value = (
            (1 + np.log(np.bincount(place, weights=weight))) * self._idf[column] if len(column) else weight
        )
        return column, value / max(float(np.linalg.norm(value)), 1e-12)

    def _of_word(self, word: str) -> np.ndarray:
        known = self._columns_of.get(word)
        if known is None:
            if len(self._columns_of) >= REMEMBERED_WORDS:
                self._columns_of.clear()
            column = self._column
            known = np.array([column[g] for g in _grams(word) if g in column], dtype=np.int64)
            self._columns_of[word] = known
        return known


class LexicalSpace:
    """The bank's texts as dense rows of unit length, and other texts beside them.

    `transform` gives rows whose dot product with a bank row is their centred cosine. They are shorter than
    one by what a text says that no simulation says.
    """

    def __init__(self, lexicon: Lexicon, texts: Sequence[str]) -> None:
        self._lexicon = lexicon
        rows = lexicon.rows(texts)
        step = max(1, -(-rows.shape[0] // LARGEST_BASIS))
        self._basis = rows[::step]
        self._mean = np.asarray(rows.mean(axis=0)).ravel()
        self._mean_square = float(self._mean @ self._mean)
        self._on_mean, self._length = self._centred(self._basis)
        gram = self._cosine(self._basis)
        value, vector = np.linalg.eigh((gram + gram.T) / 2)
        keep = value > 1e-6 * max(float(value[-1]), 1e-12)
        self._project = vector[:, keep] / np.sqrt(value[keep])
        self._bank_rows = rows
        self._folded = self._fold() if rows.shape[1] * self._project.shape[1] <= LARGEST_FOLD else None

    def _fold(self) -> tuple[Float, Float, Float]:
        """Cosine and projection as one affine map of a sparse row, up to its length: the same numbers, in
        one product with a dense matrix instead of a sparse product and a dense one."""
        scaled = self._project / self._length[:, None]
        # Single precision, as everything that compares these rows: half the memory to walk through.
        weight = np.ascontiguousarray(self._basis.T @ scaled, dtype=np.float32)
        return weight, scaled.sum(axis=0), (self._mean_square - self._on_mean) @ scaled

    @cached_property
    def bank(self) -> Float:
        """(n, r) the texts the space was made from."""
        return self._cosine(self._bank_rows) @ self._project

    def transform(self, texts: Sequence[str]) -> Float:
        """(N, r) other texts in the same coordinates."""
        rows = self._lexicon.rows(texts)
        if self._folded is None:
            return self._cosine(rows) @ self._project
        weight, per_mean, constant = self._folded
        on_mean, length = self._centred(rows)
        out = rows.astype(np.float32) @ weight - on_mean[:, None] * per_mean + constant
        out /= length[:, None]
        out[np.diff(rows.indptr) == 0] = 0.0
        return out

    def _cosine(self, rows: csr_matrix) -> Float:
        """(N, basis) cosines after the mean is taken out of both sides; 0 for a text of unknown words."""
        on_mean, length = self._centred(rows)
        dot = np.asarray((rows @ self._basis.T).todense())
        centred = dot - on_mean[:, None] - self._on_mean[None, :] + self._mean_square
        silent = np.diff(rows.indptr) == 0
        return np.where(silent[:, None], 0.0, centred / (length[:, None] * self._length[None, :]))

    def _centred(self, rows: csr_matrix) -> tuple[Float, Float]:
        on_mean = rows @ self._mean
        square = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        return on_mean, np.sqrt(np.maximum(square - 2 * on_mean + self._mean_square, 1e-12))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
