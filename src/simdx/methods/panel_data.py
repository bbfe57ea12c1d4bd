"""What a method may learn from, and what it is asked about.

`PanelData` is the panel and its simulated texts, embedded. Real cases are in it only where the user gives
some, apart from the bank, because nothing may quote or keep them. `Observations` are the cases.
`TrainingRows` are what the two scores are fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from simdx.embedders.base import Embedder, embed_cached, embed_texts
from simdx.errors import BadInput
from simdx.methods.calibration_record import Calibration
from simdx.methods.features import LARGEST_BASIS, Lexicon
from simdx.methods.logistic import choose_reading
from simdx.methods.speed import Arrays, address_of, look_up, named, part
from simdx.reading import PLAIN, WAYS, as_read
from simdx.types import (
    Bank,
    EmbeddedBank,
    Float,
    Int,
    Mask,
    Panel,
    case_key,
    content_hash,
    is_writable,
    plain,
)

MAX_TEXT_BYTES = 2_000_000
# What an answer is, as a number: raise it by hand whenever a change of code moves any figure. Policies and
# resumed runs made under another number are not used. tests/test_recipe_version.py holds the figures.
RECIPE_VERSION = 7


@dataclass(frozen=True, slots=True, eq=False)
class Centre:
    """The mean of an archive, which is taken out of real text instead of the mean of the simulations."""

    embedded: Float  # (d,) of block-normalised vectors
    lexical: Float  # (vocabulary,)
    texts: frozenset[str]  # the archive's, in plain words: to know them again when they are asked about
    folds: tuple[Centre, ...] = ()  # the same without the texts of each fold


FOLDS = 5  # fits that an archive costs at most, beside the whole one


def fold_of(text: str) -> int:
    """The fold of a text of an archive: the same for the same text, whatever stands beside it."""
    return int(content_hash("archive", plain(text))[:8], 16) % FOLDS


@dataclass(frozen=True, slots=True, eq=False)
class RealCases:
    """Cases of the user's own beside the bank. Patient data: in memory only, never quoted as evidence.

    Labelled cases are one row each, of none of these with `n_labels` as their label. A text of the archive,
    whose label was inferred, is a row for every label it may have.
    """

    texts: tuple[str, ...]
    label_index: Int
    vectors: Float  # (m, d) raw embeddings
    weight: Float  # (m,) how many simulations each counts as
    fold: Int  # (m,) of a text of the archive; −1: a labelled case
    centre: Centre | None = None  # where there is an archive
    left_out: int = 0  # labelled cases of none of the labels, where the bank has no background

    @property
    def inferred(self) -> Mask:
        """(m,) rows of the archive."""
        return self.fold >= 0

    def only(self, rows: Mask) -> RealCases:
        """These rows alone, centred as before."""
        texts = tuple(text for text, kept in zip(self.texts, rows, strict=True) if kept)
        label, vectors, weight = self.label_index[rows], self.vectors[rows], self.weight[rows]
        return replace(
            self, texts=texts, label_index=label, vectors=vectors, weight=weight, fold=self.fold[rows]
        )

    def without(self, fold: int) -> RealCases:
        """The same without a fold of the archive, in rows and centre."""
        assert self.centre is not None  # only an archive has folds
        return replace(self.only(self.fold != fold), centre=self.centre.folds[fold])

    def notes(self, n_labels: int) -> tuple[str, ...]:
        """What the provenance of an answer says about them."""
        said = []
        labelled = ~self.inferred & (self.label_index < n_labels)
        others = int((~self.inferred & (self.label_index == n_labels)).sum())
        if labelled.any():
            counts = np.bincount(self.label_index[labelled], minlength=n_labels)
            low, high = int(counts.min()), int(counts.max())
            many = str(low) if low == high else f"{low} to {high}"
            each = f"each counted as {self.weight[labelled][0]:g} simulations"
            said.append(f"{many} real labelled cases per label, {each}")
        if others:
            said.append(f"real cases of none of the labels beside the background: {others}")
        if self.left_out:
            why = "as the bank has no background"
            said.append(f"real cases of none of the labels left out, {why}: {self.left_out}")
        if self.centre is not None:
            learnt = self.weight[self.inferred].sum()
            said.append(
                f"cases centred on an archive ({len(self.centre.texts)} unlabelled), "
                f"which counts as {learnt:.1f} simulations; the thresholds do not use it"
            )
        return tuple(said)


@dataclass(frozen=True)
class PanelData:
    """A panel, its simulated texts and their vectors, and whatever else a method may learn from."""

    panel: Panel
    bank: Bank
    embedded: EmbeddedBank
    embedder: Embedder
    real: RealCases | None = None
    calibration: Calibration | None = None
    folder: Path | None = None  # of the panel file, which may hold what its maintainer found
    compiled: Mapping[str, Float] | None = None  # what was fitted to it before (`speed`)
    address: str | None = None  # and where such is kept
    reading: str = PLAIN  # how denied findings count (`simdx.reading.as_read`)

    @classmethod
    def prepare(
        cls,
        panel: Panel,
        bank: Bank,
        embedder: Embedder,
        folder: Path | None = None,
        reading: str | None = None,
    ) -> PanelData:
        """Read and embed a bank and its background, or take their vectors from the cache.

        Without a `reading` the bank's own texts choose it (`choose_reading`).
        """
        way = reading or choose_reading(bank)
        vectors = embed_read(embedder, bank.texts, way)
        background = embed_read(embedder, bank.background, way) if bank.background else None
        embedded = EmbeddedBank(vectors, bank.label_index, len(panel.names), embedder.blocks, background)
        return cls(panel, bank, embedded, embedder, folder=folder, reading=way)

    @classmethod
    def open(
        cls,
        panel: Panel,
        bank: Bank,
        embedder: Embedder,
        folder: Path | None = None,
        reading: str | None = None,
    ) -> PanelData:
        """As `prepare`, from the compiled panel where there is one that belongs to this bank."""
        address = address_of(bank, embedder.id, RECIPE_VERSION, world_identity(panel), reading or "")
        found = look_up(address, lambda arrays: belongs(arrays, bank, sum(embedder.blocks)))
        if found is None:
            return replace(cls.prepare(panel, bank, embedder, folder, reading), address=address)
        embedded = EmbeddedBank(
            found["vectors"], bank.label_index, len(panel.names), embedder.blocks, found.get("background")
        )
        way = WAYS[int(found["reading"][0])]
        return cls(
            panel, bank, embedded, embedder, folder=folder, compiled=found, address=address, reading=way
        )

    def arrays(self) -> dict[str, Float]:
        """What a compiled panel holds of it."""
        others = {} if self.embedded.background is None else {"background": self.embedded.background}
        way = {"reading": np.array([WAYS.index(self.reading)])}
        return {"vectors": self.embedded.vectors, **others, **way, **named(lexicon=self.lexicon)}

    def kept(self, prefix: str) -> dict[str, Float]:
        """A part of the fit from the compiled panel; nothing beside real cases, which change the fit."""
        return {} if self.compiled is None or self.real is not None else part(self.compiled, prefix)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The vocabulary of everything that was simulated for the panel."""
        if self.compiled is not None:
            return Lexicon.from_arrays(part(self.compiled, "lexicon"), reading=self.reading)
        texts = [*self.bank.texts, *self.bank.background]
        found = Lexicon.of(texts, reading=self.reading)
        if len(texts) <= LARGEST_BASIS:  # else a comparison is with a part of them
            found.take(found.counts(texts))
        return found

    def with_real(self, real: RealCases | None) -> PanelData:
        """The same bank with these real cases; the vocabulary, which is the bank's, is kept."""
        other = replace(self, real=real)
        if "lexicon" in self.__dict__:
            other.__dict__["lexicon"] = self.lexicon
        return other

    @property
    def has_archive(self) -> bool:
        return self.real is not None and self.real.centre is not None

    def without_archive(self) -> PanelData:
        """The same without unlabelled real cases."""
        if not self.has_archive:
            return self
        assert self.real is not None
        labelled = ~self.real.inferred
        return self.with_real(replace(self.real.only(labelled), centre=None) if labelled.any() else None)

    def subset(self, rows: Int, others: Int) -> PanelData:
        """Some texts of the bank and of its background, with nothing that was found for all of them."""
        background = self.embedded.background
        kept = replace(self.bank.subset(rows), background=tuple(self.bank.background[i] for i in others))
        seen = None if background is None or not others.size else background[others]
        embedded = replace(self.embedded.subset(rows), background=seen)
        return PanelData(self.panel, kept, embedded, self.embedder, reading=self.reading)

    def observe(self, texts: Sequence[str], of: Sequence[str] | None = None) -> Observations:
        """Embed cases; nothing of them is cached. `of`: the whole texts, where these are parts of such."""
        vectors = embed_texts(self.embedder, [as_read(text, self.reading)[0] for text in texts])
        return Observations(tuple(texts), vectors, None if of is None else tuple(of))


def embed_read(embedder: Embedder, texts: Sequence[str], way: str) -> Float:
    """Simulated texts, embedded as they are read; from the cache where they were embedded before."""
    return embed_cached(embedder, tuple(as_read(text, way)[0] for text in texts))


def world_identity(panel: Panel) -> str:
    """What the library beside a panel depends on; empty where none stands there."""
    if not panel.world:
        return ""
    from simdx.library import version

    said = (name for label in panel.labels for name in (label.name, *label.aliases, *label.icd10))
    return content_hash(version(), *said)[:16]


def belongs(arrays: Arrays, bank: Bank, width: int) -> bool:
    """Is a compiled panel one of this bank: a vector for every text, and every row under its text's label?"""
    n, others = len(bank.texts), len(bank.background)

    def labelled_right(prefix: str, texts: Int) -> bool:
        """`texts`: those that were compared with, by number; the background's come after the bank's."""
        row, place, label = (arrays[f"{prefix}.{name}"].astype(int) for name in ("rows", "places", "labels"))
        own = place < n
        return bool(
            np.array_equal(np.sort(row), np.arange(len(texts)))
            and np.array_equal(texts[row], place)
            and np.array_equal(label[own], bank.label_index[place[own]])
            and (label[~own] >= len(bank.labels)).all()
        )

    try:
        against = np.concatenate([standing_against(bank), n + np.arange(others)])
        return (
            arrays["vectors"].shape == (n, width)
            and (not others or arrays["background"].shape == (others, width))
            and len(arrays["lexicon.ends"]) == n + others + 1
            and len(arrays["typicality"]) > 1
            and int(arrays["reading"][0]) in range(len(WAYS))
            and labelled_right("labels", np.arange(n))
            and ("outside.rows" not in arrays or labelled_right("outside", against))
        )
    except (KeyError, IndexError, ValueError):
        return False


def standing_against(bank: Bank) -> Int:
    """Rows that are weighed against the background: those named, and all of a label that has none of them."""
    if bank.against is None:
        return np.arange(len(bank.texts))
    spoken_for = np.isin(bank.label_index, bank.label_index[bank.against])
    return np.flatnonzero(bank.against | ~spoken_for)


@dataclass(frozen=True, slots=True)
class Observations:
    """Cases as a method sees them: their texts and raw embeddings."""

    texts: tuple[str, ...]
    vectors: Float
    of: tuple[str, ...] | None = None  # the whole texts, where these are made of them: a sentence left out

    @property
    def keys(self) -> tuple[int, ...]:
        """Of the cases' random streams."""
        return tuple(case_key(text) for text in self.texts)

    def at(self, rows: Int) -> Observations:
        return Observations(
            tuple(self.texts[i] for i in rows),
            self.vectors[rows],
            None if self.of is None else tuple(self.of[i] for i in rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows to compare with, and what is known of each besides its label; None: all are simulations."""

    texts: Sequence[str]
    bank: EmbeddedBank
    weight: Float | None = None  # (n,) how many simulations each counts as, within its label
    real: Mask | None = None  # (n,) real texts
    inferred: Mask | None = None  # (n,) those of them whose labels were inferred
    centre: Centre | None = None  # of real text, where it has its own
    places: Int | None = None  # where the texts stand among the lexicon's own; None: not all are of the bank


def gather(data: PanelData, rows: Int, *, background: bool) -> TrainingRows:
    """These rows of the bank, then the background as one more label where wanted, then all real cases."""
    bank, real = data.embedded, data.real
    texts = [data.bank.texts[i] for i in rows]
    places = rows
    vectors, label_index = [bank.vectors[rows]], [bank.label_index[rows]]
    if background and bank.background is not None:
        texts += data.bank.background
        vectors.append(bank.background)
        label_index.append(np.full(len(bank.background), bank.n_labels))
        places = np.concatenate([rows, len(data.bank.texts) + np.arange(len(bank.background))])
    n_simulated = len(texts)
    if real is not None:
        real = real if background else real.only(real.label_index < bank.n_labels)
        texts += real.texts
        vectors.append(real.vectors)
        label_index.append(real.label_index)
    rows_of = EmbeddedBank(
        np.concatenate(vectors), np.concatenate(label_index), bank.n_labels + background, bank.blocks
    )
    if real is None:
        return TrainingRows(texts, rows_of, places=places)
    weight = np.concatenate([np.ones(n_simulated), real.weight])
    inferred = np.concatenate([np.zeros(n_simulated, dtype=bool), real.inferred])
    return TrainingRows(texts, rows_of, weight, np.arange(len(texts)) >= n_simulated, inferred, real.centre)


def check_text(text: object, what: str) -> None:
    """A case must be text with something in it, of a size that is a text and not a file."""
    if not isinstance(text, str):
        raise BadInput(f"{what} is not a string")
    if not text.strip():
        raise BadInput(f"{what} is empty: give the description of a case")
    if not is_writable(text):
        raise BadInput(f"{what} holds half a character (a lone surrogate): give it as UTF-8")
    if 4 * len(text) > MAX_TEXT_BYTES and len(text.encode("utf-8")) > MAX_TEXT_BYTES:
        raise BadInput(f"{what} is over {MAX_TEXT_BYTES // 1_000_000} MB: give one case, not a collection")
