"""Simulations and real cases as one bank, in the order: simulations, background, real cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.methods.base import Material
from simdx.methods.comparison import RealRows
from simdx.types import EmbeddedBank, Float, Int


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Rows to compare with, and what is known of each besides its label."""

    texts: list[str]
    bank: EmbeddedBank
    weight: Float | None  # (n,) how many simulations each counts as; None: there are simulations alone
    real: RealRows | None


def gather(material: Material, rows: Int, *, background: bool) -> Gathered:
    """These rows of the bank with all real cases; the background, where wanted, as one more label."""
    bank, real = material.embedded, material.real
    texts = [material.bank.texts[i] for i in rows]
    vectors, label_index = [bank.vectors[rows]], [bank.label_index[rows]]
    if background and bank.background is not None:
        texts += material.bank.background
        vectors.append(bank.background)
        label_index.append(np.full(len(bank.background), bank.n_labels))
    n_simulated = len(texts)
    weight, rows_of = None, None
    if real is not None:
        real = real if background else real.only(real.label_index < bank.n_labels)
        texts += real.texts
        vectors.append(real.vectors)
        label_index.append(real.label_index)
        weight = np.concatenate([np.ones(n_simulated), real.weight])
        inferred = np.concatenate([np.zeros(n_simulated, dtype=bool), real.inferred])
        rows_of = RealRows(np.arange(len(texts)) >= n_simulated, inferred, real.centre)
    gathered = EmbeddedBank(
        np.concatenate(vectors), np.concatenate(label_index), bank.n_labels + background, bank.blocks
    )
    return Gathered(texts, gathered, weight, rows_of)
