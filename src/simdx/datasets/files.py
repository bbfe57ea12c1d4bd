"""Any JSONL, CSV or Parquet file as a data set, with a mapping of its columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from simdx.rows import read_rows
from simdx.types import Case


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
        label = _label(whole, columns, where, labels, wrong, number) if labelled else None
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
    row: Mapping[str, Any],
    columns: Columns,
    where: str,
    labels: Sequence[str] | None,
    wrong: dict[int, str],
    number: int,
) -> str:
    if columns.label not in row:
        raise BadInput(_no_column(where, "label", columns.label, row))
    value = row[columns.label]
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        wrong[number] = "empty or not a string"
        return ""
    value = value.strip()
    if labels is not None and value not in labels:
        wrong[number] = _quoted(value, row, columns)
    return value


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
    rows = f"{len(wrong)} rows" if len(wrong) > 1 else "a row"
    return (
        f"{file}, line {first}: the value of '{column}' is not a label of the panel{known}: "
        f"{rows} in all, {'; '.join(said[:8])}"
    )


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
