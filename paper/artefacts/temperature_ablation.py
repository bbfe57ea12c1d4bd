"""Banks one model wrote at several temperatures (`{panel}-{model}-t0.4` in $SIMDX_BANKS), M-SMC with each on
the same cases; and ML, the option letters' logits at each temperature, one prompt in one order. Where there
are no such banks, the artefact is not run."""

import re
from collections.abc import Iterator
from typing import Any

from paper.cells import NONE
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Drawing, Found, Said, Table, as_one, keys, metrics
from paper.theirs import data_of_panel, grouped, quotes
from simdx.report.plots import Series, line_plot

NAME = "temperature-ablation"
HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}


def by_series(found: Found) -> Iterator[Block]:
    for one in found["data"]["series"]:
        slug = re.sub(r"\W+", "-", f"{one['panel']} {one['model']} {one['what']}".lower())
        yield Block(one["panel"], one | {"slug": slug}, found["n"])


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for point in b.d["points"]:
        texts = f"{point['texts'] or NONE}" + ("" if point["complete"] else ", a label short of its number")
        yield point | {"method": b.d["what"], "setting": f"{point['temperature']:.1f}", "texts": texts}


def asked(b: Block) -> Iterator[dict[str, Any]]:
    """The paper's rows that have no counterpart here: ways of asking that were not run at several temperatures."""
    for way in {"EP"} - {one["what"] for one in b.d["series"]}:
        for (_method, setting), own in grouped(NAME, method=way).items():
            yield {"asked": way, "setting": setting, **own}


def drawn(b: Block) -> str:
    points = b.d["points"]
    x, shown = [point["temperature"] for point in points], []
    for metric, name in (("ece", "ECE"), ("brier", "Brier")):
        values, around = ([point[metric][part] for point in points] for part in ("value", "ci"))
        shown.append(Series(name, x, values, marks=True, intervals=around))
    if paper := quotes(NAME, data=data_of_panel(b.panel), method=b.d["what"], quantity="ece"):
        there = [float(q.setting or 0) for q in paper]
        shown.append(Series("ECE, the paper", there, [q.value for q in paper], marks=True))
    axes = (f"Calibration by temperature, {b.panel}", "sampling temperature", "ECE, Brier")
    ticks = [(t / 5, f"{t / 5:.1f}") for t in range(1, 6)]
    return line_plot(*axes, shown, x=(0.0, 1.2), y=(0.0, 1.0), x_ticks=ticks)


def claims(b: Block) -> Iterator[Said]:
    points = b.d["points"]
    best, worst = (f(points, key=lambda p: p["ece"]["value"]) for f in (min, max))
    overlap = not (best["ece"]["ci"] and worst["ece"]["ci"] and best["ece"]["ci"][1] < worst["ece"]["ci"][0])
    holds, short = worst is points[0], [f"{p['temperature']:g}" for p in points if not p["complete"]]
    yield Said(
        f"{b.panel}, {b.d['what']}: ECE runs from {best['ece']['value']:.3f} at {best['temperature']:g} to "
        f"{worst['ece']['value']:.3f} at {worst['temperature']:g}; "
        + ("their intervals overlap, so temperature has no sure effect, " if overlap else "")
        + f"and the lowest temperature that was run, {points[0]['temperature']:g}, is "
        + ("the worst" if holds else "not the worst")
        + (f". At {', '.join(short)} the model did not fill every label within its requests" if short else "")
        + ".", holds)


ARTEFACT = Artefact(
    "Sampling temperature of the simulator (table S17)", 440, ablations.temperature_ablation, each=by_series,
    tables=(
        Table("{panel}: {what}, {model}", rows,
              (*keys("temperature=setting | usable texts=texts"), *metrics(HEADS, paper_head="paper", at="")),
              "95 % bootstrap over cases. The paper's model is Mistral with a thousand texts per label."),
        Table("Models asked directly: the paper's figures alone", asked,
              (*keys("asked | temperature=setting"),
               Column("Brier", lambda r: "not run", lambda r: r["brier"], paper_head="paper"),
               Column("ECE", lambda r: "not run", lambda r: r["ece"], paper_head="paper")), each=as_one),
    ),
    drawings=(Drawing("temperature-{slug}", drawn,
                      "{panel}, {what}: calibration at each temperature of {model}, 95 % "
                      "bootstrap."),),
    claims=claims,
)
