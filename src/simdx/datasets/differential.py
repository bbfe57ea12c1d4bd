"""Reference differentials: for a case, a distribution over conditions, some of which the panel may not have.

A data file gives it as `differential`, a list of [label, probability] that sums to one (DDXPlus has one with
every case); in a table, where a cell holds text, as the JSON of that list.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from simdx.types import Float, Int

FIELD = "differential"
SLACK = 1e-3  # how far from one a sum may be: files are rounded


@dataclass(frozen=True, slots=True)
class Differentials:
    """The references of those cases that have one."""

    cases: Int  # their positions in the data set
    inside: Float  # (M, K): what is given to each label of the panel
    outside: Float  # (M,): what is given to all other conditions


def differentials(data: Dataset, labels: Sequence[str]) -> Differentials | None:
    """The data set's references over a panel's labels, spelled as there; None where no case has one."""
    position = {label: i for i, label in enumerate(labels)}
    cases = [i for i, case in enumerate(data.cases) if case.fields.get(FIELD) is not None]
    if not cases:
        return None
    table = np.zeros((len(cases), len(labels) + 1))  # the last column is every other condition
    for row, i in zip(table, cases, strict=True):
        for label, p in _pairs(data.cases[i].fields[FIELD], f"case {i + 1} of {data.name}").items():
            row[position.get(label, -1)] += p
        row /= row.sum()
    return Differentials(np.array(cases), table[:, :-1], table[:, -1])


def _pairs(value: object, where: str) -> dict[str, float]:
    """Label -> probability; what the row says is not repeated in a message."""
    shape = f"{where}: its '{FIELD}' is not a list of [label, probability]"
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise BadInput(shape) from None
    if not isinstance(value, list) or not value:
        raise BadInput(shape)
    found: dict[str, float] = {}
    for pair in value:
        match pair:
            case [str() as label, int() | float() as p] if label.strip() and not isinstance(p, bool):
                if not 0 <= p <= 1 + SLACK:  # nor is NaN
                    raise BadInput(f"{where}: a probability of its '{FIELD}' is not between 0 and 1")
                if label.strip() in found:
                    raise BadInput(f"{where}: its '{FIELD}' names a label twice")
                found[label.strip()] = float(p)
            case _:
                raise BadInput(shape)
    total = sum(found.values())
    if abs(total - 1) > SLACK:
        raise BadInput(f"{where}: its '{FIELD}' sums to {total:.3f}, not to 1")
    return found
