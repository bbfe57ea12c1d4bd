"""The one shape of a method.

    fit(material, settings) -> infer(observations, prior) -> (Posterior, Trace | None)

`Material` is everything a method may learn from: the panel and simulated text. Labelled cases are in it only
where the user gives some, apart from the bank, because nothing may quote or keep them.
M-SMC, D-SMC, the shipped recipe, the amortised network and every baseline have this shape, so nothing
that runs a method needs to know which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from simdx.abc.prior import Prior
from simdx.embedders.base import Embedder, embed_texts
from simdx.embedders.cache import embed_cached
from simdx.methods.lexical import Lexicon
from simdx.types import Bank, EmbeddedBank, Float, Int, Panel, Posterior, Trace, case_key


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user may choose. None means the method's own default."""

    method: str = "auto"
    engine: str = "exact"
    kernel: Literal["soft", "hard"] | None = None
    populations: int = 5
    tolerance: float | None = None
    particles: int | None = None
    bandwidth: float | None = None
    stop_acceptance: float | None = 0.2  # the paper's rule for particles; None never stops early
    budget: int | None = None
    simulator: str | None = None
    network: str | None = None
    real: str | None = None  # identity of the real cases given: thresholds and resumed runs depend on them
    allow_remote: bool = False  # whether case text may leave this machine
    replies: str | None = None  # folder in which an asking baseline keeps what was answered
    device: str = "cpu"  # cuda, cuda:1, …: the exact engines of m-smc and d-smc through torch
    seed: int = 0

    @classmethod
    def named_alike(cls, description: object, **more: Any) -> Settings:
        """Every setting that a longer description of a run has under the same name; `more` wins."""
        alike = (f.name for f in fields(cls) if hasattr(description, f.name))
        return cls(**({name: getattr(description, name) for name in alike} | more))


@dataclass(frozen=True, slots=True, eq=False)
class RealCases:
    """Cases of the user's own beside the bank. Patient data: in memory only, never quoted as evidence."""

    texts: tuple[str, ...]
    label_index: Int
    vectors: Float  # (m, d) raw embeddings
    weight: float  # how many simulations each counts as
    centre: Float | None = None  # (d,) what is taken out of a case's embedding instead of the bank's mean
    unlabelled: int = 0  # how many cases that centre is the mean of

    def notes(self, n_labels: int) -> tuple[str, ...]:
        """What the provenance of an answer says about them."""
        said = []
        counts = np.bincount(self.label_index, minlength=n_labels)
        if counts.any():
            low, high = int(counts.min()), int(counts.max())
            many = str(low) if low == high else f"{low} to {high}"
            said.append(f"{many} real labelled cases per label, each counted as {self.weight:g} simulations")
        if self.centre is not None:
            said.append(f"embeddings of cases centred on {self.unlabelled} real unlabelled cases")
        return tuple(said)


@dataclass(frozen=True)
class Material:
    """A panel with its bank, embedded."""

    panel: Panel
    bank: Bank
    embedded: EmbeddedBank
    embedder: Embedder
    real: RealCases | None = None

    @classmethod
    def prepare(cls, panel: Panel, bank: Bank, embedder: Embedder) -> Material:
        """Embed a bank and its background, or take their vectors from the cache."""
        vectors = embed_cached(embedder, bank.texts)
        background = embed_cached(embedder, bank.background) if bank.background else None
        embedded = EmbeddedBank(vectors, bank.label_index, len(panel.names), embedder.blocks, background)
        return cls(panel, bank, embedded, embedder)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The vocabulary of everything that was simulated for the panel."""
        return Lexicon([*self.bank.texts, *self.bank.background])

    def observe(self, texts: Sequence[str]) -> Observations:
        """Embed cases; nothing of them is cached."""
        keys = [case_key(text) for text in texts]
        return Observations(tuple(texts), embed_texts(self.embedder, texts), tuple(keys))


@dataclass(frozen=True, slots=True)
class Observations:
    """Cases as a method sees them: their texts, raw embeddings, and the keys of their random streams."""

    texts: tuple[str, ...]
    vectors: Float
    keys: tuple[int, ...]


Infer = Callable[[Observations, Prior], tuple[Posterior, Trace | None]]
Fit = Callable[[Material, Settings], Infer]

__all__ = ["Bank", "Fit", "Infer", "Int", "Material", "Observations", "RealCases", "Settings"]
