"""An artefact as a spec, and the one renderer: figures of a record in, tables, drawings and claims out.

A record holds figures alone. `render` makes of them everything that a reader sees, so nothing is a conclusion
written beforehand: a table is rows × columns with the paper's figure beside ours, a claim is a sentence with
the rule that decides what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paper.cells import NONE, agreement, doubts, ours, quoted, ranged
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


@dataclass(frozen=True, slots=True)
class Column:
    """A cell of each row; with `paper`, a second column holds the paper's figure for the same, and without
    `cell` that one stands alone."""

    head: str
    cell: Callable[[Any], Any] | None
    paper: Callable[[Any], Quote | None] | None = None
    digits: int = 3
    paper_head: str | None = None
    shown: Callable[[Quote | None], str] | None = None  # of the paper's figure; default: `quoted`

    @property
    def heads(self) -> list[str]:
        apart = [self.paper_head or f"{self.head}, paper"]
        return apart if self.cell is None else [self.head] + (apart if self.paper else [])

    def cells(self, row: Any, used: list[Quote | None]) -> list[str]:
        cells = [] if self.cell is None else [str(self.cell(row))]
        if self.paper is not None:
            found = self.paper(row)
            used.append(found)
            cells.append(self.shown(found) if self.shown else quoted(found, self.digits))
        return cells


def key(head: str, name: str) -> Column:
    """A column that is a word of the row."""
    return Column(head, lambda row: NONE if row[name] is None else row[name])


def keys(heads: str) -> list[Column]:
    """Several of them: `method | N=n` is the row's `method`, and its `n` under the head N."""
    pairs = (part.strip().partition("=") for part in heads.split("|"))
    return [key(head, name or head) for head, _, name in pairs]


def of_tuples(*heads: str) -> list[Column]:
    """Columns of rows that are tuples of finished cells."""
    return [Column(head, itemgetter(i)) for i, head in enumerate(heads)]


def metrics(
    artefact: str, heads: Mapping[str, str], *, digits: Mapping[str, int] | None = None,
    paper_head: str | None = None, paper: bool = True,
) -> tuple[Column, ...]:  # fmt: skip
    """A column for each metric of the row's `scores`, beside the paper's of its method and setting."""

    def column(metric: str, head: str) -> Column:
        n = (digits or {}).get(metric, 3)

        def theirs(row: Any) -> Quote | None:
            return beside(artefact, metric, row["panel"], row.get("method"), setting=row.get("setting"))

        return Column(
            head, lambda row: ours(row["scores"], metric, n), theirs if paper else None, n, paper_head
        )

    return tuple(column(metric, head) for metric, head in heads.items())


def ranges(artefact: str, heads: Mapping[str, str], *, paper: bool = True) -> tuple[Column, ...]:
    """The same for a row's `values` over simulators: mean, least and most."""

    def column(metric: str, head: str) -> Column:
        def theirs(row: Any) -> Quote | None:
            return beside(artefact, metric, row["panel"], row["method"])

        return Column(head, lambda row: ranged(row["values"][metric]), theirs if paper else None)

    return tuple(column(metric, head) for metric, head in heads.items())


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns. What the daggers of the paper's figures mean is added to the note."""

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
    """A sentence; `holds` says whether what the paper claims is borne out, None where it claims nothing."""

    text: str
    holds: bool | None = None


def claim(holds: bool, text: str) -> Said:
    """A sentence about something the paper claims: `@` becomes "as in the paper" or "unlike the paper"."""
    return Said(text.replace("@", agreement(holds)), bool(holds))


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
        tables += [_table(table, block) for block in each(found) for table in group]
    figures = [
        {"name": one.name.format(**b.words), "svg": one.draw(b), "caption": _word(one.caption, b)}
        for one in artefact.drawings
        for b in (one.each or artefact.each)(found)
    ]
    blocks = (artefact.claims_each or artefact.each)(found)
    said = [Said(s) if isinstance(s, str) else s for block in blocks for s in artefact.claims(block)]
    return {"tables": tables, "figures": figures, "verdicts": [one._asdict() for one in said]}


def _table(table: Table, block: Block) -> dict[str, Any]:
    columns = table.columns(block) if callable(table.columns) else table.columns
    used: list[Quote | None] = []
    rows = [[c for column in columns for c in column.cells(row, used)] for row in table.rows(block)]
    note = f"{_word(table.note, block)} {doubts(used)}".strip()
    heads = [head for column in columns for head in column.heads]
    return {"title": _word(table.title, block), "columns": heads, "rows": rows, "note": note}


def _word(word: Word, block: Block) -> str:
    return word.format(**block.words) if isinstance(word, str) else word(block)


def estimate(
    name: str, scores: Mapping[str, Any], metric: str, paper: Quote | None = None, style: int = 0
) -> Estimate:
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
