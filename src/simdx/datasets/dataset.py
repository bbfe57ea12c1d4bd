"""What every data set becomes: cases, the labels they use, a content hash and a notice about their origin."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from simdx.errors import BadInput
from simdx.rows import read_rows
from simdx.types import NONE_OF_THESE, Case, Float, Int, content_hash


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

    def apart(self, labels: Sequence[str]) -> tuple[Dataset, Dataset | None]:
        """The cases of these labels, and those that are labelled as none of these, without that label."""
        inside = tuple(case for case in self.cases if case.label != NONE_OF_THESE)
        outside = tuple(replace(case, label=None) for case in self.cases if case.label == NONE_OF_THESE)
        if not inside:
            raise BadInput(f"every case of {self.name} is labelled '{NONE_OF_THESE}': some need a label")
        others = Dataset(f"{self.name}, {NONE_OF_THESE}", outside, (), self.notice) if outside else None
        return Dataset(self.name, inside, tuple(labels), self.notice), others

    def subset(self, indices: Iterable[int], name: str | None = None) -> Dataset:
        """The cases at these positions, in the order given."""
        return Dataset(name or self.name, tuple(self.cases[i] for i in indices), self.labels, self.notice)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set with, where it has one, its out-of-class companion."""

    cases: Dataset
    ood: Dataset | None = None


# --------------------------------------------------------------------------- options of a case
#
# Questions with their own options: the labels that one case may have.


def options_of(case: Case, field: str) -> tuple[str, ...]:
    """The options in a field of a case: a list, or one string with | between them (CSV)."""
    value = case.fields.get(field)
    parts = value.split("|") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        raise BadInput(f"a case's '{field}' is neither a list of labels nor labels with | between them")
    return tuple(dict.fromkeys(part.strip() for part in parts))


def check_options(dataset: Dataset, field: str, labels: Sequence[str]) -> None:
    """Refuse options that are no labels of the panel, fewer than two, or without the case's own label."""
    dataset.field(field)
    for i, case in enumerate(dataset.cases):
        options = options_of(case, field)
        where = f"case {i + 1} of {dataset.name}"
        if not set(options) <= set(labels):  # never the value: the wrong column may hold a case's own words
            raise BadInput(f"{where}: the values of '{field}' are not all labels of the panel")
        if len(options) < 2:
            raise BadInput(f"{where}: a question needs at least two options")
        if case.label not in options:
            raise BadInput(f"{where}: its label is not among its options")


# --------------------------------------------------------------------------- splits
#
# A data set dealt into parts: stratified by label, no text on two sides.
#
# Cases whose text is the same, spaces and case aside, form one unit, which goes to one part as a whole. Units
# are shuffled within their label and dealt to the part that is furthest below its share.


def make_splits(
    dataset: Dataset, shares: Mapping[str, float], *, seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """Each part's cases, as sorted indices; the shares must sum to one."""
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise BadInput("the shares of a split must be positive and sum to one")
    units: dict[str, list[int]] = {}
    for i, case in enumerate(dataset.cases):
        units.setdefault(" ".join(case.text.lower().split()), []).append(i)
    rng = np.random.default_rng([seed, int(dataset.hash[:8], 16)])
    strata: dict[str, list[list[int]]] = {}
    for unit in units.values():
        # a unit's stratum is its commonest label, the first in the alphabet on a tie
        tally = Counter(dataset.cases[i].label or "" for i in unit)
        strata.setdefault(min(tally, key=lambda label: (-tally[label], label)), []).append(unit)
    parts: dict[str, list[int]] = {name: [] for name in shares}
    for label in sorted(strata):
        members = strata[label]
        # large units first: a small one can still mend the balance afterwards
        order = sorted(rng.permutation(len(members)).tolist(), key=lambda i: -len(members[i]))
        total, dealt = sum(map(len, members)), dict.fromkeys(shares, 0)
        for i in order:
            # furthest below its share of this label; on a tie, of the whole
            below = {
                name: (share * total - dealt[name], share * len(dataset.cases) - len(parts[name]))
                for name, share in shares.items()
            }
            chosen = max(below, key=below.__getitem__)
            parts[chosen].extend(members[i])
            dealt[chosen] += len(members[i])
    return {name: tuple(sorted(part)) for name, part in parts.items()}


# --------------------------------------------------------------------------- reference differentials
#
# For a case, a distribution over conditions, some of which the panel may not have. A data file gives it as
# `differential`, a list of [label, probability] that sums to one (DDXPlus has one with every case); in a
# table, where a cell holds text, as the JSON of that list.

DIFFERENTIAL = "differential"
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
    cases = [i for i, case in enumerate(data.cases) if case.fields.get(DIFFERENTIAL) is not None]
    if not cases:
        return None
    table = np.zeros((len(cases), len(labels) + 1))  # the last column is every other condition
    for row, i in zip(table, cases, strict=True):
        for label, p in _pairs(data.cases[i].fields[DIFFERENTIAL], f"case {i + 1} of {data.name}").items():
            row[position.get(label, -1)] += p
        row /= row.sum()
    return Differentials(np.array(cases), table[:, :-1], table[:, -1])


def _pairs(value: object, where: str) -> dict[str, float]:
    """Label -> probability; what the row says is not repeated in a message."""
    shape = f"{where}: its '{DIFFERENTIAL}' is not a list of [label, probability]"
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
                    raise BadInput(f"{where}: a probability of its '{DIFFERENTIAL}' is not between 0 and 1")
                if label.strip() in found:
                    raise BadInput(f"{where}: its '{DIFFERENTIAL}' names a label twice")
                found[label.strip()] = float(p)
            case _:
                raise BadInput(shape)
    total = sum(found.values())
    if abs(total - 1) > SLACK:
        raise BadInput(f"{where}: its '{DIFFERENTIAL}' sums to {total:.3f}, not to 1")
    return found


# --------------------------------------------------------------------------- from a file


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds what; every other column becomes a field of the case."""

    text: str = "text"
    label: str = "label"
    id: str | None = "id"  # None: rows are known by their lines


def read_cases(
    path: str | Path,
    *,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    labelled: bool = True,
    name: str | None = None,
    notice: str = "",
) -> Dataset:
    """Read a file of cases; malformed rows are named by their line numbers, all wrong labels at once.

    With `labels` (a panel's) any other label is refused. With `labelled=False` labels are not looked for:
    the file is an out-of-class set or one to be classified. Cases without an id are named after their line.
    """
    path = Path(path)
    columns = columns or Columns()
    used = {columns.text, columns.id, *([columns.label] if labelled else [])}
    cases: list[Case] = []
    seen: dict[str, int] = {}
    wrong: dict[int, str] = {}  # what is wrong with the label on a line
    for number, whole in read_rows(path, keep_empty=True):
        where = f"{path.name}, line {number}"
        text, identity = _text(whole, columns, where), f"line-{number}"
        row = {key: value for key, value in whole.items() if value != ""}  # an empty cell says nothing
        if columns.id not in (None, "id", *whole):
            raise BadInput(_no_column(where, "id", str(columns.id), whole))
        given = identity if columns.id is None else row.get(columns.id, identity)
        if isinstance(given, bool) or not isinstance(given, str | int) or not str(given).strip():
            raise BadInput(
                f"{where}: the id in '{columns.id}' is empty or neither a string nor a whole number"
            )
        label, problem = _label(whole, columns, where, labels) if labelled else (None, "")
        wrong |= {number: problem} if problem else {}
        if (identity := str(given)) in seen and not wrong:  # a wrong column for labels is told first
            raise BadInput(f"{where}: the id in '{columns.id}' was used on line {seen[identity]} already")
        seen[identity] = number
        cases.append(Case(text, identity, label, {k: v for k, v in row.items() if k not in used}))
    if wrong:
        raise BadInput(_wrong_labels(path.name, wrong, columns.label, labels))
    if not cases:
        raise BadInput(f"{path.name} has no rows")
    order = labels if labels is not None else sorted({c.label for c in cases if c.label is not None})
    return Dataset(name or path.stem, tuple(cases), tuple(order), notice)


def _text(row: Mapping[str, Any], columns: Columns, where: str) -> str:
    if columns.text not in row:
        raise BadInput(_no_column(where, "text", columns.text, row))
    text = row[columns.text]
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"{where}: the text in '{columns.text}' is empty or not a string")
    if len(text) > 1_000_000:
        raise BadInput(f"{where}: the text has more than a million characters")
    return text


def _label(
    row: Mapping[str, Any], columns: Columns, where: str, labels: Sequence[str] | None
) -> tuple[str, str]:
    """The label of a row, and what is wrong with it."""
    if columns.label not in row:
        raise BadInput(_no_column(where, "label", columns.label, row))
    value = row[columns.label]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        return "", "empty or not a string"
    label = str(value).strip()
    if labels is not None and label not in labels and label.casefold() == NONE_OF_THESE in labels:
        label = NONE_OF_THESE
    return label, "" if labels is None or label in labels else _quoted(label, row, columns)


def _quoted(value: str, row: Mapping[str, Any], columns: Columns) -> str:
    """A label as it is told. With the wrong column named it is the case's own words: those are not told."""
    is_name = len(value) <= 40 and len(value.split()) <= 4 and not value.endswith((".", "?", "!"))
    inside = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", str(row.get(columns.text)))
    own = columns.label in (columns.text, columns.id) or inside is not None
    return f"'{value}'" if is_name and not own else "other words"


def _wrong_labels(file: str, wrong: Mapping[int, str], column: str, labels: Sequence[str] | None) -> str:
    """Every row with a wrong label: the first lines of each kind, and the label that may be meant."""
    lines: dict[str, list[int]] = {}
    for number, what in wrong.items():
        lines.setdefault(what, []).append(number)
    first = next(iter(wrong))
    if list(lines) == ["empty or not a string"]:
        also = f", and on {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return f"{file}, line {first}: the label in '{column}' is empty or not a string{also}"
    said = []
    for what, where in lines.items():
        near = get_close_matches(what.strip("'"), labels or (), n=1, cutoff=0.7) if what[0] == "'" else []
        meant = f" (did you mean '{near[0]}'?)" if near else ""
        said.append(f"{what} on line {', '.join(map(str, where[:5]))}{' …' * (len(where) > 5)}{meant}")
    known = f" ({', '.join(labels)})" if labels else ""
    refused = f"is not a label of the panel{known}"
    if len(wrong) == 1:
        lone = f"{wrong[first]} on line {first}"  # what follows it is the label that may be meant
        value = f"{wrong[first]} in '{column}'" if wrong[first][0] == "'" else f"the value of '{column}'"
        return f"{file}, line {first}: {value} {refused}{said[0].removeprefix(lone)}"
    shown = "; ".join(said[:8])
    return f"{file}, line {first}: the value of '{column}' {refused}: {len(wrong)} rows in all, {shown}"


def _no_column(where: str, role: str, wanted: str, row: Mapping[str, Any]) -> str:
    """The error for a missing column; it names the columns that exist."""
    # In a file without a header the first case stands where the names should: only what looks like a name is.
    names = [str(name) for name in row if len(str(name)) <= 30 and len(str(name).split()) <= 2]
    if len(names) < len(row) or not row:
        return f"{where}: no column '{wanted}': the first line of a table must name its columns"
    there = ", ".join(f"'{name}'" for name in names[:8])
    commas = ""
    if len(row) == 1 and any(mark in str(next(iter(row))) for mark in ";\t|"):
        commas = "save the file with commas between its columns"
    mend = f"call one of them '{wanted}', or say which with --{role}-column where the command takes it"
    return f"{where}: no column '{wanted}', only {there}: {commas or mend}"
