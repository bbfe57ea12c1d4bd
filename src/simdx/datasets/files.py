"""Any JSONL, CSV or Parquet file as a data set, with a mapping of its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """Read a file of cases; the first malformed row is named by its line number.

    With `labels` (a panel's) any other label is refused. With `labelled=False` labels are not looked for:
    the file is an out-of-class set or one to be classified. Cases without an id are named after their line.
    """
    path = Path(path)
    columns = columns or Columns()
    used = {columns.text, columns.id, *([columns.label] if labelled else [])}
    cases: list[Case] = []
    seen: dict[str, int] = {}
    for number, row in read_rows(path):
        where = f"{path.name}, line {number}"
        text, identity = _text(row, columns, where), f"line-{number}"
        given = identity if columns.id is None else row.get(columns.id, identity)
        if isinstance(given, bool) or not isinstance(given, str | int) or not str(given).strip():
            raise BadInput(
                f"{where}: the id in '{columns.id}' is empty or neither a string nor a whole number"
            )
        label = _label(row, columns, where, labels) if labelled else None
        if (identity := str(given)) in seen:
            raise BadInput(f"{where}: the id in '{columns.id}' was used on line {seen[identity]} already")
        seen[identity] = number
        cases.append(Case(text, identity, label, {k: v for k, v in row.items() if k not in used}))
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


def _label(row: Mapping[str, Any], columns: Columns, where: str, labels: Sequence[str] | None) -> str:
    if columns.label not in row:
        raise BadInput(_no_column(where, "label", columns.label, row))
    value = row[columns.label]
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{where}: the label in '{columns.label}' is empty or not a string")
    value = value.strip()
    if labels is not None and value not in labels:
        # Never the value itself: with the wrong column named it is the case's own words.
        raise BadInput(
            f"{where}: what stands in '{columns.label}' is not a label of the panel ({', '.join(labels)})"
        )
    return value


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
