"""What an evaluation found: the record, the curves of its plots, a row for each case, and their groups."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.metrics import confusion, entropy_strata, errors, reliability, risk_coverage, spread, uncertainty
from simdx.metrics.gaps import combined
from simdx.runs import Arrays
from simdx.types import Float, Int, entropy_bits

ACTION_NAMES = ("accept", "likely", "test", "review")
BITS = ("total_bits", "aleatoric_bits", "epistemic_bits")
_MANY_VALUES = 12
POINTS = 200  # of a curve: more would not be seen


@dataclass(frozen=True, slots=True)
class Evaluation:
    record: dict[str, Any]  # the contract's object, with further keys
    curves: dict[str, Any]  # what the plots draw: reliability, risk–coverage, confusion, strata
    labels: tuple[str, ...]
    outcomes: tuple[str, ...]  # the labels and, last, none of these where it was weighed
    dataset: Dataset
    ood: Dataset | None
    label_index: Int
    arrays: Arrays
    ood_arrays: Arrays | None
    fields: dict[str, list[str]]

    def to_json(self) -> dict[str, Any]:
        return self.record

    def rows(self) -> dict[str, list[Any]]:
        """Per-case columns: ids, labels, probabilities, uncertainty and the fields of `by`."""
        table = _columns(self.dataset, self.arrays, self.outcomes)
        predicted = self.arrays["posterior"].argmax(axis=1)
        table["label"] = [case.label for case in self.dataset.cases]
        table["predicted"] = [self.outcomes[i] for i in predicted]
        table["correct"] = (predicted == self.label_index).tolist()
        table["decision"] = [ACTION_NAMES[int(i)] for i in self.arrays["action"]]
        return table | dict(self.fields)

    def ood_rows(self) -> dict[str, list[Any]] | None:
        return None if self.ood is None else _columns(self.ood, self.ood_arrays or {}, self.outcomes)

    def confusion(self) -> Int:
        """(outcomes, outcomes) cases of a label (row) that were given to an outcome (column)."""
        return confusion(self.arrays["posterior"], self.label_index)

    def worst(self, count: int = 10) -> list[int]:
        """Wrong answers, the most confident first (ties in the order of the cases)."""
        p = self.arrays["posterior"]
        wrong = np.flatnonzero(p.argmax(axis=1) != self.label_index)
        return [int(i) for i in wrong[np.argsort(-p[wrong].max(axis=1), kind="stable")][:count]]


def _columns(data: Dataset, arrays: Arrays, outcomes: Sequence[str]) -> dict[str, list[Any]]:
    p = arrays["posterior"]
    table: dict[str, list[Any]] = {"id": [case.id for case in data.cases]}
    for k, outcome in enumerate(outcomes):
        table[f"posterior.{outcome}"] = p[:, k].tolist()
    for outcome, column in zip(outcomes, arrays["among_labels"].T, strict=False):  # none of these is no label
        table[f"among_labels.{outcome}"] = column.tolist()
    table["entropy_bits"] = entropy_bits(p).tolist()
    for name in ("out_of_class", "typicality", "effective_simulations", *BITS, "alpha0"):
        if name in arrays:
            table[name] = arrays[name].tolist()
    return table


def groups_of(dataset: Dataset, entry: str) -> list[str]:
    """Group names for one entry of `by`: a field, or fields crossed as 'sex*site'."""
    parts = [part.strip() for part in entry.split("*")]
    columns = {part: group_names(dataset.field(part)) for part in parts}
    return columns[parts[0]] if len(parts) == 1 else combined(columns, [entry])[entry]


def group_names(values: Sequence[object]) -> list[str]:
    """Group values as strings; a number with many values is cut at its quartiles."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    stated = [v for v in values if v is not None and v != ""]
    if len(numbers) < len(stated) or len(set(numbers)) <= _MANY_VALUES:
        return ["" if v is None else str(v) for v in values]
    edges = np.quantile(numbers, [0.25, 0.5, 0.75])
    cuts = [min(numbers), *edges.tolist(), max(numbers)]
    names = [f"Q{i + 1}: {cuts[i]:g} to {cuts[i + 1]:g}" for i in range(4)]
    return [
        names[int(np.searchsorted(edges, float(v), side="left"))] if isinstance(v, int | float) else ""
        for v in values
    ]


def second_order_spread(arrays: Arrays, wrong: Float) -> dict[str, Any] | None:
    if "aleatoric_bits" not in arrays:
        return None
    sides = {"all": np.ones(len(wrong), bool), "correct": wrong == 0, "wrong": wrong == 1}
    return {
        side: {name: spread(arrays[name][chosen]).as_dict() for name in BITS}
        for side, chosen in sides.items()
    }


def plotted(p: Float, y: Int, outcomes: Sequence[str], k: int) -> dict[str, Any]:
    """Reliability, risk and coverage, confusion and strata of entropy as plain lists, under their keys."""
    table = reliability(p, y)
    curve = risk_coverage(uncertainty(p), errors(p, y))
    step: Int = np.unique(np.linspace(0, max(len(y) - 1, 0), min(len(y), POINTS)).astype(int))
    return {
        "reliability": {f.name: getattr(table, f.name).tolist() for f in fields(table)},
        "risk_coverage": {"coverage": curve.coverage[step].tolist(), "risk": curve.risk[step].tolist()},
        "confusion": {"labels": list(outcomes), "counts": confusion(p, y)[:k].tolist()},
        "strata": entropy_strata(p, y),
    }
