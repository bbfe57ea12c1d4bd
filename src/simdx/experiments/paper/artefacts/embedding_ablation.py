"""Which embedding? M-SMC and the shipped recipe in every embedding at hand (table S15).

The paper compares a commercial embedding with five open ones on its oral benchmark. Here: every embedder that
is installed on this machine, none of which sends a text anywhere. One whose weights are not here is named and
left out; nothing is downloaded by an experiment.
"""

from __future__ import annotations

from typing import Any

from simdx.embedders import get_embedder
from simdx.errors import SimdxError
from simdx.experiments.paper.artefact import Figure, Finding, Table
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote, quotes
from simdx.experiments.paper.words import METHODS, doubts, ours, theirs
from simdx.models import REGISTRY, locate
from simdx.report.plots import Estimate, interval_plot

ORDER = 420
NAME = "embedding-ablation"
EMBEDDERS = ("wordllama", "minilm", "mpnet", "wordllama+minilm", "wordllama+mpnet", "hashing")
SMOKE = ("wordllama", "minilm", "hashing")
PAPER_NAMES = {"minilm": "all-MiniLM-L6-v2"}
COMPARED = ("m-smc", "auto")
METRICS = ("accuracy", "brier", "ece", "entropy_bits")


def at_hand(names: tuple[str, ...] = EMBEDDERS) -> tuple[dict[str, int], dict[str, str]]:
    """Embedders with their dimensions, and why the others are left out."""
    found, missing = {}, {}
    for name in names:
        absent = [part for part in name.split("+") if not _installed(part)]
        if absent:
            missing[name] = f"the weights of {absent[0]} are not installed"
            continue
        try:
            found[name] = sum(get_embedder(name).blocks)
        except SimdxError as problem:
            missing[name] = str(problem)
    return found, missing


def _installed(part: str) -> bool:
    if part not in REGISTRY:
        return True
    try:
        locate(part, download=False)
    except SimdxError:
        return False
    return True


def run(context: Context) -> Finding:
    # Encoders take a while: a smoke run shows one, on one panel, with one method.
    found, missing = at_hand(SMOKE if context.smoke else EMBEDDERS)
    panels = context.panels[:1] if context.smoke else context.panels
    compared = COMPARED[:1] if context.smoke else COMPARED
    scores: dict[str, dict[str, dict[str, Any]]] = {
        panel: {
            f"{METHODS[method]}, {name}": context.scores(Spec(panel, method, embedder=name))
            for method in compared
            for name in found
        }
        for panel in panels
    }
    return Finding(
        tables=tuple(_table(panel, rows, found) for panel, rows in scores.items()),
        figures=tuple(_figure(panel, rows) for panel, rows in scores.items()),
        verdicts=tuple(line for panel, rows in scores.items() for line in _verdicts(panel, rows, found)),
        n={panel: context.n[panel] for panel in panels},
        models=("reference bank", *found),
        data={"scores": scores, "dimensions": found, "left_out": missing},
        notes=(
            *context.notes,
            *(f"Left out: {name}, because {reason}." for name, reason in missing.items()),
            "Not at hand: the paper's text-embedding-3-large (sends text to another machine) and its four "
            "biomedical encoders.",
        ),
    )


def _table(panel: str, rows: dict[str, dict[str, Any]], dimensions: dict[str, int]) -> Table:
    data = data_of_panel(panel)
    out, quoted = [], []
    for method in COMPARED:
        for name, width in dimensions.items():
            one = rows.get(f"{METHODS[method]}, {name}")
            if one is None:
                continue
            setting = PAPER_NAMES.get(name) if method == "m-smc" else None
            about = {q: quote(NAME, q, data=data, setting=setting) if setting else None for q in METRICS}
            quoted += list(about.values())
            cells = [cell for q in METRICS for cell in (ours(one, q), theirs(about[q], 3))]
            out.append((METHODS[method], name, str(width), *cells))
    if data is not None:
        known = {q.setting: None for q in quotes(NAME, data=data)}
        for setting in known:
            if setting in PAPER_NAMES.values():
                continue
            wide = quote(NAME, "dimensions", data=data, setting=setting)
            about = {q: quote(NAME, q, data=data, setting=setting) for q in METRICS}
            quoted += list(about.values())
            cells = [cell for q in METRICS for cell in ("not at hand", theirs(about[q], 3))]
            out.append(("M-SMC", str(setting), "–" if wide is None else f"{wide.value:.0f}", *cells))
    return Table(
        panel,
        (
            "method", "embedding", "dimensions", "accuracy", "paper", "Brier", "paper", "ECE", "paper",
            "entropy", "paper",
        ),
        tuple(out),
        "95 % bootstrap over cases. The paper's rows are M-SMC with Mistral's simulations. " + doubts(quoted),
    )  # fmt: skip


def _style(name: str) -> int:
    return 0 if name.startswith(METHODS["m-smc"]) else 1


def _figure(panel: str, rows: dict[str, dict[str, Any]]) -> Figure:
    shown = [
        Estimate(name, one["accuracy"], low, high, style=_style(name))
        for name, one in rows.items()
        for low, high in [one["ci"]["accuracy"] or (None, None)]
    ]
    return Figure(
        f"embeddings-{panel}",
        interval_plot(f"Accuracy by embedding, {panel}", "accuracy", shown, x=(0.0, 1.0)),
        f"{panel}: accuracy with each embedding, 95 % bootstrap; M-SMC and the shipped recipe.",
    )


def _verdicts(panel: str, rows: dict[str, dict[str, Any]], dimensions: dict[str, int]) -> list[str]:
    said = []
    for method in COMPARED:
        keys = {name: f"{METHODS[method]}, {name}" for name in dimensions}
        by = {name: rows[key]["accuracy"] for name, key in keys.items() if key in rows}
        if not by:
            continue
        best, worst = max(by, key=lambda n: by[n]), min(by, key=lambda n: by[n])
        said.append(
            f"{panel}, {METHODS[method]}: the choice of embedding moves accuracy from {by[worst]:.3f} "
            f"({worst}) to {by[best]:.3f} ({best})."
        )
    if "minilm" in dimensions and data_of_panel(panel) == "oral":
        quoted = quote(NAME, "accuracy", data="oral", setting=PAPER_NAMES["minilm"])
        mine = rows[f"{METHODS['m-smc']}, minilm"]
        if quoted is not None:
            said.append(
                f"{panel}: with the same small encoder the paper reports {quoted.value:.3f} and calls it the "
                f"price of a local pipeline; here it gives {ours(mine, 'accuracy')} with M-SMC."
            )
    return said
