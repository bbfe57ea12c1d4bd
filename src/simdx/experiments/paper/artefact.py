"""What an artefact finds: tables, drawings, sentences and the numbers behind them, as plain data.

Sentences (`verdicts`) are made from numbers when the artefact runs; nothing here is a conclusion written
beforehand. Everything goes to JSON and back unchanged, so a report needs the record and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

UNDEFINED = "undefined"


class NotRun(Exception):
    """Raised by an artefact that cannot be had here, with the reason in one sentence; no failure."""


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are finished text: `number` and `beside` make them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        # Lists are what callers have at hand; what is kept is frozen and square.
        object.__setattr__(self, "columns", tuple(map(str, self.columns)))
        object.__setattr__(self, "rows", tuple(tuple(map(str, row)) for row in self.rows))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of table '{self.title}' has {len(row)} of {len(self.columns)} cells")


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing as inline SVG in the classes of the report's page, with a caption that stands alone."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one artefact found. `n` counts cases by panel; `notes` say what was left out, and why."""

    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    verdicts: tuple[str, ...] = ()
    n: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "tables": [
                {
                    "title": t.title,
                    "columns": list(t.columns),
                    "rows": [list(r) for r in t.rows],
                    "note": t.note,
                }
                for t in self.tables
            ],
            "figures": [{"name": f.name, "svg": f.svg, "caption": f.caption} for f in self.figures],
            "verdicts": list(self.verdicts),
            "n": {name: int(n) for name, n in self.n.items()},
            "models": list(self.models),
            "data": plain(self.data),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Finding:
        return cls(
            tables=tuple(Table(t["title"], t["columns"], t["rows"], t["note"]) for t in found["tables"]),
            figures=tuple(Figure(f["name"], f["svg"], f["caption"]) for f in found["figures"]),
            verdicts=tuple(found["verdicts"]),
            n=dict(found["n"]),
            models=tuple(found["models"]),
            data=dict(found["data"]),
            notes=tuple(found["notes"]),
        )


# --------------------------------------------------------------------------- cells and numbers


def number(value: float | None, interval: Sequence[float] | None = None, digits: int = 3) -> str:
    """`0.857 [0.812, 0.901]`; a missing or non-finite value says so."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    shown = f"{value:.{digits}f}"
    if interval is None:
        return shown
    return f"{shown} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def beside(ours: str, theirs: float | str | None, digits: int = 3) -> tuple[str, str]:
    """Our cell and the paper's for the same quantity; a dash where the paper gives none."""
    if theirs is None:
        return ours, "–"
    return ours, theirs if isinstance(theirs, str) else f"{theirs:.{digits}f}"


def plain(value: Any) -> Any:
    """JSON-able copy: arrays become lists, numpy scalars Python numbers, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
