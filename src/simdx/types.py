"""The nouns of simdx: frozen, without IO, importing numpy only.

Numerics are batched over cases from the start: N cases, K labels, n simulations, d dimensions.
Texts come in at the border; past it there are only these dataclasses and arrays.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
Int = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
_WORDS = re.compile(r"\w+")

NONE_OF_THESE = "none of these"  # the label of a case that has none of the panel's


@dataclass(frozen=True, slots=True)
class Label:
    """One diagnosis of a panel. `name` is the string in the data and in every output."""

    name: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    icd10: tuple[str, ...] = ()
    snomed: tuple[str, ...] = ()
    must_not_miss: bool = False


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """A feature of a case's own words that sends it to a person: any of the phrases, or the pattern."""

    name: str
    phrases: tuple[str, ...] = ()
    pattern: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """An invented text that a reader may try a panel with. Nothing is learned from it."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A closed set of labels, the register their texts are written in, and the default embedder."""

    name: str
    labels: tuple[Label, ...]
    title: str = ""
    description: str = ""
    register: str = "clinician"  # clinician | patient | case-report | plain | general
    embedder: str = "wordllama"
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notice: str = ""
    review_rules: tuple[ReviewRule, ...] = ()
    examples: tuple[Example, ...] = ()
    ask_about: tuple[str, ...] = ()  # other conditions that must be thought of: the background holds them
    world: bool = True  # whether the library's other conditions stand beside the panel's own background

    @property
    def is_clinical(self) -> bool:
        """Is it about illness? Words for clinicians are out of place where it is not."""
        return self.register != "general"

    @property
    def names(self) -> tuple[str, ...]:
        """The labels' names, in the order of every array over labels."""
        return tuple(label.name for label in self.labels)

    @property
    def hash(self) -> str:
        """Identity of the *classification problem*: the label names and their order, no prose."""
        return content_hash("panel", *self.names)


# --------------------------------------------------------------------------- cases and banks


@dataclass(frozen=True, slots=True)
class Case:
    """A text to classify, with its gold label and attributes where they are known."""

    text: str
    id: str = ""
    label: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bank:
    """Simulated descriptions of each label of a panel, plus (optionally) of other conditions.

    `label_index[i]` is the position of text i's label in `labels`. `background` holds descriptions
    of conditions outside the panel, in the same register: the "none of these" hypothesis.
    `against[i]` says whether text i stands against the background when that hypothesis is weighed; None
    means that all do. Everything else takes every text. `none_prior` is the prior mass of another
    condition, where the user states one.
    """

    panel: str
    labels: tuple[str, ...]
    texts: tuple[str, ...]
    label_index: Int
    background: tuple[str, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    against: Mask | None = None
    none_prior: float | None = None

    def __post_init__(self) -> None:
        if self.against is not None and len(self.against) != len(self.texts):
            raise ValueError(f"against has {len(self.against)} values for {len(self.texts)} texts")

    @property
    def counts(self) -> dict[str, int]:
        n = np.bincount(self.label_index, minlength=len(self.labels))
        return {label: int(c) for label, c in zip(self.labels, n, strict=True)}

    @property
    def hash(self) -> str:
        """Content hash: independent of row order, sensitive to every text and label."""
        rows = sorted(
            json.dumps([self.labels[i], t], ensure_ascii=False)
            for i, t in zip(self.label_index.tolist(), self.texts, strict=True)
        )
        rows += sorted(json.dumps([None, t], ensure_ascii=False) for t in self.background)
        return content_hash("bank", *self.labels, "", *rows)

    @property
    def identity(self) -> str:
        """The content hash together with what else answers depend on: `against` and `none_prior`."""
        parts = [self.hash]
        if self.against is not None and not self.against.all():
            parts.append(self.subset(np.flatnonzero(self.against)).hash)
        if self.none_prior is not None:
            parts.append(str(self.none_prior))
        return content_hash(*parts) if len(parts) > 1 else self.hash

    def subset(self, rows: Sequence[int] | Int, name: str | None = None) -> Bank:
        """These texts alone, with the whole background."""
        kept = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            texts=tuple(self.texts[i] for i in kept),
            label_index=self.label_index[kept],
            against=None if self.against is None else self.against[kept],
            name=self.name if name is None else name,
        )


@dataclass(frozen=True, slots=True)
class EmbeddedBank:
    """What numerics see of a bank: unit vectors and label indices, no text.

    `blocks` are the widths of the embedders joined side by side; each block of each row has unit
    length, so one row has squared length `len(blocks)` and a joint cosine is a mean of cosines.
    """

    vectors: Float  # (n, d)
    label_index: Int  # (n,)
    n_labels: int
    blocks: tuple[int, ...]
    background: Float | None = None  # (m, d)

    @property
    def counts(self) -> Int:
        return np.bincount(self.label_index, minlength=self.n_labels)

    def subset(self, rows: Int) -> EmbeddedBank:
        """These rows alone, with the whole background."""
        return replace(self, vectors=self.vectors[rows], label_index=self.label_index[rows])


@dataclass(frozen=True, slots=True)
class SecondOrder:
    """A posterior on the simplex, summarised. All entropies in bits; arrays over N cases."""

    mean: Float  # (N, K)
    total_bits: Float
    aleatoric_bits: Float
    epistemic_bits: Float
    alpha0: Float
    effective_draws: Float
    cap: float | None = None  # the largest top probability this prior and tolerance can express

    def combined(self, change: Callable[..., Float], *others: SecondOrder) -> SecondOrder:
        """Every column made of this one's and the others'; the cap stays."""
        names = [f.name for f in fields(self) if f.name != "cap"]
        columns = {name: change(*(getattr(one, name) for one in (self, *others))) for name in names}
        return SecondOrder(**columns, cap=self.cap)


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened, population by population; leading axis T, then N cases.

    Cases that stopped early repeat their last row; `populations` says how many are their own.
    """

    tolerance: Float  # (T, N)
    acceptance: Float  # (T, N)
    simulations: Int  # (T, N)
    ess: Float  # (T, N)
    entropy_bits: Float  # (T, N)
    mass: Float  # (T, N, K)
    populations: Int  # (N,)
    outcome: tuple[str, ...]  # (N,): "complete" | "acceptance" | "floor" | "budget" | "nothing accepted"

    @property
    def total_simulations(self) -> Int:
        """(N,) simulations of each case in all: rows that a stopped case repeats are not counted again."""
        own = np.arange(len(self.simulations))[:, None] < self.populations
        return np.sum(np.where(own, self.simulations, 0), axis=0)


@dataclass(frozen=True, slots=True)
class Posterior:
    probabilities: Float  # (N, K), rows sum to one
    effective_simulations: Float  # (N,)
    tolerance: Float  # (N,)
    second_order: SecondOrder | None = None

    def combined(self, change: Callable[..., Float], *others: Posterior) -> Posterior:
        """Every column made of this one's and the others': rows chosen, or batches joined."""
        every = (self, *others)
        first, *rest = (one.second_order for one in every)
        seconds = [one for one in rest if one is not None]
        known = first is not None and len(seconds) == len(rest)
        return Posterior(
            change(*(one.probabilities for one in every)),
            change(*(one.effective_simulations for one in every)),
            change(*(one.tolerance for one in every)),
            first.combined(change, *seconds) if first is not None and known else None,
        )


def entropy_bits(p: Float, axis: int = -1) -> Float:
    """Shannon entropy in bits along `axis`; 0 log 0 = 0."""
    p = np.asarray(p, dtype=float)
    return -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=axis)


def plain(text: str) -> str:
    """What makes two texts the same one: their words, whatever the case, spaces and punctuation."""
    return " ".join(_WORDS.findall(text.casefold()))


def content_hash(*parts: str) -> str:
    """SHA-256 over length-prefixed UTF-8 parts, so that no two part lists collide by joining."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()


def case_key(text: str) -> int:
    """The 64-bit key of a case's random stream: its content, never its position in a batch."""
    return int(content_hash("case", text)[:16], 16)


def is_writable(text: str) -> bool:
    """False for a text with half a character in it (a lone surrogate), which no encoding can write.

    JSON escapes and command-line arguments can carry one; tokenizers, files and answers cannot.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
