"""The figures of the artefacts, drawn by matplotlib from the figures of a record."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from paper.tables import method_name
from paper.theirs import Quote, beside, data_of_panel, quotes
from paper.world import METHODS, theirs_name

Data = Mapping[str, Any]
Figures = dict[str, Figure]
# name, value, 95 % or None, the paper's figure or None
Dot = tuple[str, Any, Sequence[float] | None, Quote | None]
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "svg.hashsalt": "paper"})  # fmt: skip


def svg(figure: Figure) -> str:
    """Inline SVG without date and doctype, so that the same figures give the same bytes."""
    out, without = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", bbox_inches="tight", metadata=without)
    return out.getvalue()[out.getvalue().index("<svg") :]


def dots(axis: str, rows: Iterable[Dot], x: tuple[float, float] | None = None) -> Figure:
    """A dot on its interval for each row; an open diamond is the paper's figure."""
    shown = [row for row in rows if row[1] is not None]
    figure = Figure(figsize=(7.5, 0.7 + 0.22 * max(len(shown), 1)))
    axes = figure.subplots()
    for i, (_, value, around, theirs) in enumerate(shown):
        if around and around[0] is not None:
            axes.plot(around, (i, i), color="#0072b2", linewidth=1.5)
        axes.plot(value, i, "o", color="#0072b2", markersize=4)
        if theirs is not None:
            axes.plot(theirs.value, i, "D", markerfacecolor="none", markeredgecolor="#d55e00", markersize=5)
    axes.set_yticks(range(len(shown)), [row[0] for row in shown])
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    if x:
        axes.set_xlim(*x)
    elif shown and min(row[1] for row in shown) < 0:
        axes.axvline(0, color="#888", linewidth=0.8)
    return figure


def lines(labels: tuple[str, str], series: Lines, *, log: bool = False) -> Figure:
    figure = Figure(figsize=(7, 3.4))
    axes = figure.subplots()
    for i, (name, (x, y)) in enumerate(series.items()):
        axes.plot(x, y, marker="." if len(x) < 20 else None, linestyle=("-", "--", ":", "-.")[i % 4], label=name)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    if log:
        axes.set_xscale("log")
    if series:
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def by_panel(draw: Callable[[str, Any], Figure]) -> Callable[[Data], Figures]:
    """The same figure for each panel."""
    return lambda data: {panel: draw(panel, part) for panel, part in data.items()}


@by_panel
def main_results(panel: str, rows: Data) -> Figure:
    return dots("accuracy", _by_method("main-results", "accuracy", panel, rows), (0, 1))


@by_panel
def error_detection(panel: str, rows: Data) -> Figure:
    return dots("error-detection AUROC", _by_method("error-detection", "error_auroc", panel, rows), (0.2, 1))


def _by_method(artefact: str, metric: str, panel: str, rows: Data) -> list[Dot]:
    """One metric of every row, beside the paper's of the same method."""
    theirs = {name: beside(artefact, metric, panel, theirs_name(row["method"])) for name, row in rows.items()}
    return [(name, row[metric], row["ci"].get(metric), theirs[name]) for name, row in rows.items()]


@by_panel
def risk_coverage(_: str, rows: Data) -> Figure:
    axes = ("coverage, most certain first", "error rate")
    return lines(axes, {name: (curve["coverage"], curve["risk"]) for name, curve in rows.items()})


def ternary(data: Data) -> Figures:
    """Figure 2a: each case is the one of median entropy in its group, so none was picked by eye."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    figure = Figure(figsize=(7.5, 2.2))
    for axes, one in zip(figure.subplots(1, len(data["triangles"]), squeeze=False)[0], data["triangles"], strict=True):
        axes.plot(*corners[[0, 1, 2, 0]].T, color="#555", linewidth=0.8)
        axes.plot(*(np.array(one["draws"]) @ corners).T, ".", color="#0072b2", markersize=2, alpha=0.5)
        axes.plot(*(np.array(one["mean"]) @ corners), "o", color="#d55e00", markersize=5)
        axes.set_title(one["heading"], fontsize=7)
        axes.set_aspect("equal")
        axes.axis("off")
    return {f"{data['panel']}: 200 accepted draws each and their mean; corners: {', '.join(data['labels'])}": figure}


@by_panel
def significance(panel: str, part: Data) -> Figure:
    rows = [
        (name, row["ece"]["difference"], row["ece"]["ci"],
         beside("significance", "delta_ece", panel, row["way"], each=True))
        for name, row in part["differences"].items()
    ]  # fmt: skip
    return dots("Δ ECE (right of nought: M-SMC is better)", rows)


@by_panel
def prior_sensitivity(_: str, variants: Data) -> Figure:
    series = {
        method_name(name): ([row["count"] for row in sweep], [row["misleading"]["accuracy"]["value"] for row in sweep])
        for name, sweep in variants.items()
    }
    return lines(("odds given to a wrong label", "accuracy"), series, log=True)


@by_panel
def out_of_class(panel: str, rows: Sequence[Data]) -> Figure:
    shown: list[Dot] = []
    for row in rows:
        theirs = beside("out-of-class", "entropy_bits", panel, row["paper"])
        shown.append((f"{row['method']}: outside", row["outside"], row["outside_ci"], theirs))
        shown.append((f"{row['method']}: inside", row["inside"], row["inside_ci"], None))
    return dots("predictive entropy, bits", shown)


def smc_dynamics(data: Data) -> Figures:
    found = {}
    for panel, methods in data["panels"].items():
        series = {METHODS[m]: ([s["population"] for s in one["steps"]], [s["p_true"] for s in one["steps"]])
                  for m, one in methods.items()}  # fmt: skip
        series["cap of D-SMC"] = (series[METHODS["d-smc"]][0], [s["cap"] for s in methods["d-smc"]["steps"]])
        printed = quotes("smc-dynamics", data=data_of_panel(panel), quantity="p_true", method="D-SMC")
        if printed:
            series["D-SMC, paper"] = ([int(q.setting or 0) + 1 for q in printed], [q.value for q in printed])
        found[panel] = lines(("population", "mass on the true label"), series)
    return found


def pool_size(data: Data) -> Figures:
    found: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for row in data["rows"]:
        series = found.setdefault(row["panel"], {})
        if row["distinct"][0] >= row["size"]:
            x, y = series.setdefault(f"{METHODS[row['method']]}, {row['bank']}", ([], []))
            x.append(row["size"])
            y.append(row["means"]["accuracy"])
    return {panel: lines(("simulations a label", "accuracy"), series, log=True) for panel, series in found.items()}


def temperature_ablation(data: Data) -> Figures:
    found: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for one in data["series"]:
        points = [p["temperature"] for p in one["points"]], [p["ece"]["value"] for p in one["points"]]
        found.setdefault(one["panel"], {})[f"{one['what']}, {one['model']}"] = points
    return {panel: lines(("temperature", "ECE"), series) for panel, series in found.items()}
