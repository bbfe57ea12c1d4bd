"""How many simulations? Pools of 3, 50, 500 and, where there are so many, 1000 per label (table S18).

Pools are drawn at random from the packaged banks (both files together), several for each size, and from the
banks that models wrote where there are any (`{panel}-{model}`, and `{panel}-{model}-n1000` for one that was
written for this question alone). A bank cannot give more texts than it has: where a size asks for
more, the pool is the whole bank, the row says how many distinct texts there were, and nothing is repeated to
fill it up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import REFERENCE, Spec
from simdx.experiments.paper.theirs import data_of_panel, quote, quotes
from simdx.experiments.paper.words import METHODS, doubts, ours, several, theirs
from simdx.report.plots import Series, line_plot

ORDER = 450
NAME = "pool-size"
SIZES = (3, 10, 30, 50, 100, 500)
LARGEST = 1000
PAPER_SIZES = (3, 50, 500, LARGEST)
LARGEST_PANEL = "oral-lesions"  # the paper's panel
COMPARED = ("d-smc", "m-smc")
METRICS = ("accuracy", "macro_f1", "auroc", "brier", "ece", "entropy_bits")
POOLS = {"smoke": 2, "full": 5}


def run(context: Context) -> Finding:
    rows = []
    for panel in context.panels:
        large = (name for name, one in context.variants(panel).items() if one.kind == "pool")
        for bank in (REFERENCE, *context.models(panel), *large):
            rows += _bank(context, panel, bank)
    return Finding(
        tables=tuple(_table(panel, [r for r in rows if r["panel"] == panel]) for panel in context.panels),
        figures=tuple(_figure(panel, [r for r in rows if r["panel"] == panel]) for panel in context.panels),
        verdicts=tuple(
            line for panel in context.panels for line in _verdicts([r for r in rows if r["panel"] == panel])
        ),
        n=context.n,
        models=tuple(dict.fromkeys(r["bank"] for r in rows)),
        data={"rows": rows},
        notes=context.notes,
    )


def _bank(context: Context, panel: str, bank: str) -> list[dict[str, Any]]:
    whole = context.bank(Spec(panel, "", bank))
    least, most = min(whole.counts.values()), max(whole.counts.values())
    sizes = (*SIZES, *((LARGEST,) if panel == LARGEST_PANEL or most >= LARGEST else ()))
    rows = []
    for method in COMPARED:
        for size in sizes:
            short = size >= most
            # One pool where it is the whole bank: there is nothing to draw.
            seeds = (0,) if short else range(POOLS[context.scale])
            specs = [Spec(panel, method, bank, per_label=None if short else size, pool_seed=s) for s in seeds]
            found = [context.scores(spec) for spec in specs]
            rows.append(
                {
                    "panel": panel,
                    "bank": bank,
                    "method": method,
                    "size": size,
                    "distinct": [min(size, least), min(size, most)],
                    "pools": len(found),
                    "first": found[0],
                    "means": {m: _mean([one[m] for one in found]) for m in METRICS},
                    "accuracy_range": [
                        min(one["accuracy"] for one in found),
                        max(one["accuracy"] for one in found),
                    ],
                }
            )
    return rows


def _mean(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None


def _distinct(row: dict[str, Any]) -> str:
    low, high = row["distinct"]
    return str(low) if low == high else f"{low} to {high}"


def _table(panel: str, rows: list[dict[str, Any]]) -> Table:
    data = data_of_panel(panel)
    out, quoted = [], []
    for row in rows:
        about = {
            q: quote(NAME, q, data=data, method=METHODS[row["method"]], setting=str(row["size"]))
            for q in METRICS
        }
        quoted += list(about.values())
        if row["pools"] == 1:
            accuracy = ours(row["first"], "accuracy")
        else:
            low, high = row["accuracy_range"]
            accuracy = (
                f"{number(row['means']['accuracy'])} ({low:.3f} to {high:.3f} over {row['pools']} pools)"
            )
        others = [cell for q in METRICS[1:] for cell in (number(row["means"][q]), theirs(about[q], 2))]
        out.append(
            (
                METHODS[row["method"]], row["bank"], str(row["size"]), _distinct(row), accuracy,
                theirs(about["accuracy"]), *others,
            )
        )  # fmt: skip
    return Table(
        panel,
        (
            "method", "bank", "asked for per label", "distinct texts per label", "accuracy", "paper", "F1",
            "paper", "AUROC", "paper", "Brier", "paper", "ECE", "paper", "entropy", "paper",
        ),
        tuple(out),
        "Means over pools with the range of accuracy; one pool, with its 95 % bootstrap, where the pool is "
        "the whole bank. Rows that ask for more than the bank has all hold the same texts. " + doubts(quoted),
    )  # fmt: skip


def _figure(panel: str, rows: list[dict[str, Any]]) -> Figure:
    series = []
    for method in COMPARED:
        for bank in dict.fromkeys(r["bank"] for r in rows):
            own = [r for r in rows if r["method"] == method and r["bank"] == bank]
            held = {r["distinct"][1]: r for r in own}  # rows beyond the bank's end are one point
            x = [float(np.log10(size)) for size in held]
            y = [r["means"]["accuracy"] for r in held.values()]
            name = METHODS[method] if bank == REFERENCE else f"{METHODS[method]}, {bank}"
            around = [r["accuracy_range"] for r in held.values()]
            series.append(Series(name, x, y, marks=True, intervals=around))
    data = data_of_panel(panel)
    paper = [q for q in quotes(NAME, data=data, quantity="accuracy") if q.setting]
    if paper:
        x = [float(np.log10(float(q.setting or 1))) for q in paper]
        series.append(Series("the paper's D-SMC", x, [q.value for q in paper], marks=True))
    ends = [value for s in series for value in s.x]
    ticks = [(float(np.log10(size)), str(size)) for size in (3, 10, 30, 100, 300, 1000)]
    shown = [t for t in ticks if min(ends) - 0.01 <= t[0] <= max(ends) + 0.01]
    return Figure(
        f"pool-{panel}",
        line_plot(
            f"Accuracy by pool size, {panel}", "distinct simulations per label", "accuracy", series,
            x=(min(ends), max(ends)), y=(0.0, 1.0), x_ticks=shown,
        ),
        f"{panel}: mean accuracy over random pools, bars from the worst to the best pool.",
    )  # fmt: skip


def _large_banks(rows: list[dict[str, Any]]) -> list[str]:
    """What the paper's sizes give in each bank that holds more of them than the packaged one."""
    said = []
    packaged = max(r["distinct"][1] for r in rows if r["bank"] == REFERENCE)
    held = [r for r in rows if r["distinct"][0] >= r["size"] and r["size"] in PAPER_SIZES]
    for bank in dict.fromkeys(r["bank"] for r in held if r["size"] > packaged):
        parts = []
        for method in COMPARED:
            own = [r for r in held if r["bank"] == bank and r["method"] == method]
            steps = several([f"{r['means']['accuracy']:.3f} with {r['size']}" for r in own])
            parts.append(f"{METHODS[method]} {steps} per label")
        said.append(f"{rows[0]['panel']}, simulations of {bank}: {several(parts)}.")
    return said


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    said = []
    panel = rows[0]["panel"]
    reference = [r for r in rows if r["bank"] == REFERENCE]
    parts = []
    for method in COMPARED:
        own = [r for r in reference if r["method"] == method]
        three, fifty, last = own[0], next(r for r in own if r["size"] == 50), own[-1]
        gain = last["means"]["accuracy"] - fifty["means"]["accuracy"]
        parts.append(
            f"{METHODS[method]} reaches {three['means']['accuracy']:.3f} with 3 per label, "
            f"{fifty['means']['accuracy']:.3f} with 50 and {last['means']['accuracy']:.3f} with all "
            f"({gain:+.3f} beyond 50)"
        )
    quoted = quote(NAME, "accuracy", data=data_of_panel(panel), method="D-SMC", setting="3")
    tail = ""
    if quoted is not None:
        tail = f"; the paper's D-SMC has {quoted.value:.3f} with 3 and is level from 50 on"
    said.append(f"{panel}: {several(parts)}{tail}.")
    said += _large_banks(rows)
    most = max(r["distinct"][1] for r in rows)
    short = sorted({r["size"] for r in rows if r["size"] > most})
    if short:
        words = several([str(size) for size in short])
        said.append(
            f"{panel}: pools of {words} per label could not be made: the largest bank has {most} distinct "
            "texts of a label, and what these rows show is that bank."
        )
    return said
