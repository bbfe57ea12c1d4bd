"""What an evaluation found: the record, the curves of its plots, a row for each case, and their groups.

Two runs on the same cases are compared by paired differences, the second's metric less the first's. They are
two methods of one classifier (`evaluate --compare`), or what `evaluate --out` wrote (`simdx compare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simdx import metrics
from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from simdx.metrics.gaps import combined
from simdx.rows import read_rows
from simdx.runs import Arrays
from simdx.types import NONE_OF_THESE, Float, Int, entropy_bits

ACTION_NAMES = ("accept", "likely", "test", "review")
BITS = ("total_bits", "aleatoric_bits", "epistemic_bits")
_MANY_VALUES = 12
POINTS = 200  # of a curve: more would not be seen
METRICS = ("accuracy", "macro_f1", "brier", "nll", "ece", "auroc", "error_auroc", "e_aurc")  # compared
_POSTERIOR = "posterior."


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
        return metrics.confusion(self.arrays["posterior"], self.label_index)

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
        side: {name: metrics.spread(arrays[name][chosen]) for name in BITS} for side, chosen in sides.items()
    }


def plotted(p: Float, y: Int, outcomes: Sequence[str], k: int) -> dict[str, Any]:
    """Reliability, risk and coverage, confusion and strata of entropy as plain lists, under their keys."""
    table = metrics.reliability(p, y)
    coverage, risk = metrics.risk_coverage(metrics.uncertainty(p), metrics.errors(p, y))
    step: Int = np.unique(np.linspace(0, max(len(y) - 1, 0), min(len(y), POINTS)).astype(int))
    return {
        "reliability": {name: values.tolist() for name, values in table.items()},
        "risk_coverage": {"coverage": coverage[step].tolist(), "risk": risk[step].tolist()},
        "confusion": {"labels": list(outcomes), "counts": metrics.confusion(p, y)[:k].tolist()},
        "strata": metrics.entropy_strata(p, y),
    }


# --------------------------------------------------------------------------- two runs on the same cases


@dataclass(frozen=True, slots=True)
class Run:
    """Labelled cases and the posterior of each; no text."""

    name: str
    ids: tuple[str, ...]
    truth: tuple[str, ...]
    labels: tuple[str, ...]  # and none of these where it was weighed
    posterior: Float

    @classmethod
    def of(cls, name: str, found: Evaluation) -> Run:
        cases = found.dataset.cases
        truth = tuple(str(case.label) for case in cases)
        return cls(name, tuple(case.id for case in cases), truth, found.outcomes, found.arrays["posterior"])

    @classmethod
    def read(cls, folder: Path) -> Run:
        """What `simdx evaluate --out` wrote there."""
        path = folder / "cases.parquet"
        if not path.is_file():
            raise BadInput(f"{folder} holds no cases.parquet: give what 'simdx evaluate --out' wrote")
        rows = [row for _, row in read_rows(path)]
        keys = rows[0] if rows else {}
        labels = tuple(key.removeprefix(_POSTERIOR) for key in keys if key.startswith(_POSTERIOR))
        try:
            posterior = np.array([[float(row[_POSTERIOR + label]) for label in labels] for row in rows])
            ids, truth = (tuple(str(row[key]) for row in rows) for key in ("id", "label"))
        except (KeyError, TypeError, ValueError):
            raise BadInput(f"{path} is not a table of answers that 'simdx evaluate --out' wrote") from None
        if not labels or not set(truth) <= set(labels):
            raise BadInput(f"{path} is not a table of answers that 'simdx evaluate --out' wrote")
        return cls(folder.name, ids, truth, labels, posterior)

    def like(self, other: Run) -> Run:
        """The same answers in the other's order of cases."""
        if (set(self.labels) ^ set(other.labels)) - {NONE_OF_THESE}:
            raise BadInput(f"the runs '{other.name}' and '{self.name}' have different labels: use one panel")
        place = {case: i for i, case in enumerate(self.ids)}
        if len(place) != len(self.ids) or set(place) != set(other.ids) or len(other.ids) != len(self.ids):
            raise BadInput(f"the runs '{other.name}' and '{self.name}' are not of the same cases (by id)")
        rows = np.array([place[case] for case in other.ids], dtype=np.int64)
        if tuple(self.truth[i] for i in rows) != other.truth:
            raise BadInput(f"the runs '{other.name}' and '{self.name}' give the same ids other labels")
        return Run(self.name, other.ids, other.truth, self.labels, self.posterior[rows])

    def over(self, labels: tuple[str, ...]) -> Float:
        """The posteriors with these columns; one that does not weigh none of these gives it nothing."""
        own = dict(zip(self.labels, self.posterior.T, strict=True))
        return np.stack([own.get(label, np.zeros(len(self.posterior))) for label in labels], axis=1)


def paired(first: Run, second: Run, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Both runs' metrics, and each difference with its interval and p-value."""
    second = second.like(first)
    labels = tuple(label for label in first.labels if label != NONE_OF_THESE)
    either = (*labels, NONE_OF_THESE) if NONE_OF_THESE in (*first.labels, *second.labels) else labels
    y = np.array([labels.index(label) for label in first.truth], dtype=np.int64)
    one, two = first.over(either), second.over(either)
    found = metrics.paired_bootstrap(
        one, two, y, labels=len(labels), metrics=METRICS, resamples=resamples, rng=np.random.default_rng(seed)
    )
    measured = [metrics.headline_values(p, y, len(labels)) for p in (one, two)]
    values = [{name: of[name].value for name in METRICS} for of in measured]
    return {
        "n": len(y),
        "first": {"run": first.name, **values[0]},
        "second": {"run": second.name, **values[1]},
        "difference": {
            name: {
                "difference": d.value,
                "low": d.low,
                "high": d.high,
                "p_value": d.p_value,
                "reason": d.reason,
            }
            for name, d in found.items()
        },
        "resamples": resamples,
    }


def lines(found: dict[str, Any]) -> Sequence[str]:
    def shown(value: float | None) -> str:
        return "undefined" if value is None else f"{value:.3f}"

    one, two = found["first"], found["second"]
    out = [f"{one['run']} and {two['run']} on {found['n']} cases; difference: second minus first"]
    for name, d in found["difference"].items():
        interval = "" if d["low"] is None else f" [{d['low']:+.3f}, {d['high']:+.3f}], p {d['p_value']:.3g}"
        difference = "undefined" if d["difference"] is None else f"{d['difference']:+.3f}"
        out.append(f"  {name:12} {shown(one[name]):>9} {shown(two[name]):>9}   {difference}{interval}")
    return out
