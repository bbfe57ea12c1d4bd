"""A few texts of the bank, and what a model says of each: what a voice's temperature is found on.

A small model on a processor needs a minute for one text. Each text's numbers are therefore kept in a file of
their own as soon as they are known, so that a set-up that was stopped goes on where it was, with the seconds
they took, from which the cost of the rest is told. Nothing of a case is kept there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from simdx.disk import CannotWrite, load_arrays, make_folder, save_arrays
from simdx.methods.fitted import Progress
from simdx.models.registry import home
from simdx.types import Bank, Float, Int, content_hash

TEXTS = 12  # in all, evenly over the labels
LEAST_OF_A_LABEL = 2
QUICK = 40  # of a label, where a GPU scores them in seconds: rare errors set the temperature
WORDS = 300  # of a text that are read


def texts_of_a_label(labels: int, quick: bool) -> int:
    return QUICK if quick else max(LEAST_OF_A_LABEL, -(-TEXTS // labels))


def rehearsed(bank: Bank, quick: bool) -> Int:
    """Rows of a few texts of each label, the same ones whatever the bank's order."""
    each = texts_of_a_label(len(bank.labels), quick)
    order = sorted(range(len(bank.texts)), key=lambda i: content_hash("rehearsed", bank.texts[i]))
    labels = bank.label_index
    chosen = [i for k in range(len(bank.labels)) for i in [j for j in order if labels[j] == k][:each]]
    return np.array(chosen, dtype=int)


class Rehearsal:
    """(n, width) numbers about those texts. `make` is given texts and yields (position, numbers) of each."""

    def __init__(
        self,
        bank: Bank,
        about: Sequence[str],
        width: int,
        make: Callable[[list[str]], Iterable[tuple[int, Float]]],
        quick: bool,
    ) -> None:
        """`about` is everything but the text that the numbers depend on."""
        rows = rehearsed(bank, quick)
        self.truth = bank.label_index[rows]
        self.texts = [" ".join(bank.texts[i].split()[:WORDS]) for i in rows]
        self._width, self._make = width, make
        self._paths = [
            home() / "scores" / f"{content_hash('rehearsed', *about, text)}.safetensors"
            for text in self.texts
        ]
        self._known: dict[int, Float] = {}
        self._seconds: dict[int, float] = {}
        for i, path in enumerate(self._paths):
            kept = load_arrays(path) or {}
            numbers, seconds = kept.get("scores"), kept.get("seconds")
            if (
                numbers is not None
                and seconds is not None
                and numbers.shape == (width,)
                and seconds.shape == (1,)
                and np.isfinite(numbers).all()
            ):
                self._known[i], self._seconds[i] = np.asarray(numbers, dtype=float), float(seconds[0])

    @property
    def missing(self) -> list[int]:
        return [i for i in range(len(self.texts)) if i not in self._known]

    @property
    def seconds_a_word(self) -> float | None:
        """The median over the known texts (a busy machine takes long for some); None where there are none."""
        each = [spent / max(1, len(self.texts[i].split())) for i, spent in self._seconds.items()]
        return float(np.median(each)) if each else None

    def seconds_left(self) -> float | None:
        each = self.seconds_a_word
        return None if each is None else each * sum(len(self.texts[i].split()) for i in self.missing)

    def numbers(self, progress: Progress | None = None) -> Float:
        """All of them, made where they are missing."""
        missing = self.missing
        last = time.monotonic()
        for at, numbers in self._make([self.texts[i] for i in missing]) if missing else ():
            i, now = missing[at], time.monotonic()
            self._known[i], self._seconds[i], last = np.asarray(numbers, dtype=float), now - last, now
            try:
                make_folder(self._paths[i].parent)
                taken = np.array([self._seconds[i]])
                save_arrays(self._paths[i], {"scores": self._known[i], "seconds": taken})
            except CannotWrite:
                pass  # a cache folder that cannot be written costs time, not the answer
            if progress is not None:
                progress(len(self._known), len(self.texts))
        return np.array([self._known[i] for i in range(len(self.texts))]).reshape(-1, self._width)
