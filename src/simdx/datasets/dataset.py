"""What every data set becomes: cases, the labels they use, a content hash and a notice about their origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simdx.errors import BadInput
from simdx.types import Case, Int, content_hash


@dataclass(frozen=True, slots=True)
class Dataset:
    """Cases in a fixed order. Out-of-class sets have no labels; `fields` hold what else is known."""

    name: str
    cases: tuple[Case, ...]
    labels: tuple[str, ...]
    notice: str = ""

    @property
    def texts(self) -> list[str]:
        return [case.text for case in self.cases]

    @property
    def hash(self) -> str:
        """Identity of the cases in their order (splits are indices, so order counts)."""
        return content_hash("dataset", *(part for c in self.cases for part in (c.id, c.text, c.label or "")))

    def counts(self) -> dict[str, int]:
        """How many cases each label has; out-of-class cases count for none."""
        found = Counter(case.label for case in self.cases if case.label is not None)
        return {label: found.get(label, 0) for label in self.labels}

    def label_index(self, labels: Iterable[str]) -> Int:
        """Each case's position in `labels`, the panel's order."""
        position: dict[str | None, int] = {label: i for i, label in enumerate(labels)}
        for i, case in enumerate(self.cases):
            if case.label not in position:
                what = "has no label" if case.label is None else "has a label that is not in the panel"
                raise BadInput(f"case {i + 1} of {self.name} {what}")
        return np.array([position[case.label] for case in self.cases], dtype=np.int64)

    def field(self, name: str) -> list[object]:
        """One attribute of every case, None where it is not stated; an unknown attribute is refused."""
        if not any(name in case.fields for case in self.cases):
            known = sorted({key for case in self.cases for key in case.fields})
            has = f"it has {', '.join(known)}" if known else "it has only texts, labels and ids"
            raise BadInput(f"the data set '{self.name}' has no field '{name}'; {has}")
        return [case.fields.get(name) for case in self.cases]

    def subset(self, indices: Iterable[int], name: str | None = None) -> Dataset:
        """The cases at these positions, in the order given."""
        return Dataset(name or self.name, tuple(self.cases[i] for i in indices), self.labels, self.notice)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set with, where it has one, its out-of-class companion."""

    cases: Dataset
    ood: Dataset | None = None
