"""Cross-fitting an archive: a text of it that is asked about is answered by a fit that does not hold it.

The archive is dealt into folds by content; each fold has a fit without its texts, made when first asked for.
A copy with another word in it is another text, and is answered by the fit that holds the first.
"""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from simdx.methods.data import Observations, PanelData
from simdx.methods.reading import OneSlotCache
from simdx.types import Float, Int, content_hash, plain

FOLDS = 5  # fits that an archive costs at most, beside the whole one
T = TypeVar("T")


def fold_of(text: str) -> int:
    """The same fold for the same text, whatever stands beside it."""
    return int(content_hash("archive", plain(text))[:8], 16) % FOLDS


class CrossFitted(Generic[T]):
    """One fit on the whole data, and those that texts of the archive need."""

    def __init__(self, data: PanelData, fit: Callable[[PanelData], T], whole: T | None = None) -> None:
        self._data, self._fit = data, fit
        self.whole = fit(data) if whole is None else whole
        self._without: dict[int, T] = {}
        centre = None if data.real is None else data.real.centre
        self._held = frozenset() if centre is None else centre.texts
        self._fitting = Lock()
        self._last = OneSlotCache()

    def parts(self, observations: Observations) -> list[tuple[Int, Observations, T]]:
        """Positions, the cases there, and who answers them."""
        return self._last.get(observations, lambda: self._divided(observations))

    def join(self, observations: Observations, answer: Callable[[T, Observations], Float]) -> Float:
        """What the parts answer, in the order of the cases."""
        found = [(rows, answer(fitted, part)) for rows, part, fitted in self.parts(observations)]
        if len(found) == 1:
            return found[0][1]
        out = np.empty((len(observations.texts), *found[0][1].shape[1:]), dtype=found[0][1].dtype)
        for rows, values in found:
            out[rows] = values
        return out

    def _divided(self, observations: Observations) -> list[tuple[Int, Observations, T]]:
        texts = observations.texts if observations.of is None else observations.of
        fold = np.full(len(texts), -1, dtype=np.int64)
        if self._held:
            fold[:] = [fold_of(text) if plain(text) in self._held else -1 for text in texts]
        if (fold < 0).all():
            return [(np.arange(len(fold)), observations, self.whole)]
        out: list[tuple[Int, Observations, T]] = []
        for f in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == f)
            out.append((rows, observations.at(rows), self.whole if f < 0 else self._fit_without(f)))
        return out

    def _fit_without(self, fold: int) -> T:
        with self._fitting:  # two threads that ask at once get the same fit, made once
            if fold not in self._without:
                real = self._data.real
                assert real is not None  # a text is held only where there are real cases
                self._without[fold] = self._fit(self._data.with_real(real.without(fold)))
            return self._without[fold]
