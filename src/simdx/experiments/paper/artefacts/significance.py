"""Significance: paired bootstrap and mixed effects (table S2)

The paper's Table S2: the baseline's ECE minus M-SMC's on the same cases, 10,000 paired resamples, and a
regression with the model as random intercept. Beside the ways of asking stand the embedding baselines,
which need no model. With too few models the regression is refused rather than fitted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.compare import counted
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import ABI, ASKING, D_SMC, M_SMC, RECIPE, models_used, own_bank, spec_of
from simdx.experiments.paper.spec import REFERENCE, Spec
from simdx.experiments.paper.theirs import data_of_panel, over_models, quote
from simdx.experiments.paper.words import theirs as quoted
from simdx.metrics.mixed import MixedFit, mixed_effects
from simdx.metrics.significance import Difference, paired_bootstrap
from simdx.report.plots import Estimate, interval_plot
from simdx.types import Float, Int

ORDER = 315
ARTEFACT = "significance"
METRICS = ("ece", "error_auroc", "e_aurc", "accuracy")
HEADINGS = ("Δ ECE", "Δ error AUROC", "Δ E-AURC", "Δ accuracy")
SIMILARITY = ("centroid", "tfidf", "zero-shot", "bank-logistic")


def run(context: Context) -> Finding:
    tables, figures, verdicts, data = [], [], [], {}
    for panel in context.panels:
        found = _differences(context, panel)
        fits = _regressions(context, panel)
        data[panel] = {
            "differences": {name: {m: _plain(d) for m, d in row.items()} for name, _, row in found},
            "regressions": {name: _fit_record(fit) for name, fit in fits.items()},
        }
        tables += [_table(panel, found), _fits_table(panel, fits)]
        figures.append(_figure(panel, found))
        verdicts += _verdicts(panel, found, fits)
    return Finding(
        tuple(tables), tuple(figures), tuple(verdicts), context.n, models_used(context), data, context.notes
    )


Row = tuple[str, str, dict[str, Difference]]  # name, the paper's method or "", differences by metric


def _differences(context: Context, panel: str) -> list[Row]:
    rows: list[Row] = []
    y = context.labels(panel)
    for one in context.asked(panel):
        bank = own_bank(context, panel, one)
        ours = context.probabilities(spec_of(M_SMC, panel, bank))[one.positions]
        name = f"{one.name} − M-SMC over {bank}"
        method = PAPER_ASKING[one.method]
        rows.append(
            (name, method, _paired(context, ours, one.probabilities, y[one.positions], f"{panel} {name}"))
        )
    ours = context.probabilities(spec_of(M_SMC, panel))
    others = {name: spec_of(name, panel) for name in (D_SMC, ABI, RECIPE)}
    others |= {name: Spec(panel, name) for name in SIMILARITY}
    others["centroid, softmax"] = replace(Spec(panel, "centroid"), kernel="soft")
    for other, spec in others.items():
        name = f"{other} − M-SMC, {REFERENCE}"
        rows.append((name, "", _paired(context, ours, context.probabilities(spec), y, f"{panel} {name}")))
    return rows


def _paired(context: Context, ours: Float, other: Float, y: Int, what: str) -> dict[str, Difference]:
    return paired_bootstrap(
        ours,
        other,
        y,
        metrics=METRICS,
        resamples=context.size.paired_resamples,
        rng=context.rng("paired", what),
    )


def _regressions(context: Context, panel: str) -> dict[str, MixedFit]:
    """ECE on method with the simulator as random intercept: asked models, and banks."""
    fits = {}
    values, methods, models = [], [], []
    for one in context.asked(panel):
        y = context.labels(panel)[one.positions]
        scores = context.evaluate(one.probabilities, y, f"asked {panel} {one.name}")
        values.append(scores["ece"])
        methods.append(PAPER_ASKING[one.method])
        models.append(one.simulator)
        if one.method == "logits":
            p = context.probabilities(spec_of(M_SMC, panel, own_bank(context, panel, one)))[one.positions]
            values.append(context.evaluate(p, y, f"asked cases {panel} {one.simulator}")["ece"])
            methods.append(M_SMC)
            models.append(one.simulator)
    reference = "ML" if "ML" in methods else None
    fits["asking and M-SMC, model random"] = mixed_effects(values, methods, models, reference=reference)
    values, methods, models = [], [], []
    for bank in context.banks(panel):
        for name in (M_SMC, D_SMC, RECIPE):
            values.append(context.scores(spec_of(name, panel, bank))["ece"])
            methods.append(name)
            models.append(bank)
    fits["inference, bank random"] = mixed_effects(values, methods, models, reference=M_SMC)
    return fits


def _table(panel: str, found: list[Row]) -> Table:
    rows = []
    for name, method, row in found:
        about = {"data": data_of_panel(panel), "method": method or None}
        paper = over_models(ARTEFACT, "delta_ece", **about) if method else None
        cells = [_difference(row[metric]) for metric in METRICS]
        rows.append((name, cells[0], quoted(paper), *cells[1:]))
    columns = ("compared", HEADINGS[0], "Δ ECE, paper (mean, least–most)", *HEADINGS[1:])
    note = (
        "Other method minus M-SMC on the same cases; a positive Δ ECE or Δ E-AURC favours M-SMC. p two-sided."
    )
    return Table(f"{panel}: paired bootstrap over cases", columns, tuple(rows), note)


def _difference(found: Difference) -> str:
    if found.difference is None or found.low is None or found.high is None:
        return number(found.difference)
    p = "" if found.p_value is None else f", p {found.p_value:.2g}"
    return f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}]{p}"


def _fits_table(panel: str, fits: dict[str, MixedFit]) -> Table:
    rows = []
    paper = quote(ARTEFACT, "delta_ece", data=data_of_panel(panel), method="ML")
    for name, fit in fits.items():
        if fit.reason is not None:
            rows.append((name, str(fit.n_models), f"refused: {fit.reason}", "–"))
        for effect in fit.effects:
            span = f"{effect.estimate:+.3f} [{effect.low:+.3f}, {effect.high:+.3f}]"
            words = f"{effect.method} − {fit.reference}: {span}"
            beside = "–"
            if effect.method == M_SMC and fit.reference == "ML" and paper is not None:
                beside = f"{-paper.value:+.3f} [{-(paper.high or 0):+.3f}, {-(paper.low or 0):+.3f}]"
            rows.append((name, str(fit.n_models), f"{words}, p {effect.p_value:.2g}", beside))
    title = f"{panel}: mixed-effects regression of ECE"
    return Table(title, ("regression", "groups", "effect", "paper"), tuple(rows))


def _figure(panel: str, found: list[Row]) -> Figure:
    estimates = []
    for name, method, row in found:
        paper = (
            over_models(ARTEFACT, "delta_ece", data=data_of_panel(panel), method=method) if method else None
        )
        d = row["ece"]
        value = None if paper is None else paper.value
        estimates.append(Estimate(name, d.difference, d.low, d.high, value, 1 if method in ASKING else 0))
    drawing = interval_plot(
        f"Difference of ECE on {panel}", "Δ ECE (right of zero: M-SMC is better)", estimates
    )
    caption = f"ECE of the other method minus M-SMC's on {panel}, 95 % paired bootstrap; diamonds: the paper."
    return Figure(f"delta-ece-{panel}", drawing, caption)


def _verdicts(panel: str, found: list[Row], fits: dict[str, MixedFit]) -> list[str]:
    said = []
    for title, chosen in (
        ("asking", [r for r in found if r[1]]),
        ("other inference", [r for r in found if not r[1]]),
    ):
        if not chosen:
            said.append(f"{panel}: no record of {title} is at hand.")
            continue
        better = sum((r[2]["ece"].low or 0) > 0 for r in chosen)
        # A low ECE is cheap for whoever answers at chance with even odds: the accuracy stands beside it.
        worse = [
            f"{name.split(' − ')[0]} (accuracy {row['accuracy'].difference or 0:+.2f})"
            for name, _, row in chosen
            if row["ece"].high is not None and row["ece"].high < 0
        ]
        said.append(
            f"{panel}: M-SMC's ECE is lower than that of {title} beyond doubt in "
            f"{counted(better, len(chosen), 'comparisons')}"
            + (f", and higher beyond doubt against {', '.join(worse)}" if worse else "")
            + (" (the paper: 24 of 24 on MultiCaRe)." if title == "asking" else ".")
        )
    for name, fit in fits.items():
        if fit.reason:
            said.append(f"{panel}: the regression '{name}' is refused: {fit.reason}.")
    return said


def _plain(found: Difference) -> dict[str, Any]:
    return {
        "difference": found.difference,
        "ci": [found.low, found.high],
        "p_value": found.p_value,
        "resamples": found.resamples,
        "reason": found.reason,
    }


def _fit_record(fit: MixedFit) -> dict[str, Any]:
    effects = {
        e.method: {"estimate": e.estimate, "ci": [e.low, e.high], "p_value": e.p_value} for e in fit.effects
    }
    return {"reference": fit.reference, "models": fit.n_models, "reason": fit.reason, "effects": effects}
