"""The same case seen independently: every embedding block and the bare words, on every bank there is.

A view is one representation of one bank with a soft kernel of its own bandwidth. Its posterior answers
the same question as the main method from other material: another embedder (or no embedder), or
descriptions by another simulator. Bandwidths minimise the log loss of simulated text that the view does
not hold: the other banks' texts where there are any, its own texts left out in turn otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simdx.abc.space import Space
from simdx.decide.lexical import LexicalSpace
from simdx.types import Bank, EmbeddedBank, Float, Int

Bool = NDArray[np.bool_]

BANDWIDTHS = (0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.13, 0.17)
FLOOR = 1e-6  # of a probability inside a log loss


@dataclass(frozen=True, slots=True)
class Seen:
    """Texts with their raw embeddings, as views take them."""

    texts: Sequence[str]
    vectors: Float


@dataclass(frozen=True, slots=True)
class View:
    """One representation of one bank."""

    name: str
    bank: Bank
    bandwidth: float
    cosine: Callable[[Seen], Float]  # (N, n), centred, against the bank's rows in order

    def posterior(self, seen: Seen, prior: Float, *, leave_out: bool = False) -> Float:
        """(N, K) under that prior; `leave_out` drops rows of the bank whose text is the case's own."""
        cosine = self.cosine(seen)
        own = _same_text(seen.texts, self.bank.texts) if leave_out else None
        return soft_posterior(cosine, self.bank.label_index, prior, self.bandwidth, own)


def soft_posterior(
    cosine: Float, label_index: Int, prior: Float, bandwidth: float, own: Bool | None = None
) -> Float:
    """Soft-kernel posterior from cosines (N, n); cells where `own` is true do not count.

    A label left without any simulation gets no mass; if that leaves none at all, the answer is the prior.
    """
    logit = cosine / bandwidth
    if own is not None:
        logit = np.where(own, -np.inf, logit)
    top = logit.max(axis=1, keepdims=True)
    weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
    member = np.eye(len(prior))[label_index]
    here = member.sum(axis=0)[None, :] if own is None else (~own) @ member
    mass = prior * (weight @ member) / np.maximum(here, 1)
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), prior)


def build_views(
    banks: Sequence[Bank],
    vectors: Sequence[Float],
    blocks: Mapping[str, slice],
    bandwidths: Mapping[str, float] | None = None,
) -> tuple[View, ...]:
    """A view per (representation, bank); `bandwidths` by view name spares their choice.

    `vectors[i]` embeds the texts of `banks[i]`; `blocks` names the columns of each embedder.
    """
    seen = [Seen(bank.texts, v) for bank, v in zip(banks, vectors, strict=True)]
    names = _distinct([bank.name for bank in banks])
    views = []
    for representation, columns in [*blocks.items(), ("words", None)]:
        for i, bank in enumerate(banks):
            name = f"{representation} on {names[i]}"
            cosine = _lexical(bank) if columns is None else _embedded(bank, vectors[i], columns)
            if bandwidths is not None and name in bandwidths:
                width = bandwidths[name]
            else:
                width = _bandwidth(bank, cosine, seen, banks, i)
            views.append(View(name, bank, width, cosine))
    return tuple(views)


def _embedded(bank: Bank, vectors: Float, columns: slice) -> Callable[[Seen], Float]:
    part = vectors[:, columns]
    space = Space.fit(EmbeddedBank(part, bank.label_index, len(bank.labels), (part.shape[1],)), centre=True)
    inside = np.empty_like(space.bank)
    inside[space.rows] = space.bank
    return lambda seen: (space.transform(seen.vectors[:, columns]) @ inside.T).astype(np.float64)


def _lexical(bank: Bank) -> Callable[[Seen], Float]:
    space = LexicalSpace(bank.texts)
    return lambda seen: space.cosine(seen.texts)


def _bandwidth(
    bank: Bank, cosine: Callable[[Seen], Float], seen: Sequence[Seen], banks: Sequence[Bank], own: int
) -> float:
    judged = [j for j in range(len(banks)) if j != own] or [own]
    prior = np.full(len(bank.labels), 1 / len(bank.labels))
    loss = np.zeros(len(BANDWIDTHS))
    for j in judged:
        values, truth = cosine(seen[j]), banks[j].label_index
        mine = _same_text(seen[j].texts, bank.texts)
        for b, width in enumerate(BANDWIDTHS):
            p = soft_posterior(values, bank.label_index, prior, width, mine)[np.arange(len(truth)), truth]
            loss[b] -= np.log(np.maximum(p, FLOOR)).mean()
    return BANDWIDTHS[int(loss.argmin())]


def _same_text(texts: Sequence[str], bank_texts: Sequence[str]) -> Bool:
    """(N, n) true where a case's text is the bank row's own text."""
    number: dict[str, int] = {}
    row = np.array([number.setdefault(t, len(number)) for t in bank_texts])
    case = np.array([number.get(t, -1) for t in texts])
    return case[:, None] == row[None, :]


def _distinct(names: Sequence[str]) -> list[str]:
    return [n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names)]
