"""Sampling temperature of the simulator (table S17).

Banks one model wrote at several temperatures (`{panel}-{model}-t0.4` in $SIMDX_BANKS), M-SMC with each on the
same cases. Where there are none, the committed study of diversity (results/diversity.json), which built such
banks and measured the same things, is read instead and named. With neither, the artefact is not run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from simdx.experiments.paper.artefact import Figure, Finding, NotRun, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote, quotes
from simdx.experiments.paper.words import doubts, theirs
from simdx.report.plots import Series, line_plot

ORDER = 440
NAME = "temperature-ablation"
STUDY = Path("results") / "diversity.json"
METRICS = ("accuracy", "brier", "ece")


def run(context: Context) -> Finding:
    series = [one for panel in context.panels for one in _from_banks(context, panel)]
    source = "banks"
    if not series:
        series, source = from_study(STUDY), str(STUDY)
    if not series:
        raise NotRun(
            "no banks written at several temperatures are at hand ({panel}-{model}-t0.4 and so on), and "
            f"there is no record of the diversity study ({STUDY})"
        )
    return Finding(
        tables=(*(_table(one) for one in series), _asked_table()),
        figures=tuple(_figure(one) for one in series),
        verdicts=tuple(_verdict(one) for one in series),
        n={one["panel"]: one["cases"] for one in series},
        models=tuple(dict.fromkeys(one["model"] for one in series)),
        data={"source": source, "series": series},
        notes=(
            *context.notes,
            *(() if source == "banks" else (f"Read from {source}, the record of the diversity study.",)),
            "Asking at several temperatures (the paper's ML and EP columns) was not run: no record of asking "
            "holds more than one temperature.",
        ),
    )


def _from_banks(context: Context, panel: str) -> list[dict[str, Any]]:
    by_model: dict[str, dict[float, str]] = {}
    for name, one in context.variants(panel).items():
        if one.kind == "temperature":
            by_model.setdefault(one.model, {})[float(one.way[1:])] = name
    found = []
    for model, banks in by_model.items():
        points = []
        for temperature, bank in sorted(banks.items()):
            counts = context.bank(Spec(panel, "", bank)).counts.values()
            complete = min(counts) == max(counts)  # each label is asked for equally many
            scores = context.scores(Spec(panel, "m-smc", bank))
            points.append(_point(temperature, scores, sum(counts), complete))
        if len(points) > 1:
            about = {"panel": panel, "model": model, "what": "M-SMC", "cases": context.n[panel]}
            found.append({**about, "points": points})
    return found


def from_study(path: Path) -> list[dict[str, Any]]:
    """The diversity study's rows as series over temperature, with facets and without."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = []
    for facets in (True, False):
        points = [
            _point(row["temperature"], row["scrubbed"], row["scrubbed"]["n_texts"], bool(row["complete"]))
            for row in record.get("rows", [])
            if bool(row["facets"]) == facets and row.get("scrubbed")
        ]
        if len(points) > 1:
            found.append(
                {
                    "panel": record["panel"],
                    "model": record["model"],
                    "what": f"M-SMC, prompts {'with' if facets else 'without'} facets",
                    "cases": record["cases"],
                    "points": sorted(points, key=lambda point: point["temperature"]),
                }
            )
    return found


def _point(temperature: float, scores: dict[str, Any], texts: int, complete: bool) -> dict[str, Any]:
    return {
        "temperature": float(temperature),
        "texts": texts,
        "complete": complete,
        **{m: {"value": scores[m], "ci": scores["ci"].get(m)} for m in METRICS},
    }


def _table(one: dict[str, Any]) -> Table:
    data = data_of_panel(one["panel"])
    rows, quoted = [], []
    for point in one["points"]:
        setting = f"{point['temperature']:.1f}"
        about = {m: quote(NAME, m, data=data, method="M-SMC", setting=setting) for m in METRICS}
        quoted += list(about.values())
        cells = [c for m in METRICS for c in (number(point[m]["value"], point[m]["ci"]), theirs(about[m]))]
        texts = f"{point['texts']}" + ("" if point["complete"] else ", a label short of its number")
        rows.append((setting, texts, *cells))
    return Table(
        f"{one['panel']}: {one['what']}, simulations by {one['model']}",
        ("temperature", "usable texts", "accuracy", "paper", "Brier", "paper", "ECE", "paper"),
        tuple(rows),
        "95 % bootstrap over cases. The paper's model is Mistral with a thousand texts per label. "
        + doubts(quoted),
    )


def _asked_table() -> Table:
    """The paper's rows that have no counterpart here: models asked at several temperatures."""
    quoted = [q for way in ("ML", "EP") for q in quotes(NAME, method=way)]
    rows = []
    for way, setting in dict.fromkeys((q.method, q.setting) for q in quoted):
        own = {q.quantity: q for q in quoted if (q.method, q.setting) == (way, setting)}
        rows.append((str(way), str(setting), "not run", theirs(own["brier"]), "not run", theirs(own["ece"])))
    return Table(
        "Models asked directly: the paper's figures alone",
        ("asked", "temperature", "Brier", "paper", "ECE", "paper"),
        tuple(rows),
        doubts(quoted),
    )


def _figure(one: dict[str, Any]) -> Figure:
    x = [point["temperature"] for point in one["points"]]
    shown = [
        Series(
            name,
            x,
            [point[metric]["value"] for point in one["points"]],
            marks=True,
            intervals=[point[metric]["ci"] for point in one["points"]],
        )
        for name, metric in (("ECE", "ece"), ("Brier", "brier"))
    ]
    paper = quotes(NAME, data=data_of_panel(one["panel"]), method="M-SMC", quantity="ece")
    if paper:
        there = [float(q.setting or 0) for q in paper]
        shown.append(Series("ECE, the paper", there, [q.value for q in paper], marks=True))
    plot = line_plot(
        f"Calibration by temperature, {one['panel']}",
        "sampling temperature",
        "ECE, Brier",
        shown,
        x=(0.0, 1.2),
        y=(0.0, 1.0),
        x_ticks=[(t / 5, f"{t / 5:.1f}") for t in range(1, 6)],
    )
    return Figure(
        "temperature-" + re.sub(r"\W+", "-", f"{one['panel']} {one['model']} {one['what']}".lower()),
        plot,
        f"{one['panel']}, {one['what']}: calibration with simulations sampled at each temperature by "
        f"{one['model']}, 95 % bootstrap.",
    )


def _verdict(one: dict[str, Any]) -> str:
    points = one["points"]
    best, worst = (f(points, key=lambda p: p["ece"]["value"]) for f in (min, max))
    overlap = not (best["ece"]["ci"] and worst["ece"]["ci"] and best["ece"]["ci"][1] < worst["ece"]["ci"][0])
    lowest = points[0]
    incomplete = [p for p in points if not p["complete"]]
    line = (
        f"{one['panel']}, {one['what']}: ECE runs from {best['ece']['value']:.3f} at {best['temperature']:g} "
        f"to {worst['ece']['value']:.3f} at {worst['temperature']:g}; "
        + ("their intervals overlap, so temperature has no sure effect, " if overlap else "")
        + (
            "and the lowest temperature is the worst, as the paper says"
            if worst is lowest
            else "and the lowest temperature is not the worst, unlike the paper"
        )
    )
    if incomplete:
        at = ", ".join(f"{p['temperature']:g}" for p in incomplete)
        line += f". At {at} the model did not fill every label within its requests"
    return line + "."
