"""Main results: asking a model against inference over simulations (table 1)

The paper's Table 1 and Table S4. Theirs are means over six models; the part of the models is played here by
the banks that different simulators wrote, and by the models that were asked. The packaged bank (both of its
files together) is what ships, and stands apart.
"""

from __future__ import annotations

from typing import Any

from simdx.experiments.paper.artefact import Figure, Finding, Table
from simdx.experiments.paper.asked import PAPER_ASKING, Asked
from simdx.experiments.paper.compare import agreement, counted, mean_and_range, placed, ranged, theirs
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import (
    M_PARTICLES,
    M_SMC,
    RECIPE,
    models_used,
    own_bank,
    spec_of,
    theirs_name,
)
from simdx.experiments.paper.spec import REFERENCE
from simdx.experiments.paper.theirs import Quote, data_of_panel, quotes
from simdx.experiments.paper.words import doubts
from simdx.experiments.paper.words import ours as cell
from simdx.experiments.paper.words import theirs as quoted
from simdx.experiments.paper.world import PAPER_NAMES
from simdx.report.plots import Estimate, interval_plot

ORDER = 10
ARTEFACT = "main-results"
METRICS = ("accuracy", "macro_f1", "brier", "ece", "entropy_bits")
HEADINGS = ("accuracy", "macro F1", "Brier", "ECE", "entropy, bits")
ASKED_HERE = ("logits", "elicited", "ensemble")


def run(context: Context) -> Finding:
    tables, figures, verdicts, data = [], [], [], {}
    for panel in context.panels:
        rows = _rows(context, panel)
        data[panel] = {row["name"]: row["scores"] for row in rows}
        tables.append(_table(panel, rows))
        tables.append(_means(context, panel))
        figures.append(_figure(panel, rows))
        verdicts += _verdicts(context, panel, rows)
    return Finding(
        tuple(tables), tuple(figures), tuple(verdicts), context.n, models_used(context), data, context.notes
    )


def _rows(context: Context, panel: str) -> list[dict[str, Any]]:
    rows = []
    for one in _asked(context, panel):
        y = context.labels(panel)[one.positions]
        scores = context.evaluate(one.probabilities, y, f"asked {panel} {one.name}")
        answered = float((one.readable > 0).mean())
        rows.append(
            {"name": one.name, "method": PAPER_ASKING[one.method], "scores": scores, "answered": answered}
        )
    for bank in (REFERENCE, *context.banks(panel)):
        scores = context.scores(spec_of(M_SMC, panel, bank))
        rows.append({"name": f"{M_SMC}, {bank}", "method": M_SMC, "scores": scores, "answered": None})
    for name in (M_PARTICLES, RECIPE):
        scores = context.scores(spec_of(name, panel))
        rows.append({"name": f"{name}, {REFERENCE}", "method": name, "scores": scores, "answered": None})
    return rows


def _asked(context: Context, panel: str) -> list[Asked]:
    return [one for one in context.asked(panel) if one.method in ASKED_HERE]


def _table(panel: str, rows: list[dict[str, Any]]) -> Table:
    shown = [
        (
            row["name"],
            str(row["scores"]["n"]),
            *(cell(row["scores"], metric) for metric in METRICS),
            "" if row["answered"] is None else f"{row['answered']:.0%}",
        )
        for row in rows
    ]
    note = (
        "Each M-SMC row is one bank: the packaged one (reference), its two files alone, and those that "
        "models "
        "wrote. A case without a readable reply is answered by the prior and counts as such."
    )
    return Table(
        f"{panel}: every method and bank", ("method", "n", *HEADINGS, "answered"), tuple(shown), note
    )


def _means(context: Context, panel: str) -> Table:
    """One line a method: our mean over simulators beside the paper's over models."""
    lines: list[tuple[str, ...]] = []
    used: list[Quote | None] = []
    for method, scores in _by_method(context, panel).items():
        line = [method, str(len(scores))]
        for metric in METRICS:
            found = theirs(ARTEFACT, metric, panel, theirs_name(method))
            used.append(found)
            line += [ranged([s[metric] for s in scores]), quoted(found)]
        lines.append(tuple(line))
    columns = ["method", "simulators"] + [c for h in HEADINGS for c in (h, f"{h}, paper")]
    title = f"{panel} beside the paper's {PAPER_NAMES[panel]}: mean over simulators (least–most)"
    return Table(title, tuple(columns), tuple(lines), doubts(used))


def _by_method(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in _asked(context, panel):
        y = context.labels(panel)[one.positions]
        scores = context.evaluate(one.probabilities, y, f"asked {panel} {one.name}")
        found.setdefault(PAPER_ASKING[one.method], []).append(scores)
    for name in (M_SMC, RECIPE):
        found[name] = [context.scores(spec_of(name, panel, bank)) for bank in context.banks(panel)]
    return found


def _figure(panel: str, rows: list[dict[str, Any]]) -> Figure:
    styles = {"ML": 1, "EP": 2, "PE": 3, M_SMC: 0, M_PARTICLES: 4, RECIPE: 5}
    estimates = []
    for row in rows:
        low, high = row["scores"]["ci"]["accuracy"] or (None, None)
        paper = theirs(ARTEFACT, "accuracy", panel, theirs_name(row["method"]))
        value = None if paper is None else paper.value
        estimates.append(
            Estimate(row["name"], row["scores"]["accuracy"], low, high, value, styles[row["method"]])
        )
    drawing = interval_plot(f"Accuracy on {panel}", "accuracy", estimates, x=(0.0, 1.0))
    caption = f"Accuracy on {panel} with 95 % intervals; diamonds: the paper's mean over six models."
    return Figure(f"accuracy-{panel}", drawing, caption)


def _verdicts(context: Context, panel: str, rows: list[dict[str, Any]]) -> list[str]:
    said = []
    asked = _asked(context, panel)
    wins = comparisons = 0
    for one in asked:
        bank = own_bank(context, panel, one)
        y = context.labels(panel)[one.positions]
        p = context.probabilities(spec_of(M_SMC, panel, bank))[one.positions]
        wins += int((p.argmax(axis=1) == y).mean() > (one.probabilities.argmax(axis=1) == y).mean())
        comparisons += 1
    if asked:
        own = sorted({own_bank(context, panel, one) for one in asked})
        caution = (
            " The packaged bank is not by the models asked, so a better simulator is part of the gap."
            if REFERENCE in own
            else ""
        )
        said.append(
            f"{panel}: M-SMC is right more often than asking in {counted(wins, comparisons, 'comparisons')} "
            f"on the same cases (simulations of {', '.join(own)}), {agreement(2 * wins > comparisons)}, "
            f"where it wins on average on every data set.{caution}"
        )
    ours = [context.scores(spec_of(M_SMC, panel, bank))["accuracy"] for bank in context.banks(panel)]
    found = mean_and_range(ours)
    theirs_each = [
        q.value
        for q in quotes(ARTEFACT, quantity="accuracy", data=data_of_panel(panel), method=M_SMC)
        if q.model
    ]
    if found is not None and theirs_each:
        said.append(
            f"{panel}: M-SMC's accuracy runs from {found[1]:.3f} to {found[2]:.3f} over {len(ours)} banks; "
            "the "
            f"paper's from {min(theirs_each):.3f} to {max(theirs_each):.3f} over {len(theirs_each)} models."
        )
    if not asked:
        said.append(f"{panel}: no record of asking a model is at hand, so only inference is shown.")
    hard, best = (context.scores(spec_of(name, panel)) for name in (M_SMC, RECIPE))
    paper = theirs(ARTEFACT, "accuracy", panel, M_SMC)
    if paper is not None:
        where = placed(hard["accuracy"], hard["ci"]["accuracy"], paper.value)
        said.append(
            f"{panel}: M-SMC on the packaged bank is right in {cell(hard, 'accuracy')} of the cases; the "
            "paper's "
            f"mean of {paper.value:.3f} lies {where} that interval, and {_beside(best, paper.value)} the "
            "recipe's."
        )
    said.append(
        f"{panel}: on the packaged bank the recipe reaches accuracy {best['accuracy']:.3f} and ECE "
        f"{best['ece']:.3f}, plain M-SMC on the same bank {hard['accuracy']:.3f} and {hard['ece']:.3f}."
    )
    return said


def _beside(scores: dict[str, Any], paper: float) -> str:
    return placed(scores["accuracy"], scores["ci"]["accuracy"], paper)
