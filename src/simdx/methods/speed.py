"""What is here for speed alone, and why. Nothing in this file changes an answer.

A first answer is due within a second of processor time, and a batch should cost no more than scikit-learn's
TF-IDF with a logistic regression. Importing scikit-learn takes over 1.1 s, scipy.sparse .6 s, so few rows are
multiplied by numpy, and scipy is imported for many. `TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5),
sublinear_tf=True)` makes the same rows (tests/methods/test_lexical.py) at twice the time of a whole answer.

sparse rows      products by numpy for a few rows, by scipy for many
memories         words repeat more than texts do, so what was made of a word is kept
compiled panels  fitting takes a second or more and is the same every time, so its arrays are kept in one file

A compiled panel lies under the hash of all it was made from. Packaged panels ship theirs. One in the user's
cache is sealed with a key of the user's, and every one is checked against the bank before it is used
(`PanelData.open`). A file that does not hold is passed over, with a line, and written again. Real cases
are never part of it.
"""

from __future__ import annotations

import logging
import secrets
import sys
import threading
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from simdx.disk import create_once, load_arrays, make_folder, save_arrays
from simdx.models.registry import home
from simdx.types import Bank, Float, Int, Mask, content_hash

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FEW, FEW_AT_HAND = 16, 4  # rows that numpy handles before scipy is imported for them; once it is there
FEW_MEETINGS = 100_000  # of entries in a product, that numpy adds up faster than scipy is called
MOST_MEETINGS = 2_000_000  # some tens of megabytes, whatever scipy takes to import
SPARSE = 0.25  # of entries that are not zero: fewer are walked through, more are multiplied as a block
OFTEN = 0.2  # of the rows that a column must be in to stand in the dense block
REMEMBERED_WORDS = 50_000  # some megabytes; a fuller memory starts anew
KEPT_BYTES = 32_000_000  # of products, at most; memory that no word has filled yet is not taken


# --------------------------------------------------------------------------- sparse rows


def many(rows: int) -> bool:
    return rows > (FEW_AT_HAND if "scipy.sparse" in sys.modules else FEW)


def runs(starts: Int, lengths: Int) -> Int:
    """The places of runs of places, one run after another."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


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
        short = self.column.astype(np.uint16) if self.width < 2**16 else self.column
        order = np.argsort(short, kind="stable")  # short numbers by radix: a cold start waits for this
        ends = np.zeros(self.width + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.column, minlength=self.width), out=ends[1:])
        return Sparse(ends, self.row[order], self.value[order], len(self))

    def at(self, rows: Int) -> Sparse:
        lengths = np.diff(self.ends)[rows]
        place, ends = runs(self.ends[rows], lengths), np.concatenate([[0], np.cumsum(lengths)])
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
        meetings = np.diff(other.ends)[self.column]
        if meetings.sum() > (FEW_MEETINGS if many(len(self)) else MOST_MEETINGS):
            return np.asarray((self.csr @ other.csr).toarray())
        met = other.at(self.column)
        place = np.repeat(self.row * other.width, meetings) + met.column
        weight = met.value * np.repeat(self.value, meetings)
        found = np.asarray(np.bincount(place, weight, len(self) * other.width), dtype=float)
        return found.reshape(len(self), other.width)


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


# --------------------------------------------------------------------------- memories


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

    def sums(self, distinct: list[str], said: Sparse) -> Float | None:
        """(texts, width) over the words of each text, weighted; None where they are too many to be kept."""
        with self._lock:
            rows = self._rows(distinct)
            if rows is None:
                return None
            return np.asarray(
                Sparse(said.ends, rows[said.column], said.value, len(self._kept)).csr @ self._kept
            )

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


# --------------------------------------------------------------------------- compiled panels

FORMAT = "2"  # raise it when the arrays or their names change
KEY_FILE = "seal.key"  # of the user's compiled panels, readable by the user alone
Arrays = Mapping[str, Float]


def address_of(bank: Bank, embedder: str, recipe: int, world: str = "", reading: str = "") -> str:
    """Where the compiled panel is kept. Texts count in their order, since rows are kept by number."""
    against = "" if bank.against is None else bank.against.tobytes().hex()
    sizes = (
        FORMAT,
        str(recipe),
        *(part for part in (world, reading) if part),
        embedder,
        str(len(bank.labels)),
        str(len(bank.texts)),
        against,
    )
    return content_hash("compiled", *sizes, bank.label_index.tobytes().hex(), *bank.texts, *bank.background)


def look_up(address: str, holds: Callable[[Arrays], bool] = lambda _: True) -> Arrays | None:
    """A compiled panel, packaged or of the user's own; `holds`: does it belong to its bank?"""
    name = f"{address}.safetensors"
    packaged = Path(str(files("simdx.methods"))) / "data" / "compiled" / name
    for path, key in ((packaged, None), (home() / "compiled" / name, _key())):
        if not path.is_file():
            continue
        found = load_arrays(path, key)
        if found is not None and holds(found):
            return found
        logging.getLogger("simdx").warning("simdx: '%s' is damaged: the panel is fitted again", path)
    return None


def keep(address: str, arrays: Arrays, folder: Path | None = None) -> Path:
    """Write a compiled panel, whole or not at all; raises CannotWrite. In another `folder` it has no key."""
    path = (folder or home() / "compiled") / f"{address}.safetensors"
    make_folder(path.parent)
    save_arrays(path, arrays, None if folder is not None else _key(make=True))
    return path


def _key(*, make: bool = False) -> bytes:
    """The user's key. Without one no file holds; whoever can write the cache alone cannot seal for it."""
    path = home() / KEY_FILE
    if make and not path.exists():
        make_folder(path.parent)
        create_once(path, secrets.token_hex(32))
    try:
        return path.read_bytes() if path.stat().st_mode & 0o077 == 0 else b""
    except OSError:
        return b""


class Compilable(Protocol):
    """A part of a fit that a compiled panel holds."""

    def arrays(self) -> dict[str, Float]: ...


def named(**parts: Compilable | None) -> dict[str, Float]:
    """The arrays of some parts of a fit under longer names, as a compiled panel has them."""
    known = ((prefix, one.arrays()) for prefix, one in parts.items() if one is not None)
    return {f"{prefix}.{name}": values for prefix, arrays in known for name, values in arrays.items()}


def part(arrays: Arrays, prefix: str) -> dict[str, Float]:
    return {n.removeprefix(f"{prefix}."): v for n, v in arrays.items() if n.startswith(f"{prefix}.")}
