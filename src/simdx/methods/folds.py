"""A text of the archive that is asked about is answered by a fit that never held it.

The archive is dealt into folds by content; each fold has a fit without its texts, made when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from simdx.methods.base import Material, Observations
from simdx.methods.memo import LastBatch
from simdx.types import Float, Int, content_hash

FOLDS = 5
Fitted = TypeVar("Fitted")


def plain(text: str) -> str:
    """What makes two texts the same one."""
    return " ".join(text.lower().split())


def fold_of(text: str) -> int:
    """The same fold for the same text, whatever stands beside it."""
    return int(content_hash("archive", plain(text))[:8], 16) % FOLDS


class InFolds(Generic[Fitted]):
    """One fit on the whole material, and those that texts of the archive need."""

    def __init__(self, material: Material, fit: Callable[[Material], Fitted]) -> None:
        self._material, self._fit = material, fit
        self.whole = fit(material)
        self._without: dict[int, Fitted] = {}
        real = material.real
        held = () if real is None else real.texts
        inferred = () if real is None else real.inferred
        self._held = {plain(text) for text, known in zip(held, inferred, strict=True) if known}
        self._last = LastBatch()

    def parts(self, observations: Observations) -> list[tuple[Int, Observations, Fitted]]:
        """Positions, the cases there, and who answers them."""
        return self._last.get(observations.texts, lambda: self._divided(observations))

    def join(self, observations: Observations, answer: Callable[[Fitted, Observations], Float]) -> Float:
        """What the parts answer, in the order of the cases."""
        found = [(rows, answer(fitted, part)) for rows, part, fitted in self.parts(observations)]
        out = np.empty((len(observations.texts), *found[0][1].shape[1:]), dtype=found[0][1].dtype)
        for rows, values in found:
            out[rows] = values
        return out

    def _divided(self, observations: Observations) -> list[tuple[Int, Observations, Fitted]]:
        whole_texts = observations.texts if observations.of is None else observations.of
        fold = np.array([fold_of(t) if plain(t) in self._held else -1 for t in whole_texts], dtype=np.int64)
        if (fold < 0).all():
            return [(np.arange(len(fold)), observations, self.whole)]
        out: list[tuple[Int, Observations, Fitted]] = []
        for f in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == f)
            out.append((rows, observations.at(rows), self.whole if f < 0 else self._fit_without(f)))
        return out

    def _fit_without(self, fold: int) -> Fitted:
        if fold not in self._without:
            real = self._material.real
            assert real is not None  # a text is held only where there are real cases
            self._without[fold] = self._fit(self._material.beside(real.only(real.fold != fold)))
        return self._without[fold]
