"""The figures of the artefacts, drawn by matplotlib from the figures of a record."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from paper.tables import method_name
from paper.theirs import beside, data_of_panel, quotes
from paper.world import METHODS, theirs_name

Data = Mapping[str, Any]
Figures = dict[str, Figure]
# name, value, 95 % or None, the paper's value or None
Dot = tuple[str, Any, Sequence[float] | None, float | None]
matplotlib.rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "svg.hashsalt": "paper"})  # fmt: skip


def svg(figure: Figure) -> str:
    """Inline SVG without date and doctype, so that the same figures give the same bytes."""
    out = io.StringIO()
    figure.savefig(
        out, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
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
            axes.plot(theirs, i, "D", markerfacecolor="none", markeredgecolor="#d55e00", markersize=5)
    axes.set_yticks(range(len(shown)), [row[0] for row in shown])
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    if x:
        axes.set_xlim(*x)
    elif shown and min(row[1] or 0 for row in shown) < 0:
        axes.axvline(0, color="#888", linewidth=0.8)
    return figure


Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]


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


def by_method(artefact: str, metric: str, axis: str, x: tuple[float, float]) -> Callable[[Data], Figures]:
    """One metric of every row, beside the paper's of the same method."""

    def draw(data: Data) -> Figures:
        found = {}
        for panel, rows in data.items():
            quotes_ = {name: beside(artefact, metric, panel, theirs_name(row["method"])) for name, row in rows.items()}
            found[panel] = dots(axis, [
                (name, row[metric], row["ci"].get(metric), None if (q := quotes_[name]) is None else q.value)
                for name, row in rows.items()
            ], x)  # fmt: skip
        return found

    return draw


main_results = by_method("main-results", "accuracy", "accuracy", (0, 1))
error_detection = by_method("error-detection", "error_auroc", "error-detection AUROC", (0.2, 1))


def risk_coverage(data: Data) -> Figures:
    axes = ("coverage, most certain first", "error rate")
    curves = {panel: {n: (c["coverage"], c["risk"]) for n, c in rows.items()} for panel, rows in data.items()}
    return {panel: lines(axes, curve) for panel, curve in curves.items()}


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


def significance(data: Data) -> Figures:
    found = {}
    for panel, part in data.items():
        rows = []
        for name, row in part["differences"].items():
            theirs = beside("significance", "delta_ece", panel, row["way"], each=True)
            rows.append((name, row["ece"]["difference"], row["ece"]["ci"], None if theirs is None else theirs.value))
        found[panel] = dots("Δ ECE (right of nought: M-SMC is better)", rows)
    return found


def prior_sensitivity(data: Data) -> Figures:
    return {
        panel: lines(("odds given to a wrong label", "accuracy"), {
            method_name(name): ([row["count"] for row in sweep],
                                [row["misleading"]["accuracy"]["value"] for row in sweep])
            for name, sweep in variants.items()
        }, log=True)
        for panel, variants in data.items()
    }  # fmt: skip


def out_of_class(data: Data) -> Figures:
    found = {}
    for panel, rows in data.items():
        shown: list[Dot] = []
        for row in rows:
            theirs = beside("out-of-class", "entropy_bits", panel, row["paper"])
            shown.append(
                (f"{row['method']}: outside", row["outside"], row["outside_ci"], theirs.value if theirs else None)
            )
            shown.append((f"{row['method']}: inside", row["inside"], row["inside_ci"], None))
        found[panel] = dots("predictive entropy, bits", shown)
    return found


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
    found = {}
    for panel in dict.fromkeys(row["panel"] for row in data["rows"]):
        series: dict[str, tuple[list[float], list[float]]] = {}
        for row in (r for r in data["rows"] if r["panel"] == panel and r["distinct"][0] >= r["size"]):
            x, y = series.setdefault(f"{METHODS[row['method']]}, {row['bank']}", ([], []))
            x.append(row["size"])
            y.append(row["means"]["accuracy"])
        found[panel] = lines(("simulations a label", "accuracy"), series, log=True)
    return found


def temperature_ablation(data: Data) -> Figures:
    found = {}
    for panel in dict.fromkeys(one["panel"] for one in data["series"]):
        series = {f"{one['what']}, {one['model']}": ([p["temperature"] for p in one["points"]],
                                                    [p["ece"]["value"] for p in one["points"]])
                  for one in data["series"] if one["panel"] == panel}  # fmt: skip
        found[panel] = lines(("temperature", "ECE"), series)
    return found
