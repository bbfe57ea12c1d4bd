"""Random streams that belong to a case, not to its place in a batch.

A case's generator is keyed by (seed, content hash of the case); counter-based Philox makes any two
keys independent. Engines draw from it in blocks of a fixed size, so neither the batch a case arrives
in nor the number of workers changes what it draws.
"""

from collections.abc import Iterable

import numpy as np
from numpy.random import Generator, Philox

from simdx.types import Float, Int

MASK = 2**64 - 1


def stream(seed: int, key: int) -> Generator:
    """The generator of one case."""
    return Generator(Philox(key=np.array([seed & MASK, key & MASK], dtype=np.uint64)))


class Streams:
    """The generators of a batch of cases, drawn from side by side."""

    def __init__(self, seed: int, keys: Iterable[int]) -> None:
        self.generators = [stream(seed, int(key)) for key in keys]

    def __len__(self) -> int:
        return len(self.generators)

    def uniform(self, cases: Int, *shape: int) -> Float:
        """(len(cases), *shape) uniforms in [0, 1), each row from its own case's stream."""
        out = np.empty((len(cases), *shape))
        for row, case in zip(out, cases, strict=True):
            self.generators[case].random(out=row)
        return out

    def normal(self, cases: Int, *shape: int) -> Float:
        out = np.empty((len(cases), *shape))
        for row, case in zip(out, cases, strict=True):
            self.generators[case].standard_normal(out=row)
        return out


def pick(weight: Float, uniform: Float) -> Int:
    """Inverse-CDF draws per row: weight (A, m) rows summing to one, uniform (A, B) -> (A, B) indices.

    An index of weight zero is never drawn.
    """
    rows, m = weight.shape
    cumulative = np.cumsum(weight, axis=1)
    cumulative /= cumulative[:, -1:]
    offset = 2.0 * np.arange(rows)[:, None]  # rows of one sorted array, two apart so that none touch
    index = np.searchsorted((cumulative + offset).ravel(), (uniform + offset).ravel(), side="right")
    index = index.reshape(uniform.shape) - m * np.arange(rows)[:, None]
    last = m - 1 - np.argmax(weight[:, ::-1] > 0, axis=1)
    return np.minimum(index, last[:, None])
