"""Pools are drawn at random from the packaged banks (both files together), several for each size, and from
the banks that models wrote where there are any (`{panel}-{model}`, and `{panel}-{model}-n1000` for one
that was written for this question alone). A bank cannot give more texts than it has: where a size asks for
more, the pool is the whole bank, the row says how many distinct texts there were, and nothing is repeated
to fill it up."""

from collections.abc import Iterator
from math import log10
from typing import Any

from paper.cells import METHODS, number, ours, several
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Drawing, Found, Table, keys
from paper.theirs import beside, data_of_panel, quotes
from paper.world import REFERENCE
from simdx.report.plots import Series, line_plot

NAME = "pool-size"
SIZES, LARGEST, LARGEST_PANEL = (3, 10, 30, 50, 100, 500), 1000, "oral-lesions"  # the paper's panel
PAPER_SIZES = (3, 50, 500, LARGEST)
COMPARED = ("d-smc", "m-smc")
HEADS = {"accuracy": "accuracy", "macro_f1": "F1", "auroc": "AUROC", "brier": "Brier", "ece": "ECE"}
HEADS |= {"entropy_bits": "entropy"}


def by_panel(found: Found) -> Iterator[Block]:
    rows = found["data"]["rows"]
    for panel in dict.fromkeys(row["panel"] for row in rows):
        yield Block(panel, [row for row in rows if row["panel"] == panel], found["n"])


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for row in b.d:
        low, high = row["distinct"]
        texts = str(low) if low == high else f"{low} to {high}"
        yield row | {"method": METHODS[row["method"]], "setting": str(row["size"]), "texts": texts}


def accuracy(row: dict[str, Any]) -> str:
    low, high = row["accuracy_range"]
    over = f"{number(mean(row))} ({low:.3f} to {high:.3f} over {row['pools']} pools)"
    return ours(row["first"], "accuracy") if row["pools"] == 1 else over


def metric(name: str, head: str) -> Column:
    return Column(head, f"means.{name}", name, paper_head="paper", paper_digits=2)


def mean(row: dict[str, Any]) -> float:
    return row["means"]["accuracy"]


def of(b: Block, method: str, bank: str = REFERENCE) -> list[dict[str, Any]]:
    return [row for row in b.d if row["method"] == method and row["bank"] == bank]


def drawn(b: Block) -> str:
    series = []
    for method in COMPARED:
        for bank in dict.fromkeys(row["bank"] for row in b.d):
            held = {r["distinct"][1]: r for r in of(b, method, bank)}  # rows beyond the bank's end are one
            name = METHODS[method] if bank == REFERENCE else f"{METHODS[method]}, {bank}"
            y, around = [mean(r) for r in held.values()], [r["accuracy_range"] for r in held.values()]
            series.append(Series(name, [log10(size) for size in held], y, marks=True, intervals=around))
    if paper := [q for q in quotes(NAME, data=data_of_panel(b.panel), quantity="accuracy") if q.setting]:
        x = [log10(float(q.setting or 1)) for q in paper]
        series.append(Series("the paper's D-SMC", x, [q.value for q in paper], marks=True))
    least, most = (end(value for s in series for value in s.x) for end in (min, max))
    ticks = [(log10(size), str(size)) for size in (3, 10, 30, 100, 300, 1000)]
    shown = [tick for tick in ticks if least - 0.01 <= tick[0] <= most + 0.01]
    axes = (f"Accuracy by pool size, {b.panel}", "distinct simulations per label", "accuracy")
    return line_plot(*axes, series, x=(least, most), y=(0.0, 1.0), x_ticks=shown)


def claims(b: Block) -> Iterator[str]:
    parts = []
    for method in COMPARED:
        own = of(b, method)
        three, fifty, last = (mean(row) for row in (own[0], next(r for r in own if r["size"] == 50), own[-1]))
        parts.append(f"{METHODS[method]} reaches {three:.3f} with 3 per label, {fifty:.3f} with 50 and {last:.3f} "
                     f"with all ({last - fifty:+.3f} beyond 50)")
    paper = beside(NAME, "accuracy", b.panel, "D-SMC", setting="3")
    tail = f"; the paper's D-SMC has {paper.value:.3f} with 3 and is level from 50 on" if paper else ""
    yield f"{b.panel}: {several(parts)}{tail}."
    # What the paper's sizes give in each bank that holds more of them than the packaged one.
    packaged, most = (max(row["distinct"][1] for row in some) for some in (of(b, "d-smc"), b.d))
    held = [row for row in b.d if row["distinct"][0] >= row["size"] and row["size"] in PAPER_SIZES]
    for bank in dict.fromkeys(row["bank"] for row in held if row["size"] > packaged):
        steps = {m: several([f"{mean(r):.3f} with {r['size']}" for r in held
                             if r["bank"] == bank and r["method"] == m]) for m in COMPARED}
        parts = [f"{METHODS[method]} {some} per label" for method, some in steps.items()]
        yield f"{b.panel}, simulations of {bank}: {several(parts)}."
    if short := sorted({row["size"] for row in b.d if row["size"] > most}):
        yield (f"{b.panel}: pools of {several([str(size) for size in short])} per label could not be made: the "
               f"largest bank has {most} distinct texts of a label, and what these rows show is that bank.")


ARTEFACT = Artefact(
    "How many simulations? Pools of 3, 50, 500 and, where there are so many, 1000 per label (table S18)", 450,
    lambda context: ablations.pool_size(context, SIZES, tuple(HEADS), LARGEST, LARGEST_PANEL), each=by_panel,
    tables=(
        Table("{panel}", rows,
              (*keys("method | bank | asked for per label=size | distinct texts per label=texts"),
               Column("accuracy", accuracy, "accuracy", paper_head="paper"),
               *(metric(name, head) for name, head in HEADS.items() if name != "accuracy")),
              "Means over pools with the range of accuracy; one pool, with its 95 % bootstrap, where the pool is "
              "the whole bank. Rows that ask for more than the bank has all hold the same texts."),
    ),
    drawings=(Drawing("pool-{panel}", drawn,
                      "{panel}: mean accuracy over random pools, bars from the worst to the best pool."),),
    claims=claims,
)
