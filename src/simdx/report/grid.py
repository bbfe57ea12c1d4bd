"""The summary of an experiment's grid as one self-contained HTML page: a table and a drawing per panel."""

from collections.abc import Mapping, Sequence
from typing import Any

from simdx.panels import disclaimer
from simdx.report.page import fill, number
from simdx.report.plots import Estimate, interval_plot

Row = Mapping[str, Any]
NAMES = ("accuracy", "brier", "ece", "nll", "error_auroc", "e_aurc")


def render_grid(title: str, rows: Sequence[Row]) -> str:
    """`rows` are a summary's: one per cell, failures included."""
    panels = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        own = [row for row in rows if row["panel"] == panel]
        estimates = [_estimate(row) for row in own]
        drawing = interval_plot(f"Accuracy on {panel}", "accuracy", estimates, x=(0.0, 1.0))
        panels.append((panel, drawing, [_cells(row) for row in own]))
    return fill(
        "grid.html", title=title, disclaimer=disclaimer(None), notice="", cells=len(rows), panels=panels,
        headings=("method", "cases", *NAMES),
    )  # fmt: skip


def _name(row: Row) -> str:
    parts = (row["method"], row["bank"], row["simulator"], row["embedder"])
    seed = f"seed {row['seed']}" if row["seed"] else None
    return ", ".join(str(part) for part in (*parts, seed) if part)


def _estimate(row: Row) -> Estimate:
    if row["status"] == "failed":
        return Estimate(f"{_name(row)} (failed)", None)
    low, high = row["ci"]["accuracy"] or (None, None)
    return Estimate(_name(row), row["accuracy"], low, high)


def _cells(row: Row) -> list[str]:
    if row["status"] == "failed":
        return [_name(row), f"failed: {row['error']}", *[""] * len(NAMES)]
    size = str(row["n"]) if row["n"] == row["of"] else f"{row['n']} of {row['of']}"
    return [_name(row), size, *(_figure(row[name], row["ci"][name]) for name in NAMES)]


def _figure(value: float | None, interval: Sequence[float] | None) -> str:
    around = "" if value is None or not interval else f" [{interval[0]:.3f},\u00a0{interval[1]:.3f}]"
    return number(value) + around
