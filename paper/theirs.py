"""The paper's own figures, typed: what `theirs.yaml` holds, looked up by what a figure is about.

A figure keeps its place in the paper, the data set and the models it was measured with, and, where the paper
contradicts itself about it, a sentence that says how. Ours are printed beside these, never mixed with them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from simdx.errors import BadInput

KEYS = ("model", "method", "setting")


class Quote(NamedTuple):
    """One number of the paper; `low` and `high` are the interval, quartiles or range printed with it."""

    artefact: str
    quantity: str
    value: float
    place: str
    data: str | None = None
    model: str | None = None
    method: str | None = None
    setting: str | None = None
    low: float | None = None
    high: float | None = None
    doubts: tuple[str, ...] = ()


@cache
def on_file() -> dict[str, Any]:
    """What `theirs.yaml` holds."""
    return yaml.safe_load(Path(__file__).with_name("theirs.yaml").read_text(encoding="utf-8"))


@cache
def _quotes() -> tuple[Quote, ...]:
    found = []
    for t in on_file()["tables"]:
        for row in t["rows"]:
            keys = dict(zip(t["by"], map(str, row), strict=False))
            for quantity, cell in zip(t["columns"], row[len(t["by"]) :], strict=True):
                if cell is None:
                    continue
                value, low, high = cell if isinstance(cell, list) else (cell, None, None)
                about = {"artefact": t["artefact"], "data": t["data"], "quantity": quantity, **keys}
                doubts = tuple(doubt["why"].strip() for doubt in on_file()["doubts"]
                               if all(about.get(k) in ([v] if isinstance(v, str) else v)
                                      for k, v in doubt["where"].items()))  # fmt: skip
                found.append(Quote(**about, value=value, place=t["place"], low=low, high=high, doubts=doubts))
    return tuple(found)


def quotes(artefact: str | None = None, **wanted: str | None) -> tuple[Quote, ...]:
    """The artefact's figures (or all), in the paper's order, that match (data, model, method, setting, quantity)."""
    own = (q for q in _quotes() if artefact in (None, q.artefact))
    return tuple(q for q in own if all(getattr(q, name) == value for name, value in wanted.items()))


def quote(artefact: str, quantity: str, **wanted: str | None) -> Quote | None:
    """The one figure that matches, or None. Keys left out must be absent from it, so that a mean over models
    is never mistaken for one model's figure."""
    found = quotes(artefact, quantity=quantity, **dict.fromkeys(KEYS) | wanted)
    if len(found) > 1:
        raise BadInput(f"{len(found)} figures of the paper match {artefact} {quantity}: name the data set too")
    return found[0] if found else None


def over_models(artefact: str, quantity: str, **wanted: str | None) -> Quote | None:
    """The mean over the paper's models of the figures it gives one by one, with their range."""
    found = [q for q in quotes(artefact, quantity=quantity, **wanted) if q.model is not None]
    if not found:
        return None
    values, doubts = [q.value for q in found], dict.fromkeys(doubt for q in found for doubt in q.doubts)
    mean = found[0]._replace(value=sum(values) / len(values), model=None, setting=None)
    return mean._replace(low=min(values), high=max(values), doubts=tuple(doubts))


def beside(
    artefact: str, quantity: str, panel: str, method: str | None = None, setting: str | None = None, each: bool = False
) -> Quote | None:
    """The figure for that panel's counterpart: as it is printed, else (or with `each`) its models' mean."""
    data = data_of_panel(panel)
    if data is None or (method is None and setting is None):
        return None
    about = {"data": data, "method": method, "setting": setting}
    found = None if each else quote(artefact, quantity, **about)
    return found or over_models(artefact, quantity, **about)


def data_of_panel(panel: str) -> str | None:
    """The paper's data set beside which a packaged panel stands."""
    return next((name for name, part in on_file()["data"].items() if part["panel"] == panel), None)


def doubted() -> dict[str, list[Quote]]:
    """The figures that each doubt is about."""
    found: dict[str, list[Quote]] = {}
    for q in _quotes():
        for why in q.doubts:
            found.setdefault(why, []).append(q)
    return found
