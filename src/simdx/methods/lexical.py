"""What a text says, letter by letter: TF-IDF of character n-grams, compared with the bank's texts.

Embedding models smooth over the very words that decide between neighbouring diagnoses. Character
3- to 5-grams inside words keep them, and stay robust to endings and misspellings. Vocabulary and inverse
document frequencies come from simulated text alone.

Rows are sparse and centred on the bank's mean. A case is known by its cosines to the bank's texts: a kernel
needs no more, and a linear summary of the lexical space is a linear summary of them. Only what is fitted
(`LexicalSpace.bank`) is written as dense coordinates, in the span of the bank's own rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.abc.space import Apart
from simdx.methods.questions import as_statements
from simdx.types import Float, Int, Mask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SHORTEST, LONGEST = 3, 5  # characters of a gram: shorter ones are noise, longer ones are words
LEAST_TEXTS = 3  # a gram of one or two texts alone cannot generalise
LARGEST_BASIS = 3000  # beyond it, an evenly spaced part of the bank spans the space (Nyström)
REMEMBERED_WORDS = 50_000  # some megabytes; a fuller memory starts anew
FEW = 16  # texts that numpy handles before scipy, whose import costs more than they do, is asked
OFTEN = 0.2  # of the texts that a gram must be in to stand in the dense block
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


def grams(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + n] for n in range(SHORTEST, LONGEST + 1) for i in range(len(padded) - n + 1)]


def whole_words(word: str) -> list[str]:
    """A word as it is; a single letter says nothing."""
    return [word] if len(word) > 1 else []


class Sparse:
    """Rows that are mostly zero: row i has `value[k]` in `column[k]`, k from `ends[i]` to `ends[i + 1]`."""

    def __init__(self, ends: Int, column: Int, value: Float, width: int) -> None:
        self.ends, self.column, self.value, self.width = ends, column, value, width

    def __len__(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def csr(self) -> csr_matrix:
        from scipy.sparse import csr_matrix

        return csr_matrix((self.value, self.column, self.ends), shape=(len(self), self.width))

    @cached_property
    def row(self) -> Int:
        """Which row each value is in."""
        return np.repeat(np.arange(len(self)), np.diff(self.ends))

    @cached_property
    def turned(self) -> Sparse:
        """The same with rows and columns exchanged."""
        order = np.argsort(self.column, kind="stable")
        ends = np.zeros(self.width + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.column, minlength=self.width), out=ends[1:])
        return Sparse(ends, self.row[order], self.value[order], len(self))

    def at(self, rows: Int) -> Sparse:
        """Some of the rows."""
        many = np.diff(self.ends)[rows]
        ends = np.concatenate([[0], np.cumsum(many)])
        place = np.repeat(self.ends[rows] - ends[:-1], many) + np.arange(ends[-1])
        return Sparse(ends, self.column[place], self.value[place], self.width)

    def only(self, entries: Mask) -> Sparse:
        """Some of the entries of all rows."""
        ends = np.concatenate([[0], np.cumsum(entries)])[self.ends]
        return Sparse(ends, self.column[entries], self.value[entries], self.width)

    def mean(self) -> Float:
        """(width,) of the rows."""
        return np.bincount(self.column, weights=self.value, minlength=self.width) / len(self)

    def sums(self, values: Float) -> Float:
        """(rows,) the sum over each row of one number per entry."""
        return np.asarray(np.bincount(self.row, weights=values, minlength=len(self)), dtype=float)

    def dot(self, dense: Float) -> Float:
        """(rows,) with a vector."""
        return self.sums(self.value * dense[self.column])

    def times(self, other: Sparse) -> Float:
        """(rows, other.width) the product with rows that this one's columns count, dense."""
        if len(self) > FEW:
            return np.asarray((self.csr @ other.csr).toarray())
        out = np.zeros((len(self), other.width))
        for i, row in enumerate(out):
            mine = slice(self.ends[i], self.ends[i + 1])
            met = other.at(self.column[mine])
            weights = met.value * np.repeat(self.value[mine], np.diff(met.ends))
            row += np.bincount(met.column, weights=weights, minlength=other.width)
        return out


class Turned:
    """Rows to take products with, by their columns: those that many rows have as a dense block.

    A few hundred frequent grams make most of the meetings of two texts; a matrix product is ten times faster
    at those than a walk through lists, and wasteful for all others.
    """

    def __init__(self, rows: Sparse) -> None:
        many = np.bincount(rows.column, minlength=rows.width)
        often = np.flatnonzero(many > OFTEN * len(rows))
        self._place = np.full(rows.width, -1)
        self._place[often] = np.arange(len(often))
        place = self._place[rows.column]
        here = place >= 0
        self._dense = np.zeros((len(often), len(rows)))
        self._dense[place[here], rows.row[here]] = rows.value[here]
        self._others = rows.only(~here).turned

    def under(self, rows: Sparse) -> Float:
        """(N, n) dot products of other rows with these."""
        place = self._place[rows.column]
        here = place >= 0
        dense = np.zeros((len(rows), len(self._dense)))
        dense[rows.row[here], place[here]] = rows.value[here]
        return rows.only(~here).times(self._others) + dense @ self._dense


class Lexicon:
    """Texts to sparse unit rows. Words repeat far more than texts do, so each word is taken apart once."""

    def __init__(self, vocabulary: Iterable[str], idf: Float, pieces: Callable[[str], list[str]]) -> None:
        self._pieces, self.idf = pieces, idf
        self._column = {piece: i for i, piece in enumerate(vocabulary)}
        self._columns_of: dict[str, Int] = {}
        self._last, self._last_met = LastBatch(), LastBatch()
        self.own_counts: Sparse | None = None  # of texts that most comparisons are with, where they were told
        self.own: Sparse | None = None  # their rows

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        pieces: Callable[[str], list[str]] = grams,
        least_texts: int = LEAST_TEXTS,
    ) -> Lexicon:
        """The vocabulary of these texts. `pieces`: what a word is taken apart into."""
        parts: dict[str, list[str]] = {}
        documents: Counter[str] = Counter()
        for text in texts:
            held: set[str] = set()
            for word in set(_words(text)):
                if word not in parts:
                    parts[word] = pieces(word)
                held.update(parts[word])
            documents.update(held)
        kept = sorted(piece for piece, n in documents.items() if n >= least_texts)
        count = np.array([documents[piece] for piece in kept], dtype=float)
        return cls(kept, np.log((1 + len(texts)) / (1 + count)) + 1, pieces)

    def take(self, counts: Sparse) -> None:
        """Let these be the counts of its own texts."""
        self.own_counts, self.own = counts, self.weighed(counts)

    @cached_property
    def _own_turned(self) -> Turned:
        assert self.own is not None
        return Turned(self.own)

    def met(self, texts: Sequence[str]) -> Float:
        """(N, own) dot products of texts with the lexicon's own, once for all that ask about this batch."""
        return self._last_met.get(texts, lambda: self.products(self.rows(texts)))

    def products(self, rows: Sparse) -> Float:
        """(N, own) the same from rows."""
        return self._own_turned.under(rows)

    def arrays(self) -> dict[str, Float]:
        """Vocabulary and counts of its own texts, as small as they are."""
        counts = self.own_counts
        assert counts is not None
        return {
            "vocabulary": np.frombuffer("\n".join(self._column).encode("utf-8"), dtype=np.uint8),
            "idf": self.idf,
            "ends": counts.ends.astype(np.int32),
            "column": counts.column.astype(np.uint16 if counts.width < 2**16 else np.int32),
            "count": counts.value.astype(np.uint8 if counts.value.max(initial=0) < 256 else np.int32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float], pieces: Callable[[str], list[str]] = grams) -> Lexicon:
        """The lexicon of which these are the arrays."""
        vocabulary = arrays["vocabulary"].tobytes().decode("utf-8").split("\n")
        made = cls(vocabulary if arrays["idf"].size else (), arrays["idf"], pieces)
        ends, column = arrays["ends"].astype(np.int64), arrays["column"].astype(np.int64)
        made.take(Sparse(ends, column, arrays["count"].astype(float), made.size))
        return made

    def rows(self, texts: Sequence[str]) -> Sparse:
        """(N, vocabulary) unit rows, logarithmic counts; a text of unknown words is a zero row."""
        return self._last.get(texts, lambda: self.weighed(self.counts(texts)))

    def weighed(self, counts: Sparse) -> Sparse:
        """Unit rows from counts."""
        value = (1 + np.log(counts.value)) * self.idf[counts.column]
        length = np.sqrt(counts.sums(value**2))
        return Sparse(counts.ends, counts.column, value / np.maximum(length, 1e-12)[counts.row], counts.width)

    def counts(self, texts: Sequence[str]) -> Sparse:
        """How often each text has each piece of the vocabulary."""
        many = len(texts) > FEW
        words = [_words(text) for text in texts]
        place: dict[str, int] = {}
        found = [place.setdefault(word, len(place)) for several in words for word in several]
        parts = [self._of_word(word) for word in place]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        column = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        ends = np.cumsum([0, *map(len, words)])
        if many:
            of_words = Sparse(
                np.concatenate([[0], np.cumsum(lengths)]), column, np.ones(len(column)), self.size
            )
            made = Sparse(ends, np.array(found, dtype=np.int64), np.ones(len(found)), len(place)).csr
            product = made @ of_words.csr
            return Sparse(product.indptr, product.indices, product.data, self.size)
        first = np.cumsum(lengths) - lengths
        rows = []
        for i in range(len(texts)):
            mine = found[ends[i] : ends[i + 1]]
            pieces = [column[first[w] : first[w] + lengths[w]] for w in mine]
            rows.append(np.unique(np.concatenate(pieces) if pieces else column[:0], return_counts=True))
        own = np.cumsum([0, *(len(c) for c, _ in rows)])
        if not rows:
            return Sparse(own, column, np.zeros(0), self.size)
        columns, values = (np.concatenate(side) for side in zip(*rows, strict=True))
        return Sparse(own, columns, values.astype(float), self.size)

    @property
    def size(self) -> int:
        return len(self.idf)

    def _of_word(self, word: str) -> Int:
        known = self._columns_of.get(word)
        if known is None:
            if len(self._columns_of) >= REMEMBERED_WORDS:
                self._columns_of.clear()
            column = self._column
            known = np.array([column[g] for g in self._pieces(word) if g in column], dtype=np.int64)
            self._columns_of[word] = known
        return known


class LexicalBasis:
    """Texts that a case is compared with, letter by letter.

    Rows that stand apart, and all texts compared, have a mean of their own taken out of them (`Apart`).
    """

    def __init__(
        self, lexicon: Lexicon, rows: Sparse, means: Float, writer: Int, places: Int | None = None
    ) -> None:
        """`means` (writers, vocabulary); `writer`: which of them is each row's. Cases have the last.

        `places`: where the rows stand among the lexicon's own, if they all do.
        """
        self.lexicon, self.rows, self.means, self.writer, self.places = lexicon, rows, means, writer, places
        self._between = means @ means.T
        on_means, self._length = self._centred(rows, writer)
        # (writers, basis) what each mean says of each row, once that row is centred
        self._of_means = on_means.T - self._between[:, writer]

    @cached_property
    def _turned(self) -> Turned:
        return Turned(self.rows)

    def cosines(self, texts: Sequence[str]) -> Float:
        """(N, basis) of cases, centred; 0 for a text of unknown words."""
        rows = self.lexicon.rows(texts)
        dot = self._turned.under(rows) if self.places is None else self.lexicon.met(texts)[:, self.places]
        return self._cosines(dot, rows, np.full(len(rows), len(self.means) - 1))

    def cosines_of(self, rows: Sparse, writer: Int) -> Float:
        """(N, basis) of rows, each centred on the mean of its writer."""
        return self._cosines(self._turned.under(rows), rows, writer)

    def _cosines(self, dot: Float, rows: Sparse, writer: Int) -> Float:
        on_means, length = self._centred(rows, writer)
        dot -= on_means[:, self.writer]
        dot -= self._of_means[writer]
        dot /= self._length
        dot /= length[:, None]
        dot[np.diff(rows.ends) == 0] = 0.0
        return dot

    def _centred(self, rows: Sparse, writer: Int) -> tuple[Float, Float]:
        """(N, means) what rows say of the means, and the length of each row without its own."""
        on_means = np.stack([rows.dot(mean) for mean in self.means], axis=1)
        square = rows.sums(rows.value**2)
        own = on_means[np.arange(len(rows)), writer]
        return on_means, np.sqrt(np.maximum(square - 2 * own + np.diag(self._between)[writer], 1e-12))

    def at(self, order: Int) -> LexicalBasis:
        """The same texts in another order."""
        places = None if self.places is None else self.places[order]
        return LexicalBasis(self.lexicon, self.rows.at(order), self.means, self.writer[order], places)


class LexicalSpace:
    """A bank's texts as dense rows of unit length: what is fitted to.

    A row's dot product with another is their centred cosine. `project` turns cosines with the basis into such
    rows; those of other texts are shorter than one by what a text says that no simulation says.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        texts: Sequence[str],
        apart: Apart | None = None,
        places: Int | None = None,
    ) -> None:
        """`places`: where the texts stand among the lexicon's own, if they all do."""
        rows = lexicon.rows(texts) if places is None or lexicon.own is None else lexicon.own.at(places)
        stands_apart = np.zeros(len(rows), dtype=bool) if apart is None else apart.rows
        means = [rows.at(np.flatnonzero(~stands_apart)).mean()]
        means += [] if apart is None else [apart.mean]
        writer = stands_apart.astype(np.int64)
        self.spanning = _spanning(stands_apart)
        self.basis = LexicalBasis(
            lexicon,
            rows.at(self.spanning),
            np.stack(means),
            writer[self.spanning],
            None if places is None else places[self.spanning],
        )
        whole = self.basis.cosines_of(rows, writer)
        gram = whole[self.spanning]
        value, vector = np.linalg.eigh((gram + gram.T) / 2)
        keep = value > 1e-6 * max(float(value[-1]), 1e-12)
        self.project: Float = vector[:, keep] / np.sqrt(value[keep])
        self.bank: Float = whole @ self.project

    def transform(self, texts: Sequence[str]) -> Float:
        """(N, r) other texts in the same coordinates."""
        return self.basis.cosines(texts) @ self.project


def _spanning(stands_apart: Mask) -> Int:
    """Which rows span the space: all, or the bank's first of all, evenly spaced."""
    bank, others = np.flatnonzero(~stands_apart), np.flatnonzero(stands_apart)
    bank = bank[:: max(1, -(-len(bank) // LARGEST_BASIS))]
    left = LARGEST_BASIS - len(bank)
    others = others[:: -(-len(others) // left)] if left > 0 and len(others) else others[:0]
    return np.sort(np.concatenate([bank, others]))


def _words(text: str) -> list[str]:
    return _WORD.findall(as_statements(text).lower())
