"""A bank's texts as dense lexical rows: what is fitted to, and nothing that an answer needs."""

from collections.abc import Sequence

import numpy as np

from simdx.abc.space import Apart
from simdx.methods.lexical import LARGEST_BASIS, LexicalBasis, Lexicon
from simdx.types import Float, Int, Mask


class LexicalSpace:
    """A bank's texts as dense rows of unit length: what is fitted to.

    A row's dot product with another is their centred cosine. `project` turns cosines with the basis into such
    rows; those of other texts are shorter than one by what a text says that no simulation says.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        texts: Sequence[str],
        apart: Apart | None = None,
        places: Int | None = None,
    ) -> None:
        """`places`: where the texts stand among the lexicon's own, if they all do."""
        rows = lexicon.rows(texts) if places is None or lexicon.own is None else lexicon.own.at(places)
        stands_apart = np.zeros(len(rows), dtype=bool) if apart is None else apart.rows
        writer = stands_apart.astype(np.int64)
        self.spanning = _spanning(stands_apart)
        means = None
        if apart is not None or len(self.spanning) < len(rows):
            of_bank = rows.at(np.flatnonzero(~stands_apart)).mean()
            every = np.stack([of_bank, *([] if apart is None else [apart.mean])])
            means = every, writer[self.spanning]
        self.basis = LexicalBasis(
            lexicon, rows.at(self.spanning), None if places is None else places[self.spanning], means
        )
        whole = self.basis.cosines_of(rows, writer)
        gram = whole[self.spanning]
        value, vector = np.linalg.eigh((gram + gram.T) / 2)
        keep = value > 1e-6 * max(float(value[-1]), 1e-12)
        self.project: Float = vector[:, keep] / np.sqrt(value[keep])
        self.bank: Float = whole @ self.project

    def transform(self, texts: Sequence[str]) -> Float:
        """(N, r) other texts in the same coordinates."""
        return self.basis.cosines(texts) @ self.project


def _spanning(stands_apart: Mask) -> Int:
    """Which rows span the space: all, or the bank's first of all, evenly spaced."""
    bank, others = np.flatnonzero(~stands_apart), np.flatnonzero(stands_apart)
    bank = bank[:: max(1, -(-len(bank) // LARGEST_BASIS))]
    left = LARGEST_BASIS - len(bank)
    others = others[:: -(-len(others) // left)] if left > 0 and len(others) else others[:0]
    return np.sort(np.concatenate([bank, others]))
