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

from paper.answers import theirs_name
from paper.cells import METHODS, NONE, dagger, doubts, method_name, number, quoted, ranged, signed
from paper.theirs import Quote, beside, data_of_panel, quotes
from paper.world import PAPER_NAMES
from simdx.report.plots import Estimate, Series, interval_plot, line_plot

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
    whole: Any = None  # all figures of the record
    artefact: str = ""

    def paper(self, quantity: str, method: str | None = None, setting: str | None = None) -> Quote | None:
        """The paper's figure for this panel's counterpart."""
        return beside(self.artefact, quantity, self.panel, method, setting=setting)

    @property
    def words(self) -> dict[str, Any]:
        more = {k: v for k, v in self.d.items() if isinstance(k, str)} if isinstance(self.d, Mapping) else {}
        return more | {"panel": self.panel, "theirs": PAPER_NAMES.get(self.panel, "")}


Found = Mapping[str, Any]  # what `Measured.to_json` gave
Blocks = Callable[[Found], Iterable[Block]]
Word = str | Callable[[Block], str]


def by_panel(found: Found) -> Iterator[Block]:
    for panel, part in found["data"].items():
        yield Block(panel, part, found["data"])


def as_one(found: Found) -> Iterator[Block]:
    yield Block(next(iter(found["n"]), ""), found["data"], found["data"])


def within(name: str) -> Blocks:
    """The panels of one part of the figures."""
    return lambda found: (Block(panel, part, found["data"]) for panel, part in found["data"][name].items())


def alone(name: str, panel: str, **more: str) -> Blocks:
    """One part of the figures, where it is there."""
    return lambda found: [Block(panel, found["data"][name] | more)] if found["data"][name] else []


def methods(name: str) -> Blocks:
    """The methods of each of them."""
    return lambda found: (
        Block(b.panel, one | {"method": method_name(method)}, b.whole)
        for b in within(name)(found)
        for method, one in b.d.items()
    )


def of_rows(name: str = "", *, apart: bool = False) -> Blocks:
    """Rows that know their panel: those of a panel together, or each `apart`."""

    def blocks(found: Found) -> Iterator[Block]:
        part = found["data"][name] if name else found["data"]
        rows = list(part.values() if isinstance(part, Mapping) else part)
        if apart:
            yield from (Block(row["panel"], row, found["data"]) for row in rows)
        else:
            for panel in dict.fromkeys(row["panel"] for row in rows):
                yield Block(panel, [row for row in rows if row["panel"] == panel], found["data"])

    return blocks


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
    below: str | None = None  # the paper's quantity in a row that is all the paper's

    @property
    def heads(self) -> list[str]:
        apart = [self.paper_head or f"{self.head}, paper"]
        return apart if self.cell is None else [self.head] + (apart if self.paper else [])

    def cells(self, artefact: str, row: Any, used: list[Quote | None]) -> list[str]:
        cells = []
        if self.below is not None and row["whose"] == "paper":
            used.append(beside_row(artefact, self.below, row))
            return [quoted(used[-1], self.digits)]
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


def read(row: Any, path: str) -> tuple[Any, Any]:
    """A figure by its path in a row, and the interval that the record keeps with it or beside it."""
    *way, name = path.split(".")
    for step in way:
        row = row[step]
    value, beside_it = row[name], row.get("ci")
    around = row.get(f"{name}_ci", beside_it.get(name) if isinstance(beside_it, Mapping) else None)
    if not isinstance(value, Mapping):
        return value, around
    middle = next(value[key] for key in ("value", "difference", "median") if key in value)
    return middle, (value["q1"], value["q3"]) if "q1" in value else value.get("ci", around)


def figure(row: Any, path: str, digits: int = 3) -> str:
    """A number with its interval or quartiles; a difference that was tested has its sign and its p."""
    value, around = read(row, path)
    tested = row.get(path)
    if isinstance(tested, Mapping) and "p_value" in tested:
        return signed(value, around, tested["p_value"])
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
    heads: Mapping[str, str],
    *,
    digits: Mapping[str, int] | int = 3,
    paper: bool = True,
    paper_head: str | None = None,
    paper_digits: int | None = None,
    at: str = "scores.",
    below: bool = False,
) -> list[Column]:
    """A column for each metric of the row's `scores`, beside the paper's or `below` it in a row of its own."""
    each = dict.fromkeys(heads, digits) if isinstance(digits, int) else digits
    return [
        Column(
            head,
            f"{at}{name}",
            name if paper and not below else None,
            each.get(name, 3),
            paper_head,
            paper_digits=paper_digits,
            below=name if below else None,
        )
        for name, head in heads.items()
    ]


def ranges(heads: Mapping[str, str], *, paper: bool = True) -> list[Column]:
    """The same for a row's `values` over simulators: mean, least and most."""

    def over(name: str) -> Callable[[Any], str]:
        return lambda row: ranged(row["values"][name])

    return [Column(head, over(name), name if paper else None) for name, head in heads.items()]


temperature = Column("T", lambda row: NONE if row["temperature"] is None else f"{row['temperature']:.2f}")


def named(items: Mapping[str, Row], name: str = "method") -> list[dict[str, Any]]:
    """Rows of a mapping, with their keys in them."""
    return [{name: key, **row} for key, row in items.items()]


def nested(b: Block) -> list[dict[str, Any]]:
    """Rows of figures by panel and method; one that only we have is no method of the paper's."""
    return [
        {"panel": panel, "name": method_name(name), "method": METHODS.get(name), "found": one}
        for panel, found in b.d.items()
        for name, one in found.items()
    ]


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

    draw: Callable[[Block], str]
    caption: Word
    each: Blocks | None = None


def estimates(
    title: str,
    axis: str,
    rows: Callable[[Block], Iterable[Estimate]],
    caption: Word,
    x: tuple[float, float] | None = None,
    each: Blocks | None = None,
) -> Drawing:
    """A dot and its interval for each row."""
    return Drawing(lambda b: interval_plot(_word(title, b), axis, list(rows(b)), x=x), caption, each)


def lines(
    title: str,
    labels: tuple[str, str],
    series: Callable[[Block], Sequence[Series]],
    ticks: Mapping[float, str],
    caption: Word,
    x: tuple[float, float] | None = None,
    each: Blocks | None = None,
) -> Drawing:
    """Shares over what varies; the axis ends where the lines do, unless `x` says where."""

    def draw(b: Block) -> str:
        shown = series(b)
        places = [place for line in shown for place in line.x]
        low, high = x or (min(places), max(places))
        kept = [(place, word) for place, word in ticks.items() if low - 0.01 <= place <= high + 0.01]
        return line_plot(_word(title, b), *labels, shown, x=(low, high), y=(0.0, 1.0), x_ticks=kept)

    return Drawing(draw, caption, each)


@dataclass(frozen=True, slots=True)
class Artefact:
    """One table or figure of the paper: what is measured, and what is shown of it."""

    title: str
    order: int
    measure: Callable[[Context], Measured]
    tables: Sequence[Table]
    claims: Callable[[Block], Iterable[str]]
    drawings: Sequence[Drawing] = ()
    each: Blocks = by_panel
    claims_each: Blocks | None = None
    name: str = field(default="", kw_only=True)  # the file's, given by the catalogue


def render(artefact: Artefact, found: Found) -> dict[str, Any]:
    """Tables, figures and verdicts, finished: what the page and the Markdown show."""

    def blocks(each: Blocks | None) -> Iterator[Block]:
        return (block._replace(artefact=artefact.name) for block in (each or artefact.each)(found))

    tables = []
    for each, some in groupby(artefact.tables, lambda one: one.each):
        group = tuple(some)
        tables += [_table(table, block) for block in blocks(each) for table in group]
    figures = [
        {"svg": one.draw(block), "caption": _word(one.caption, block)}
        for one in artefact.drawings
        for block in blocks(one.each)
    ]
    said = [sentence for block in blocks(artefact.claims_each) for sentence in artefact.claims(block)]
    return {"tables": tables, "figures": figures, "verdicts": said}


def _table(table: Table, block: Block) -> dict[str, Any]:
    columns = table.columns(block) if callable(table.columns) else table.columns
    used: list[Quote | None] = []
    rows = [{"panel": block.panel, **r} if isinstance(r, Mapping) else r for r in table.rows(block)]
    cells = [[cell for column in columns for cell in column.cells(block.artefact, row, used)] for row in rows]
    note = f"{_word(table.note, block)} {doubts(used)}".strip()
    heads = [head for column in columns for head in column.heads]
    return {"title": _word(table.title, block), "columns": heads, "rows": cells, "note": note}


def _word(word: Word, block: Block) -> str:
    return word.format(**block.words) if isinstance(word, str) else word(block)


def estimate(name: str, row: Any, path: str, paper: Quote | None = None, style: int = 0) -> Estimate:
    """A row of an interval plot."""
    value, around = read(row, path)
    low, high = around or (None, None)
    return Estimate(name, value, low, high, None if paper is None else paper.value, style)


def by_method(metric: str, style: Callable[[str], int]) -> Callable[[Block], list[Estimate]]:
    """A metric of rows that know their method, beside the paper's of the same."""
    return lambda b: [
        estimate(name, row, metric, b.paper(metric, theirs_name(row["method"])), style(row["method"]))
        for name, row in b.d.items()
    ]


def marked(name: str, points: Mapping[float, tuple[Any, Any]]) -> Series:
    """A line of a plot through what was read at each place, with the intervals."""
    values, around = zip(*points.values(), strict=True)
    return Series(name, list(points), values, marks=True, intervals=around)


def over(sweeps: Mapping[str, Sequence[Any]], x: Callable[[Any], float], path: str) -> list[Series]:
    """A line for each method through the rows of its sweep."""
    return [marked(method_name(m), {x(row): read(row, path) for row in rows}) for m, rows in sweeps.items()]


def their_line(
    b: Block, name: str, quantity: str, at: Callable[[float], float] = float, method: str = "D-SMC"
) -> list[Series]:
    """The paper's figures over its settings, where it has some."""
    found = quotes(b.artefact, data=data_of_panel(b.panel), quantity=quantity, method=method)
    points = {at(float(q.setting)): (q.value, None) for q in found if q.setting}
    return [marked(name, points)] if points else []


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
