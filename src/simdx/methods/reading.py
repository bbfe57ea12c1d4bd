"""How a text is read: as statements, then as words. Words repeat more than texts, so much is kept of them.

*Questions and answers.* A symptom checker's history is a list such as "Do you have a cough? Yes. Have you
travelled? No." Read as plain text, a question that was answered with no is evidence for what it asks about,
and the wording of the questions dilutes the rest. So a question answered with yes is read as a statement, one
answered with no is left out, and any other answer is kept behind its question. Text without such pairs is
returned unchanged.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from simdx.methods.sparse import Sparse, runs
from simdx.types import Float, Int

REMEMBERED_WORDS = 50_000  # some megabytes; a fuller memory starts anew
MOST_LETTERS = 5000  # more than a language writes with, far fewer than there are
KEPT_BYTES = 32_000_000  # of products, at most; memory that no word has filled yet is not taken


_PAIR = re.compile(r"([^.?!\n]*)\?[ \t]*([^.?!\n]*)(?:[.!]|$)", re.MULTILINE)
_IS_CHECKLIST = re.compile(r"\?[ \t]*(?:yes|no|y|n)\b", re.IGNORECASE)
_NO = frozenset({"no", "n", "none", "nowhere", "never", "not at all"})
_YES = frozenset({"yes", "y"})
_OPENING = re.compile(
    r"^\s*(?:do|does|did|have|has|had|are|is|were|was|can|could|how|what|where|which)\b"
    r"(?:\s+(?:you|your|the|it|have|had|been|feel|noticed|experiencing|an?|any|ever|currently|recently)\b)*\s*",
    re.IGNORECASE,
)


def as_statements(text: str) -> str:
    """What a text states, where it is a list of questions and answers; else the text itself."""
    return _PAIR.sub(_stated, text) if _IS_CHECKLIST.search(text) else text


def _stated(pair: re.Match[str]) -> str:
    answer = pair[2].strip()
    if answer.lower() in _NO:
        return " "
    stated = _OPENING.sub("", pair[1]).strip()
    return f" {stated}. " if answer.lower() in _YES else f" {stated} {answer}. "


# --------------------------------------------------------------------------- words


class OneSlotCache:
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


_last_words = OneSlotCache()  # several lexicons are asked about one batch


class _Letters(dict[int, str]):
    """A character by its code: itself where it is a letter, else a space. ASCII text passes at C's speed."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        found = letter if letter.isalnum() and not letter.isdecimal() else " "
        if len(self) < MOST_LETTERS:
            self[code] = found
        return found


_LETTERS = _Letters()


def words(text: str) -> list[str]:
    """In small letters; what is no letter stands between them."""
    return as_statements(text).lower().translate(_LETTERS).split()


def words_of(texts: Sequence[str]) -> tuple[list[str], Sparse]:
    """The distinct words of a batch, and how often each text has each of them."""
    return _last_words.get(texts, lambda: _words_of(texts))


def _words_of(texts: Sequence[str]) -> tuple[list[str], Sparse]:
    place: defaultdict[str, int] = defaultdict()
    place.default_factory = place.__len__
    said = [np.array([place[word] for word in words(text)], dtype=np.int64) for text in texts]
    found = np.concatenate([*said, np.zeros(0, dtype=np.int64)])
    row = np.repeat(np.arange(len(said)), [*map(len, said)])
    entry, times = np.unique(row * len(place) + found, return_counts=True)
    row, column = np.divmod(entry, max(1, len(place)))
    ends = np.searchsorted(row, np.arange(len(said) + 1))
    return list(place), Sparse(ends, column, times.astype(float), len(place))


class WordPieces:
    """The columns of a word's pieces, as often as it has them; it is taken apart when it is first met."""

    def __init__(self, column: dict[str, int], pieces: Callable[[str], list[str]]) -> None:
        self._column, self._pieces, self._lock = column, pieces, threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._place: dict[str, int] = {}
        self._ends, self._columns = array("q", [0]), array("q")

    def know(self, distinct: list[str], ends: Int, columns: Int) -> None:
        """Words that were taken apart elsewhere."""
        if len(distinct) <= REMEMBERED_WORDS:
            self._place = {word: i for i, word in enumerate(distinct)}
            self._ends, self._columns = array("q", ends.tobytes()), array("q", columns.tobytes())

    def of(self, distinct: list[str]) -> Sparse:
        """(words, vocabulary) a one for each time that a word has a piece."""
        with self._lock:
            new = [word for word in distinct if word not in self._place]
            if len(self._place) + len(new) > REMEMBERED_WORDS:
                self._forget()
                new = distinct
            try:
                for word in new:
                    self._place[word] = len(self._place)
                    self._columns.extend(
                        self._column[piece] for piece in self._pieces(word) if piece in self._column
                    )
                    self._ends.append(len(self._columns))
            except BaseException:  # half a word known would be another word from then on
                self._forget()
                raise
            return self._at(np.fromiter(map(self._place.__getitem__, distinct), np.int64, len(distinct)))

    def _at(self, rows: Int) -> Sparse:
        """A function of its own: an array does not grow while somebody has a view of it."""
        ends, columns = np.frombuffer(self._ends, np.int64), np.frombuffer(self._columns, np.int64)
        lengths = ends[rows + 1] - ends[rows]
        column = columns[runs(ends[rows], lengths)]
        return Sparse(
            np.concatenate([[0], np.cumsum(lengths)]), column, np.ones(len(column)), len(self._column)
        )


class WordProducts:
    """(words, width) numbers of each word, made when it is first met; a fuller memory starts anew."""

    def __init__(self, width: int, make: Callable[[list[str]], Float]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._place: dict[str, int] = {}
        self._kept = np.empty((KEPT_BYTES // (8 * max(1, width)), width))

    def sums(self, distinct: list[str], said: Sparse) -> tuple[Float, Float] | None:
        """(texts, width) over the words of each text, weighted, and (words,) the last number of each.

        None where the words are too many to be kept.
        """
        with self._lock:
            rows = self._rows(distinct)
            if rows is None:
                return None
            placed = Sparse(said.ends, rows[said.column], said.value, len(self._kept))
            return placed.gathered(self._kept), self._kept[rows, -1]

    def _rows(self, distinct: list[str]) -> Int | None:
        with suppress(KeyError):  # as a rule all of them have been met
            return np.fromiter(map(self._place.__getitem__, distinct), np.int64, len(distinct))
        new = [word for word in distinct if word not in self._place]
        if len(self._place) + len(new) > len(self._kept):
            self._place, new = {}, distinct
        if len(new) > len(self._kept):
            return None
        first = len(self._place)
        self._kept[first : first + len(new)] = self._make(new)
        self._place.update(zip(new, range(first, first + len(new)), strict=True))
        return np.fromiter(map(self._place.__getitem__, distinct), np.int64, len(distinct))
