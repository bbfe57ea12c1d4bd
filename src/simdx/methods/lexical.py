"""What a text says, letter by letter: TF-IDF of character n-grams, compared with the bank's texts.

Embedding models smooth over the very words that decide between neighbouring diagnoses. Character
3- to 5-grams inside words keep them, and stay robust to endings and misspellings. Vocabulary and inverse
document frequencies come from simulated text alone.

Rows are sparse and centred on the bank's mean. A case is known by its cosines to the bank's texts: a kernel
needs no more, and a linear summary of the lexical space is a linear summary of them. Only what is fitted
(`lexical_space.py`) is written as dense coordinates, in the span of the bank's own rows.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.methods.questions import as_statements
from simdx.types import Float, Int, Mask

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from simdx.methods.word_products import WordProducts

SHORTEST, LONGEST = 3, 5  # characters of a gram: shorter ones are noise, longer ones are words
LEAST_TEXTS = 3  # a gram of one or two texts alone cannot generalise
LARGEST_BASIS = 3000  # beyond it, an evenly spaced part of the bank spans the space (Nyström)
REMEMBERED_WORDS = 50_000  # some megabytes; a fuller memory starts anew
FEW, FEW_AT_HAND = 16, 4  # texts that numpy handles before scipy is imported for them; once it is there
SPARSE = 0.25  # of entries that are not zero: fewer are walked through, more are multiplied as a block
OFTEN = 0.2  # of the texts that a gram must be in to stand in the dense block
_WORD = re.compile(r"[^\W\d_]+")


class LastBatch:
    """Remembers what was made of one batch, so that its several readers share one computation. The two are
    stored as one tuple: a reader in another thread sees a matching pair or recomputes."""

    def __init__(self) -> None:
        self._held: tuple[Any, Any] | None = None

    def get(self, batch: Any, make: Callable[[], Any]) -> Any:
        held = self._held
        if held is not None and held[0] is batch:
            return held[1]
        made = make()
        self._held = (batch, made)
        return made


def many(texts: int) -> bool:
    return texts > (FEW_AT_HAND if "scipy.sparse" in sys.modules else FEW)


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

    def into(self, dense: Float) -> Float:
        """(rows, m) the product with a dense matrix."""
        if many(len(self)) and len(self.value) < len(self) * self.width * SPARSE:
            return np.asarray(self.csr @ dense)
        rows = np.zeros((len(self), self.width))
        rows[self.row, self.column] = self.value
        return rows @ dense

    def times(self, other: Sparse) -> Float:
        """(rows, other.width) the product with rows that this one's columns count, dense."""
        if many(len(self)):
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
        often = rows.only(here)
        often = Sparse(often.ends, place[here], often.value, len(self._dense))
        return rows.only(~here).times(self._others) + often.into(self._dense)


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
        return self._last_met.get(texts, lambda: self._met(texts))

    def _met(self, texts: Sequence[str]) -> Float:
        counts, rows, length = self._taken(texts)
        by_pieces = many(len(texts)) and self._pieces is not whole_words  # which have no products to add up
        by_words = self._of_own.sums(*_words_of(texts)) if by_pieces else None
        if by_words is None:
            return self.products(rows)
        n = counts.value
        more = Sparse(counts.ends, counts.column, (1 + np.log(n) - n) * self.idf[counts.column], self.size)
        by_words += self.products(more.only(n > 1))
        by_words /= length[:, None]
        return by_words

    @cached_property
    def _of_own(self) -> WordProducts:
        """Of words as often as they are said: what a text's own products are but for repeated pieces."""
        from simdx.methods.word_products import WordProducts

        def made(words: list[str]) -> Float:
            rows = self._counted(words).csr
            rows.sum_duplicates()
            value = rows.data * self.idf[rows.indices]
            return self.products(Sparse(rows.indptr, rows.indices, value, self.size))

        assert self.own is not None
        return WordProducts(len(self.own), made)

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
        return self._taken(texts)[1]

    def _taken(self, texts: Sequence[str]) -> tuple[Sparse, Sparse, Float]:
        """Counts, unit rows and what their length was."""
        return self._last.get(texts, lambda: self._weighed(self.counts(texts)))

    def weighed(self, counts: Sparse) -> Sparse:
        """Unit rows from counts."""
        return self._weighed(counts)[1]

    def _weighed(self, counts: Sparse) -> tuple[Sparse, Sparse, Float]:
        value = (1 + np.log(counts.value)) * self.idf[counts.column]
        length = np.maximum(np.sqrt(counts.sums(value**2)), 1e-12)
        return counts, Sparse(counts.ends, counts.column, value / length[counts.row], counts.width), length

    def counts(self, texts: Sequence[str]) -> Sparse:
        """How often each text has each piece of the vocabulary."""
        distinct, found, ends = _words_of(texts)
        words = self._counted(distinct)
        if many(len(texts)):
            product = Sparse(ends, found, np.ones(len(found)), len(distinct)).csr @ words.csr
            return Sparse(product.indptr, product.indices, product.data, self.size)
        rows = [
            np.unique(words.at(found[ends[i] : ends[i + 1]]).column, return_counts=True)
            for i in range(len(texts))
        ]
        own = np.cumsum([0, *(len(c) for c, _ in rows)])
        if not rows:
            return Sparse(own, words.column, np.zeros(0), self.size)
        columns, values = (np.concatenate(side) for side in zip(*rows, strict=True))
        return Sparse(own, columns, values.astype(float), self.size)

    def _counted(self, words: list[str]) -> Sparse:
        """(words, vocabulary) a one for each time that a word has a piece."""
        parts = self._of_words(words)
        column = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        ends = np.cumsum([0, *map(len, parts)])
        return Sparse(ends, column, np.ones(len(column)), self.size)

    @property
    def size(self) -> int:
        return len(self.idf)

    def _of_words(self, words: list[str]) -> list[Int]:
        """The columns of each word's pieces, as often as it has them."""
        known = self._columns_of
        new = [word for word in words if word not in known]
        if len(known) + len(new) > REMEMBERED_WORDS:
            known, new = {}, words
        column = self._column
        for word in new:
            pieces = [column[piece] for piece in self._pieces(word) if piece in column]
            known[word] = np.array(pieces, dtype=np.int64)
        self._columns_of = known if len(known) <= REMEMBERED_WORDS else {}
        return [known[word] for word in words]


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


_last_words = LastBatch()  # several lexicons are asked about one batch


def _words_of(texts: Sequence[str]) -> tuple[list[str], Int, Int]:
    """The distinct words of a batch, which of them its texts have one after another, and where each ends."""

    def made() -> tuple[list[str], Int, Int]:
        words = [_words(text) for text in texts]
        every = list(chain.from_iterable(words))
        distinct = list(dict.fromkeys(every))
        place = {word: i for i, word in enumerate(distinct)}
        found = np.fromiter(map(place.__getitem__, every), np.int64, len(every))
        return distinct, found, np.cumsum([0, *map(len, words)])

    return _last_words.get(texts, made)


def _words(text: str) -> list[str]:
    return _WORD.findall(as_statements(text).lower())
