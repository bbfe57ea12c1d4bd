"""An evaluation on the terminal: figures, decisions, what was taken for what; no text of a case."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from simdx.evaluation import Evaluation
from simdx.metrics import HEADLINE
from simdx.report import figures
from simdx.report.terminal import escape
from simdx.words import percent

FEW = 30  # cases below which every figure is mostly chance
MOST_PAIRS, MOST_WRONG = 6, 5  # lines of a long list


def print_evaluation(result: Evaluation) -> None:
    record = result.record
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(record['panel'])}[/], {record['method']} ({record['engine']}), "
        f"{escape(record['embedder'])}, {record['n']} cases"
    )
    headline = [(name, *figures.figure(record, name)) for name in HEADLINE]
    rows = [*headline, *figures.accuracy_rows(record["accuracy_at"])]
    _print_table(console, ("metric", "value", "95 % interval"), rows)
    interval = record["ci"].get("ece")
    if interval and not interval[0] <= record["ece"] <= interval[1]:
        console.print("ece: the interval leaves out what chance alone adds to the value")
    if record["n"] < FEW:
        console.print(f"[bold]{record['n']} cases are few[/]: more cases may show quite other figures")
    decisions = record["decisions"].items()
    parts = [f"{name} {d['n']} ({d['errors']} wrong)" for name, d in decisions]
    console.print(f"decisions: {', '.join(parts)}")
    _print_errors(console, result)
    if found := record["differential"]:
        headings = (f"against {found['n']} reference differentials", "value", "95 % interval")
        rows, notes = figures.differential_rows(found), figures.differential_notes(found)
        _print_table(console, headings, rows, notes)
    if record["conformal"]:
        _print_sets(console, record["conformal"])
    if found := record["ood"]:
        shown = "undefined" if found["auroc"] is None else f"{found['auroc']:.3f}"
        console.print(f"out of class: {found['n']} cases, AUROC {shown} by {found['score']}")
        for line in figures.none_words(found):
            console.print(line)
    for field, groups in record["groups"].items():
        rows = []
        for value, g in groups.items():
            cells = ("undefined" if g[k] is None else f"{g[k]:.3f}" for k in ("accuracy", "ece"))
            rows.append((value, str(g["n"]), *cells, "too small" if g["too_small"] else ""))
        _print_table(console, (field, "n", "accuracy", "ece", ""), rows)
    for name, reason in record["undefined"].items():
        console.print(f"{name}: {reason}")


def _print_errors(console: Console, result: Evaluation) -> None:
    """What was taken for what, and which cases, by their ids: their texts are not shown here."""
    table, labels = result.confusion(), result.outcomes
    pairs = [(int(table[i, j]), i, j) for i, j in np.argwhere(table) if i != j]
    if not pairs:
        console.print("every case was answered correctly")
        return
    console.print("confused outcomes:")
    for n, i, j in sorted(pairs, key=lambda pair: -pair[0])[:MOST_PAIRS]:
        console.print(f"  {n:4} of {int(table[i].sum())} {escape(labels[i])} → {escape(labels[j])}")
    console.print("wrong answers, the most confident first:")
    posterior = result.arrays["posterior"]
    for i in result.worst(MOST_WRONG):
        case, best = result.dataset.cases[i], int(posterior[i].argmax())
        console.print(
            f"  {escape(case.id)}: {escape(case.label or '')}, answered {escape(labels[best])} "
            f"{percent(float(posterior[i, best]))}"
        )
    if (left := int((posterior.argmax(axis=1) != result.label_index).sum()) - MOST_WRONG) > 0:
        console.print(f"  and {left} more: --out writes a row for each case")


def _print_sets(console: Console, found: dict[str, Any]) -> None:
    heading = f"conformal sets, {100 * found['level']:g} %"
    if found["n_calibration"] < found["level"] / (1 - found["level"]):  # every label is in every set
        console.print(f"{heading}: {found['n_calibration']} cases are too few to calibrate them on")
        return
    headings = (heading, "coverage", "95 % interval", "mean size", "95 % interval")
    _print_table(console, headings, figures.set_rows(found), figures.set_notes(found))


def _print_table(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> None:
    table = Table(*map(escape, headings), box=None)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    for line in notes:
        console.print(escape(line))
