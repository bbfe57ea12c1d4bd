"""An artefact as a spec, and the one renderer: figures of a record in, tables, drawings and claims out.

A record holds figures alone. `render` makes of them everything that a reader sees, so nothing is a conclusion
written beforehand: a table is rows × columns with the paper's figure beside ours, a sentence is made of figures.
Whether they bear out what the paper claims is decided once, in `paper/claims.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paper.cells import NONE, dagger, doubts, number, quartiles, quoted, ranged
from paper.theirs import Quote, beside
from paper.world import PAPER_NAMES
from simdx.report.plots import Estimate

if TYPE_CHECKING:
    from paper.context import Context


@dataclass(frozen=True, slots=True)
class Measured:
    """What one artefact measured. `n` counts cases by panel; `notes` say what was left out, and why."""

    data: Mapping[str, Any]
    n: Mapping[str, int]
    models: Sequence[str] = ()
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return plain({"n": self.n, "models": self.models, "notes": self.notes, "data": self.data})


class Block(NamedTuple):
    """A part of a record's figures that gets tables, drawings or claims of its own, with words about it."""

    panel: str
    d: Any
    n: Mapping[str, int]

    @property
    def words(self) -> dict[str, Any]:
        more = {k: v for k, v in self.d.items() if isinstance(k, str)} if isinstance(self.d, Mapping) else {}
        return more | {"panel": self.panel, "theirs": PAPER_NAMES.get(self.panel, "")}


Found = Mapping[str, Any]  # what `Measured.to_json` gave
Blocks = Callable[[Found], Iterable[Block]]
Word = str | Callable[[Block], str]


def by_panel(found: Found) -> Iterator[Block]:
    for panel, part in found["data"].items():
        yield Block(panel, part, found["n"])


def as_one(found: Found) -> Iterator[Block]:
    yield Block(next(iter(found["n"]), ""), found["data"], found["n"])


Row = Mapping[str, Any]
Theirs = Callable[[Any], Quote | None]


@dataclass(frozen=True, slots=True)
class Column:
    """A cell of each row: a figure by its path in the row (`scores.accuracy`), or a function of the row.

    With `paper`, a second column holds the paper's figure: that quantity for the row's panel, method and
    setting, or a function of the row. Without `cell` it stands alone.
    """

    head: str
    cell: str | Callable[[Any], Any] | None
    paper: str | Theirs | None = None
    digits: int = 3
    paper_head: str | None = None
    shown: Callable[[Quote], str] | None = None  # of the paper's figure; default: `quoted`
    paper_digits: int | None = None

    @property
    def heads(self) -> list[str]:
        apart = [self.paper_head or f"{self.head}, paper"]
        return apart if self.cell is None else [self.head] + (apart if self.paper else [])

    def cells(self, artefact: str, row: Any, used: list[Quote | None]) -> list[str]:
        cells = []
        if self.cell is not None:
            own = figure(row, self.cell, self.digits) if isinstance(self.cell, str) else self.cell(row)
            cells.append(str(own))
        if self.paper is not None:
            found = beside_row(artefact, self.paper, row) if isinstance(self.paper, str) else self.paper(row)
            used.append(found)
            digits = self.digits if self.paper_digits is None else self.paper_digits
            special = None if self.shown is None or found is None else self.shown(found) + dagger(found)
            cells.append(special or quoted(found, digits))
        return cells


def beside_row(artefact: str, quantity: str, row: Row) -> Quote | None:
    return beside(artefact, quantity, row["panel"], row.get("method"), setting=row.get("setting"))


def figure(row: Any, path: str, digits: int = 3) -> str:
    """A number with the interval the record keeps beside it, or the median of a spread with quartiles."""
    *way, name = path.split(".")
    for step in way:
        row = row[step]
    value = row[name]
    if isinstance(value, Mapping) and "q1" in value:
        return quartiles(value, digits)
    if isinstance(value, Mapping):
        return number(value["value"] if "value" in value else value["median"], value["ci"], digits)
    around = row.get(f"{name}_ci", row["ci"].get(name) if isinstance(row.get("ci"), Mapping) else None)
    return number(value, around, digits)


def keys(heads: str) -> list[Column]:
    """Columns that are words of the row: `method | N=n` is its `method`, and its `n` under the head N."""

    def word(name: str) -> Callable[[Any], Any]:
        return lambda row: NONE if row[name] is None else row[name]

    pairs = (part.strip().rpartition("=") for part in heads.split("|"))
    return [Column(head or name, word(name)) for head, _, name in pairs]


def of_tuples(*heads: str) -> list[Column]:
    """Columns of rows that are tuples of finished cells."""
    return [Column(head, itemgetter(i)) for i, head in enumerate(heads)]


def metrics(
    heads: Mapping[str, str], *, digits: Mapping[str, int] | None = None, paper: bool = True,
    paper_head: str | None = None, at: str = "scores.",
) -> list[Column]:  # fmt: skip
    """A column for each metric of the row's `scores`, beside the paper's."""
    return [
        Column(head, f"{at}{name}", name if paper else None, (digits or {}).get(name, 3), paper_head)
        for name, head in heads.items()
    ]


def ranges(heads: Mapping[str, str], *, paper: bool = True) -> list[Column]:
    """The same for a row's `values` over simulators: mean, least and most."""

    def over(name: str) -> Callable[[Any], str]:
        return lambda row: ranged(row["values"][name])

    return [Column(head, over(name), name if paper else None) for name, head in heads.items()]


temperature = Column("T", lambda row: NONE if row["temperature"] is None else f"{row['temperature']:.2f}")


def named(items: Mapping[str, Row], name: str = "method", **more: str) -> list[dict[str, Any]]:
    """Rows of a mapping, with their keys in them; `more` copies a key under another name."""
    found = [{name: key, **row} for key, row in items.items()]
    return [row | {new: row.get(old) for new, old in more.items()} for row in found]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns; a row knows its panel. What the paper's daggers mean is added to the note."""

    title: Word
    rows: Callable[[Block], Iterable[Any]]
    columns: Sequence[Column] | Callable[[Block], Sequence[Column]]
    note: Word = ""
    each: Blocks | None = None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Inline SVG in the classes of the report's page, with a caption that stands alone."""

    name: str
    draw: Callable[[Block], str]
    caption: Word
    each: Blocks | None = None


class Said(NamedTuple):
    """A sentence; `holds` says whether its figures point the paper's way, None where the paper points nowhere."""

    text: str
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Artefact:
    """One table or figure of the paper: what is measured, and what is shown of it."""

    title: str
    order: int
    measure: Callable[[Context], Measured]
    tables: Sequence[Table]
    claims: Callable[[Block], Iterable[Said | str]]
    drawings: Sequence[Drawing] = ()
    each: Blocks = by_panel
    claims_each: Blocks | None = None
    name: str = field(default="", kw_only=True)  # the file's, given by the catalogue


def render(artefact: Artefact, found: Found) -> dict[str, Any]:
    """Tables, figures and verdicts, finished: what the page and the Markdown show."""
    tables = []
    for each, some in groupby(artefact.tables, lambda one: one.each or artefact.each):
        group = tuple(some)
        tables += [_table(artefact.name, table, block) for block in each(found) for table in group]
    figures = [
        {"name": one.name.format(**b.words), "svg": one.draw(b), "caption": _word(one.caption, b)}
        for one in artefact.drawings
        for b in (one.each or artefact.each)(found)
    ]
    blocks = (artefact.claims_each or artefact.each)(found)
    said = [Said(s) if isinstance(s, str) else s for block in blocks for s in artefact.claims(block)]
    return {"tables": tables, "figures": figures, "verdicts": [one._asdict() for one in said]}


def _table(artefact: str, table: Table, block: Block) -> dict[str, Any]:
    columns = table.columns(block) if callable(table.columns) else table.columns
    used: list[Quote | None] = []
    rows = [{"panel": block.panel, **r} if isinstance(r, Mapping) else r for r in table.rows(block)]
    cells = [[cell for column in columns for cell in column.cells(artefact, row, used)] for row in rows]
    note = f"{_word(table.note, block)} {doubts(used)}".strip()
    heads = [head for column in columns for head in column.heads]
    return {"title": _word(table.title, block), "columns": heads, "rows": cells, "note": note}


def _word(word: Word, block: Block) -> str:
    return word.format(**block.words) if isinstance(word, str) else word(block)


def estimate(name: str, scores: Mapping[str, Any], metric: str, paper: Quote | None = None, style: int = 0) -> Estimate:
    """A row of an interval plot from a set of scores."""
    low, high = scores["ci"][metric] or (None, None)
    return Estimate(name, scores[metric], low, high, None if paper is None else paper.value, style)


def plain(value: Any) -> Any:
    """JSON-able copy: arrays become lists, numpy scalars Python numbers, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
