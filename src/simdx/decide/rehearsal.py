"""The method rehearsed on simulated text: what its answers look like when they are right.

Every simulated description is answered by a fit that does not hold it (cross-fitting, by label), so that
thresholds of the alarm and of the decision policy can be chosen without a labelled case. Simulated text is
cleaner than real text; figures from here are a starting point and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simdx.methods.base import Material, Observations
from simdx.types import Float, Int, case_key

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Answers:
    """What a decision looks at, for N texts."""

    posterior: Float
    entropy_bits: Float
    typicality: Float
    out_of_class: Float | None
    aleatoric_bits: Float | None
    epistemic_bits: Float | None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Held-out answers to simulated texts with the labels they were written for."""

    texts: tuple[str, ...]
    vectors: Float
    truth: Int
    answers: Answers | None


AnswerWith = Callable[[Material], Callable[[Observations], Answers]]


def rehearse(material: Material, answer_with: AnswerWith, folds: int = FOLDS) -> Rehearsal:
    """Answer every text of the bank by a fit on the other folds. A label's only text stays in every fit."""
    bank, embedded = material.bank, material.embedded
    fold = fold_of(bank.label_index, folds)
    parts: list[Answers] = []
    order: list[Int] = []
    for f in range(folds):
        held = np.flatnonzero(fold == f)
        if not held.size:
            continue
        kept = np.flatnonzero(fold != f)
        part = Material(
            material.panel,
            bank.subset(kept),
            replace(embedded, vectors=embedded.vectors[kept], label_index=embedded.label_index[kept]),
            material.embedder,
            material.real,
        )
        texts = tuple(bank.texts[i] for i in held)
        seen = Observations(texts, embedded.vectors[held], tuple(case_key(t) for t in texts))
        parts.append(answer_with(part)(seen))
        order.append(held)
    rows = np.concatenate(order)
    return Rehearsal(
        tuple(bank.texts[i] for i in rows), embedded.vectors[rows], bank.label_index[rows], join(parts)
    )


def fold_of(label_index: Int, folds: int) -> Int:
    """Each label's texts dealt over the folds in turn; −1 for the only text of a label."""
    fold = np.full(len(label_index), -1)
    for label in np.unique(label_index):
        rows = np.flatnonzero(label_index == label)
        if rows.size > 1:
            fold[rows] = np.arange(rows.size) % folds
    return fold


def join(parts: list[Answers]) -> Answers:
    """Several batches of answers as one."""

    def joined(name: str) -> Float | None:
        values = [getattr(part, name) for part in parts]
        return None if any(v is None for v in values) else np.concatenate(values)

    names = ("posterior", "entropy_bits", "typicality", "out_of_class", "aleatoric_bits", "epistemic_bits")
    return Answers(*(joined(name) for name in names))  # type: ignore[arg-type]
