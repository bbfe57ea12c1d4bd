"""Small problems for the engine's tests: unit vectors around overlapping label centres."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simdx.types import EmbeddedBank, Float, Int


def unit(x: Float) -> Float:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Toy:
    bank: Float
    labels: Int
    n_labels: int
    cases: Float
    truth: Int
    centres: Float

    @property
    def means(self) -> Float:
        return np.array([self.bank[self.labels == k].mean(axis=0) for k in range(self.n_labels)])

    @property
    def embedded(self) -> EmbeddedBank:
        return EmbeddedBank(self.bank, self.labels, self.n_labels, (self.bank.shape[1],))


def toy(counts: Sequence[int], n_cases: int = 8, d: int = 12, spread: float = 0.6, seed: int = 0) -> Toy:
    """`counts` simulations per label, in shuffled order; smaller `spread` means more overlap."""
    rng = np.random.default_rng(seed)
    k = len(counts)
    centres = rng.standard_normal(d) + spread * rng.standard_normal((k, d))
    labels = rng.permutation(np.repeat(np.arange(k), counts))
    truth = rng.integers(0, k, n_cases)
    bank = unit(centres[labels] + rng.standard_normal((labels.size, d)))
    cases = unit(centres[truth] + rng.standard_normal((n_cases, d)))
    return Toy(bank.astype(np.float32), labels, k, cases.astype(np.float32), truth, centres)


def on_circle(angle: Float) -> Float:
    """Angles as unit vectors: a distance 1 - cos is then a monotone function of the angle between."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def total_variation(p: Float, q: Float) -> Float:
    return 0.5 * np.abs(np.asarray(p) - np.asarray(q)).sum(axis=-1)
