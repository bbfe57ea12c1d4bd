"""Rows of text: what a text says, as numbers.

words        of what a text asserts (`simdx.reading`), read as the panel reads (`as_read`)
lexical      TF-IDF of character 3- to 5-grams inside words. Embedding models smooth over the very words that
             decide between neighbouring diagnoses; grams keep them, and stay robust to endings and
             misspellings. Vocabulary and document frequencies come from simulated text alone.
embedded     vectors of an embedder, placed around the bank's mean (`simdx.abc.space`)

Lexical rows are sparse and centred on the bank's mean. A case is known by its cosines to the bank's texts: a
kernel needs no more, and a linear summary of the lexical space is a linear summary of them. Only what is
fitted (`LexicalSpace`) is written as dense coordinates, in the span of the bank's own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from simdx.abc.space import Apart
from simdx.methods.speed import OneSlotCache, Sparse, Turned, WordPieces, WordProducts, many
from simdx.reading import PLAIN, as_read, masked, words
from simdx.types import Float, Int, Mask

SHORTEST, LONGEST = 3, 5  # characters of a gram: shorter ones are noise, longer ones are words
LEAST_TEXTS = 3  # a gram of one or two texts alone cannot generalise
AT_ONCE = 1000  # texts whose pieces are counted together
SHORTEST_ROW = 1e-12  # a text of no known piece has none
LARGEST_BASIS = 3000  # beyond it, an evenly spaced part of the bank spans the space (Nyström)

# --------------------------------------------------------------------------- words


_last_words: dict[str, OneSlotCache] = {}  # several lexicons are asked about one batch


def words_of(texts: Sequence[str], reading: str = PLAIN) -> tuple[list[str], Sparse]:
    """The distinct words of a batch as it is read, and how often each text has each of them."""
    kept = _last_words.setdefault(reading, OneSlotCache())
    return kept.get(texts, lambda: _words_of(texts, reading))


def _words_of(texts: Sequence[str], reading: str) -> tuple[list[str], Sparse]:
    place: defaultdict[str, int] = defaultdict()
    place.default_factory = place.__len__
    read = [words(said) + masked(words(denied)) for said, denied in (as_read(t, reading) for t in texts)]
    found = np.fromiter(map(place.__getitem__, chain.from_iterable(read)), np.int64)
    row = np.repeat(np.arange(len(read)), [*map(len, read)])
    entry, times = np.unique(row * len(place) + found, return_counts=True)
    row, column = np.divmod(entry, max(1, len(place)))
    ends = np.searchsorted(row, np.arange(len(read) + 1))
    return list(place), Sparse(ends, column, times.astype(float), len(place))


# --------------------------------------------------------------------------- lexical rows


def grams(word: str) -> list[str]:
    padded = f" {word} "
    return [padded[i : i + n] for n in range(SHORTEST, LONGEST + 1) for i in range(len(padded) - n + 1)]


def whole_words(word: str) -> list[str]:
    """A word as it is; a single letter says nothing."""
    return [word] if len(word) > 1 else []


class Lexicon:
    """Texts to sparse unit rows. Words repeat far more than texts do, so each word is taken apart once."""

    def __init__(
        self,
        vocabulary: Iterable[str],
        idf: Float,
        pieces: Callable[[str], list[str]],
        reading: str = PLAIN,
    ) -> None:
        self._pieces, self.idf, self.reading = pieces, idf, reading
        self._column = {piece: i for i, piece in enumerate(vocabulary)}
        self._apart = WordPieces(self._column, pieces)
        self._last, self._last_met = OneSlotCache(), OneSlotCache()
        self.own_counts: Sparse | None = None  # of texts that most comparisons are with, where they were told
        self.own: Sparse | None = None  # their rows

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        pieces: Callable[[str], list[str]] = grams,
        least_texts: int = LEAST_TEXTS,
        reading: str = PLAIN,
    ) -> Lexicon:
        """The vocabulary of these texts. `pieces`: what a word is taken apart into."""
        distinct, said = words_of(texts, reading)
        number: defaultdict[str, int] = defaultdict()
        number.default_factory = number.__len__
        parts = [[number[piece] for piece in pieces(word)] for word in distinct]
        column = np.fromiter(chain.from_iterable(parts), np.int64)
        apart = Sparse(np.cumsum([0, *map(len, parts)]), column, np.ones(len(column)), len(number))
        texts_with = np.zeros(len(number), dtype=np.int64)
        for start in range(0, len(texts), AT_ONCE):
            held = said.csr[start : start + AT_ONCE] @ apart.csr
            texts_with += np.bincount(held.indices, minlength=len(number))
        kept = sorted(piece for piece, n in zip(number, texts_with.tolist(), strict=True) if n >= least_texts)
        place = np.array([number[piece] for piece in kept], dtype=np.int64)
        made = cls(kept, np.log((1 + len(texts)) / (1 + texts_with[place])) + 1, pieces, reading)
        known = texts_with[column] >= least_texts
        renumbered = np.zeros(len(number), dtype=np.int64)
        renumbered[place] = np.arange(len(place))
        made._apart.know(distinct, apart.only(known).ends, renumbered[column[known]])
        return made

    def take(self, counts: Sparse) -> None:
        """Let these be the counts of its own texts."""
        self.own_counts, self.own = counts, self.weighed(counts)

    @property
    def taken(self) -> Sparse:
        """Its own texts' rows, where they were told."""
        assert self.own is not None
        return self.own

    @cached_property
    def _own_turned(self) -> Turned:
        return Turned(self.taken)

    def met(self, texts: Sequence[str]) -> tuple[Float, Mask]:
        """(N, own) dot products of texts with the lexicon's own, and which texts have any known piece.

        Made once for all that ask about this batch.
        """
        return self._last_met.get(texts, lambda: self._by_words(texts) or self._by_pieces(texts))

    def _by_pieces(self, texts: Sequence[str]) -> tuple[Float, Mask]:
        rows = self.rows(texts)
        return self.products(rows), np.diff(rows.ends) > 0

    def _by_words(self, texts: Sequence[str]) -> tuple[Float, Mask] | None:
        """The same from the products of a text's words, which are kept; None where that is not possible.

        A row's value is (1 + log n) idf for a piece that a text has n times. Were it n idf, products would be
        sums over the text's words. So those are added up, and pieces that it repeats are multiplied for the
        difference.
        """
        dot = self._of_own.sums(*words_of(texts, self.reading)) if many(len(texts)) else None
        if dot is None:
            return None
        counts = self.counts(texts)
        repeated, weight = counts.value > 1, self.idf[counts.column]
        again = counts.only(repeated)
        weight[repeated] *= 1 + np.log(again.value)
        length = np.sqrt(counts.sums(weight**2))
        again.value = weight[repeated] - again.value * self.idf[again.column]
        dot += self.products(again)
        dot /= np.maximum(length, SHORTEST_ROW)[:, None]
        return dot, length > SHORTEST_ROW

    @cached_property
    def _of_own(self) -> WordProducts:
        def made(new: list[str]) -> Float:
            rows = self._apart.of(new).csr
            rows.sum_duplicates()
            value = rows.data * self.idf[rows.indices]
            return self.products(Sparse(rows.indptr, rows.indices, value, self.size))

        return WordProducts(len(self.taken), made)

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
    def from_arrays(
        cls,
        arrays: Mapping[str, Float],
        pieces: Callable[[str], list[str]] = grams,
        reading: str = PLAIN,
    ) -> Lexicon:
        vocabulary = arrays["vocabulary"].tobytes().decode("utf-8").split("\n")
        made = cls(vocabulary if arrays["idf"].size else (), arrays["idf"], pieces, reading)
        ends, column = arrays["ends"].astype(np.int64), arrays["column"].astype(np.int64)
        made.take(Sparse(ends, column, arrays["count"].astype(float), made.size))
        return made

    def rows(self, texts: Sequence[str]) -> Sparse:
        """(N, vocabulary) unit rows, logarithmic counts; a text of unknown words is a zero row."""
        return self._last.get(texts, lambda: self.weighed(self.counts(texts)))

    def weighed(self, counts: Sparse) -> Sparse:
        """Unit rows from counts."""
        value = (1 + np.log(counts.value)) * self.idf[counts.column]
        length = np.maximum(np.sqrt(counts.sums(value**2)), SHORTEST_ROW)
        return Sparse(counts.ends, counts.column, value / length[counts.row], counts.width)

    def counts(self, texts: Sequence[str]) -> Sparse:
        """How often each text has each piece of the vocabulary."""
        distinct, said = words_of(texts, self.reading)
        pieces = self._apart.of(distinct)
        if many(len(texts)):
            product = said.csr @ pieces.csr
            return Sparse(product.indptr, product.indices, product.data, self.size)
        rows = []
        for begin, end in zip(said.ends[:-1], said.ends[1:], strict=True):
            met = pieces.at(said.column[begin:end])
            rows.append(np.bincount(met.column, said.value[begin:end][met.row], self.size))
        dense: Float = np.array(rows, dtype=float).reshape(len(texts), self.size)
        row, column = np.nonzero(dense)
        ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(texts)))])
        return Sparse(ends, column, dense[row, column], self.size)

    @property
    def size(self) -> int:
        return len(self.idf)


class LexicalBasis:
    """Texts that a case is compared with, letter by letter.

    Rows that stand apart, and all texts compared, have a mean of their own taken out of them (`Apart`).
    """

    def __init__(
        self,
        lexicon: Lexicon,
        rows: Sparse,
        places: Int | None = None,
        means: tuple[Float, Int] | None = None,
    ) -> None:
        """`places`: where the rows stand among the lexicon's own, if they all do. `means`: (writers,
        vocabulary), and which of them is each row's; cases have the last. Left out: the rows' own mean."""
        self.lexicon, self.rows, self.places, self._told_means = lexicon, rows, places, means
        self.means, self.writer = means or (rows.mean()[None], np.zeros(len(rows), dtype=np.int64))
        self._between = self.means @ self.means.T
        writer = self.writer
        on_means, self._length = self._centred(rows, writer)
        # (writers, basis) what each mean says of each row, once that row is centred
        self._of_means = on_means.T - self._between[:, writer]

    @cached_property
    def _turned(self) -> Turned:
        return Turned(self.rows)

    def cosines(self, texts: Sequence[str]) -> Float:
        """(N, basis) of cases, centred; 0 for a text of unknown words."""
        writer = np.full(len(texts), len(self.means) - 1)
        if self.places is None:
            return self.cosines_of(self.lexicon.rows(texts), writer)
        met, known = self.lexicon.met(texts)
        dot = met[:, self.places]
        if self._told_means is None:  # what a text says of a mean is the mean of what it says
            on_means, length = self._length_of(dot.mean(axis=1, keepdims=True), known, writer)
        else:
            on_means, length = self._centred(self.lexicon.rows(texts), writer)
        return self._cosines(dot, on_means, length, known, writer)

    def cosines_of(self, rows: Sparse, writer: Int) -> Float:
        """(N, basis) of rows, each centred on the mean of its writer."""
        on_means, length = self._centred(rows, writer)
        return self._cosines(self._turned.under(rows), on_means, length, np.diff(rows.ends) > 0, writer)

    def _cosines(self, dot: Float, on_means: Float, length: Float, known: Mask, writer: Int) -> Float:
        one = len(self.means) == 1  # as a rule: then no matrix of the batch's size is needed for them
        dot -= on_means if one else on_means[:, self.writer]
        dot -= self._of_means if one else self._of_means[writer]
        dot *= 1 / self._length
        dot *= np.where(known, 1 / length, 0.0)[:, None]
        return dot

    def _centred(self, rows: Sparse, writer: Int) -> tuple[Float, Float]:
        """(N, means) what unit rows say of the means, and the length of each row without its own."""
        on_means = np.stack([rows.dot(mean) for mean in self.means], axis=1)
        return self._length_of(on_means, np.diff(rows.ends) > 0, writer)

    def _length_of(self, on_means: Float, known: Mask, writer: Int) -> tuple[Float, Float]:
        own = on_means[np.arange(len(known)), writer]
        return on_means, np.sqrt(np.maximum(known - 2 * own + np.diag(self._between)[writer], 1e-12))

    def at(self, order: Int) -> LexicalBasis:
        places = None if self.places is None else self.places[order]
        means = None if self._told_means is None else (self.means, self.writer[order])
        return LexicalBasis(self.lexicon, self.rows.at(order), places, means)


class LexicalSpace:
    """A bank's texts as dense rows of unit length: what is fitted to.

    A row's dot product with another is their centred cosine. `project` turns cosines with the basis into such
    rows; those of other texts are shorter than one by what a text says that no simulation says.
    """

    def __init__(
        self, lexicon: Lexicon, texts: Sequence[str], apart: Apart | None = None, places: Int | None = None
    ) -> None:
        """`places`: where the texts stand among the lexicon's own, if they all do."""
        rows = lexicon.rows(texts) if places is None or lexicon.own is None else lexicon.own.at(places)
        stands_apart = np.zeros(len(rows), dtype=bool) if apart is None else apart.rows
        writer = stands_apart.astype(np.int64)
        self.spanning = _spanning(stands_apart)
        means = None
        if apart is not None or len(self.spanning) < len(rows):
            of_bank = rows.at(np.flatnonzero(~stands_apart)).mean()
            every = np.stack([of_bank, *([] if apart is None else [apart.mean])])
            means = every, writer[self.spanning]
        self.basis = LexicalBasis(
            lexicon, rows.at(self.spanning), None if places is None else places[self.spanning], means
        )
        whole = self.basis.cosines_of(rows, writer)
        gram = whole[self.spanning]
        value, vector = np.linalg.eigh((gram + gram.T) / 2)
        keep = value > 1e-6 * max(float(value[-1]), 1e-12)
        self.project: Float = vector[:, keep] / np.sqrt(value[keep])
        self.bank: Float = whole @ self.project


def _spanning(stands_apart: Mask) -> Int:
    """Which rows span the space: all, or the bank's first of all, evenly spaced."""
    bank, others = np.flatnonzero(~stands_apart), np.flatnonzero(stands_apart)
    bank = bank[:: max(1, -(-len(bank) // LARGEST_BASIS))]
    left = LARGEST_BASIS - len(bank)
    others = others[:: -(-len(others) // left)] if left > 0 and len(others) else others[:0]
    return np.sort(np.concatenate([bank, others]))
