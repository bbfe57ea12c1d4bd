"""Does the uncertainty identify the errors? (table 3)

The paper's Table 3: predictive entropy as the score, misclassification as the positive class, on its hardest
data set; here on every panel. E-AURC takes the accuracy out of the area under the risk–coverage curve.
"""

from __future__ import annotations

from typing import Any

from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.compare import counted, placed, ranged, theirs
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import (
    ABI,
    ASKING,
    D_SMC,
    M_SMC,
    M_SOFT,
    RECIPE,
    models_used,
    spec_of,
    theirs_name,
)
from simdx.experiments.paper.words import doubts
from simdx.experiments.paper.words import ours as cell
from simdx.experiments.paper.words import theirs as quoted
from simdx.experiments.paper.world import PAPER_NAMES
from simdx.report.plots import Estimate, interval_plot

ORDER = 30
ARTEFACT = "error-detection"
METRICS = ("accuracy", "error_auroc", "e_aurc", "risk_at_80")
HEADINGS = ("accuracy", "error AUROC", "E-AURC", "risk at 80 %")
METHODS = (M_SMC, M_SOFT, D_SMC, ABI, RECIPE)


def run(context: Context) -> Finding:
    tables, figures, verdicts, data = [], [], [], {}
    for panel in context.panels:
        rows = _rows(context, panel)
        data[panel] = {row["name"]: row["scores"] for row in rows}
        tables += [_table(panel, rows), _ranges(context, panel)]
        figures.append(_figure(panel, rows))
        verdicts += _verdicts(context, panel, rows)
    return Finding(
        tuple(tables), tuple(figures), tuple(verdicts), context.n, models_used(context), data, context.notes
    )


def _rows(context: Context, panel: str) -> list[dict[str, Any]]:
    rows = [
        {"name": name, "method": name, "scores": context.scores(spec_of(name, panel))} for name in METHODS
    ]
    for one in context.asked(panel):
        y = context.labels(panel)[one.positions]
        scores = context.evaluate(one.probabilities, y, f"asked {panel} {one.name}")
        rows.append({"name": one.name, "method": PAPER_ASKING[one.method], "scores": scores})
    return rows


def _table(panel: str, rows: list[dict[str, Any]]) -> Table:
    shown, used = [], []
    for row in rows:
        line = [row["name"], str(row["scores"]["n"])]
        for metric in METRICS:
            digits = 4 if metric in ("e_aurc", "risk_at_80") else 3
            found = theirs(ARTEFACT, metric, panel, theirs_name(row["method"]))
            used.append(found)
            line += [cell(row["scores"], metric, digits), quoted(found, digits)]
        shown.append(tuple(line))
    columns = ["method", "n"] + [c for h in HEADINGS for c in (h, f"{h}, paper")]
    note = "The paper gives this table for MultiCaRe alone. " + doubts(used)
    return Table(f"{panel}, packaged bank ({PAPER_NAMES[panel]})", tuple(columns), tuple(shown), note.strip())


def _ranges(context: Context, panel: str) -> Table:
    lines = []
    for name in METHODS:
        scores = [context.scores(spec_of(name, panel, bank)) for bank in context.banks(panel)]
        lines.append((name, str(len(scores)), *(ranged([s[m] for s in scores]) for m in METRICS)))
    for method in ASKING:
        scores = [
            context.evaluate(
                one.probabilities, context.labels(panel)[one.positions], f"asked {panel} {one.name}"
            )
            for one in context.asked(panel)
            if PAPER_ASKING[one.method] == method
        ]
        if scores:
            lines.append((method, str(len(scores)), *(ranged([s[m] for s in scores]) for m in METRICS)))
    title = f"{panel}: mean over simulators (least–most)"
    return Table(title, ("method", "simulators", *HEADINGS), tuple(lines))


def _figure(panel: str, rows: list[dict[str, Any]]) -> Figure:
    estimates = []
    for row in rows:
        low, high = row["scores"]["ci"]["error_auroc"] or (None, None)
        found = theirs(ARTEFACT, "error_auroc", panel, theirs_name(row["method"]))
        value = None if found is None else found.value
        style = 0 if row["method"] in METHODS else 1
        estimates.append(Estimate(row["name"], row["scores"]["error_auroc"], low, high, value, style))
    drawing = interval_plot(
        f"Error-detection AUROC on {panel}", "error-detection AUROC", estimates, x=(0.2, 1.0)
    )
    caption = f"How well entropy ranks wrong answers above right ones on {panel}; one half is chance."
    return Figure(f"error-auroc-{panel}", drawing, caption)


def _verdicts(context: Context, panel: str, rows: list[dict[str, Any]]) -> list[str]:
    by = {row["name"]: row["scores"] for row in rows}
    said = []
    ours = by[M_SMC]
    found = theirs(ARTEFACT, "error_auroc", panel, M_SMC)
    if found is not None and ours["error_auroc"] is not None:
        where = placed(ours["error_auroc"], ours["ci"]["error_auroc"], found.value)
        said.append(
            f"{panel}: M-SMC's entropy finds its errors with AUROC {number(ours['error_auroc'])}; the "
            "paper's "
            f"{found.value:.3f} lies {where} our interval (the recipe: {number(by[RECIPE]['error_auroc'])})."
        )
    asked = [row for row in rows if row["method"] in ASKING]
    for metric, better in (("error_auroc", 1), ("e_aurc", -1)):
        pairs = [
            (by[M_SMC][metric], row["scores"][metric])
            for row in asked
            if row["scores"][metric] is not None and by[M_SMC][metric] is not None
        ]
        if pairs:
            wins = sum(better * (a - b) > 0 for a, b in pairs)
            said.append(
                f"{panel}: M-SMC is better than asking by {HEADINGS[METRICS.index(metric)]} in "
                f"{counted(wins, len(pairs), 'comparisons')} (the paper: all 24 on MultiCaRe)."
            )
    if not asked:
        said.append(f"{panel}: no record of asking is at hand, so only inference is compared.")
    return said
