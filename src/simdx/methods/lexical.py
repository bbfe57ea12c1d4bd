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
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from simdx.abc.space import Apart
from simdx.methods.questions import as_statements
from simdx.types import Float, Int, Mask

SHORTEST, LONGEST = 3, 5  # characters of a gram: shorter ones are noise, longer ones are words
LEAST_TEXTS = 3  # a gram of one or two texts alone cannot generalise
LARGEST_BASIS = 3000  # beyond it, an evenly spaced part of the bank spans the space (Nyström)
LARGEST_FOLD = 12_000_000  # entries of the folded map, 48 MB; a larger one is not made
REMEMBERED_WORDS = 50_000  # some megabytes; a fuller memory starts anew
_WORD = re.compile(r"[^\W\d_]+")


class LastBatch:
    """Remembers what was made of one batch, so that its several readers share one computation.

    Batch and result are stored as one tuple: a reader in another thread sees a matching pair or recomputes.
    """

    def __init__(self) -> None:
        self._held: tuple[Any, Any] | None = None

    def get(self, batch: Any, make: Callable[[], Any]) -> Any:
        held = self._held
        if held is not None and held[0] is batch:
            return held[1]
        made = make()
        self._held = (batch, made)
        return made


def _grams(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + n] for n in range(SHORTEST, LONGEST + 1) for i in range(len(padded) - n + 1)]


def whole_words(word: str) -> list[str]:
    """A word as it is; a single letter says nothing."""
    return [word] if len(word) > 1 else []


class Lexicon:
    """Texts to sparse unit rows. Words repeat far more than texts do, so each word is taken apart once."""

    def __init__(
        self,
        texts: Sequence[str],
        pieces: Callable[[str], list[str]] | None = None,
        least_texts: int = LEAST_TEXTS,
    ) -> None:
        """`pieces`: what a word is taken apart into, its character n-grams when left out."""
        self._pieces = pieces or _grams
        grams = {word: self._pieces(word) for text in texts for word in set(_words(text))}
        documents: Counter[str] = Counter()
        for text in texts:
            documents.update({gram for word in set(_words(text)) for gram in grams[word]})
        kept = sorted(gram for gram, n in documents.items() if n >= least_texts)
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
            known = np.array([column[g] for g in self._pieces(word) if g in column], dtype=np.int64)
            self._columns_of[word] = known
        return known


class LexicalSpace:
    """The bank's texts as dense rows of unit length, and other texts beside them.

    `transform` gives rows whose dot product with a bank row is their centred cosine. They are shorter than
    one by what a text says that no simulation says. Rows that stand apart, and all texts transformed, have
    a mean of their own taken out of them.
    """

    def __init__(self, lexicon: Lexicon, texts: Sequence[str], apart: Apart | None = None) -> None:
        self._lexicon = lexicon
        rows = lexicon.rows(texts)
        stands_apart = np.zeros(rows.shape[0], dtype=bool) if apart is None else apart.rows
        spanning = _spanning(stands_apart)
        self._basis = rows[spanning]
        means = [np.asarray(rows[~stands_apart].mean(axis=0)).ravel()]
        means += [] if apart is None else [apart.mean]
        self._means = np.stack(means)  # the bank's, and that of texts which stand apart
        self._writer = stands_apart.astype(np.int64)  # which of the means is each row's
        self._basis_writer = self._writer[spanning]
        self._between = self._means @ self._means.T
        # what each mean says of each basis row, once that row is centred
        self._mean_on_basis = self._means @ self._basis.T - self._between[:, self._basis_writer]
        self._length = self._centred(self._basis, self._basis_writer)[1]
        gram = self._cosine(self._basis, self._basis_writer)
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
        of_writer = self._basis_writer == np.arange(len(self._means))[:, None]
        return weight, of_writer.astype(float) @ scaled, -self._mean_on_basis[-1] @ scaled

    @cached_property
    def bank(self) -> Float:
        """(n, r) the texts the space was made from."""
        return self._cosine(self._bank_rows, self._writer) @ self._project

    def transform(self, texts: Sequence[str]) -> Float:
        """(N, r) other texts in the same coordinates."""
        rows = self._lexicon.rows(texts)
        writer = np.full(rows.shape[0], len(self._means) - 1)
        if self._folded is None:
            return self._cosine(rows, writer) @ self._project
        weight, per_mean, constant = self._folded
        on_means, length = self._centred(rows, writer)
        out = rows.astype(np.float32) @ weight - on_means @ per_mean + constant
        out /= length[:, None]
        out[np.diff(rows.indptr) == 0] = 0.0
        return out

    def _cosine(self, rows: csr_matrix, writer: Int) -> Float:
        """(N, basis) cosines after the means are taken out of both sides; 0 for a text of unknown words."""
        on_means, length = self._centred(rows, writer)
        dot = np.asarray((rows @ self._basis.T).todense())
        centred = dot - on_means[:, self._basis_writer] - self._mean_on_basis[writer]
        silent = np.diff(rows.indptr) == 0
        return np.where(silent[:, None], 0.0, centred / (length[:, None] * self._length[None, :]))

    def _centred(self, rows: csr_matrix, writer: Int) -> tuple[Float, Float]:
        """(N, means) what rows say of the means, and the length of each row without its own."""
        on_means = rows @ self._means.T
        square = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        own = on_means[np.arange(rows.shape[0]), writer]
        return on_means, np.sqrt(np.maximum(square - 2 * own + np.diag(self._between)[writer], 1e-12))


def _spanning(stands_apart: Mask) -> Int:
    """Which rows span the space: all, or the bank's first of all, evenly spaced."""
    bank, others = np.flatnonzero(~stands_apart), np.flatnonzero(stands_apart)
    bank = bank[:: max(1, -(-len(bank) // LARGEST_BASIS))]
    left = LARGEST_BASIS - len(bank)
    others = others[:: -(-len(others) // left)] if left > 0 and len(others) else others[:0]
    return np.sort(np.concatenate([bank, others]))


def _words(text: str) -> list[str]:
    return _WORD.findall(as_statements(text).lower())
