"""Risk–coverage curves (figure 2b)

The paper's Figure 2b (its SD, one model), here on every panel: the error rate among the most certain cases,
by predictive entropy. A score that ranks well gives a curve that only rises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.experiments.paper.artefact import Figure, Finding, Table
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.compare import theirs
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import ABI, D_SMC, M_SMC, RECIPE, models_used, spec_of, theirs_name
from simdx.experiments.paper.words import theirs as quoted
from simdx.metrics.selective import errors, risk_coverage, uncertainty
from simdx.report.plots import Series, line_plot
from simdx.types import Float, Int

ORDER = 50
ARTEFACT = "risk-coverage"
METHODS = (M_SMC, D_SMC, ABI, RECIPE)
SHOWN_AT = (0.2, 0.5, 0.8, 1.0)


def run(context: Context) -> Finding:
    tables, figures, verdicts = [], [], []
    data: dict[str, Any] = {}
    for panel in context.panels:
        curves = _curves(context, panel)
        data[panel] = {name: _thinned(curve) for name, curve in curves.items()}
        tables.append(_table(panel, curves))
        figures.append(_figure(panel, curves))
        verdicts += _verdicts(panel, curves)
    return Finding(
        tuple(tables), tuple(figures), tuple(verdicts), context.n, models_used(context), data, context.notes
    )


def _curves(context: Context, panel: str) -> dict[str, dict[str, Any]]:
    y = context.labels(panel)
    curves = {name: _curve(context.probabilities(spec_of(name, panel)), y, name) for name in METHODS}
    for one in context.asked(panel):
        curves[one.name] = _curve(one.probabilities, y[one.positions], PAPER_ASKING[one.method])
    return curves


def _curve(p: Float, y: Int, method: str) -> dict[str, Any]:
    found = risk_coverage(uncertainty(p), errors(p, y))
    return {"coverage": found.coverage, "risk": found.risk, "n": len(y), "method": method}


def _at(curve: dict[str, Any], coverage: float) -> float:
    kept = max(1, int(np.ceil(coverage * curve["n"] - 1e-9)))
    return float(curve["risk"][kept - 1])


def _thinned(curve: dict[str, Any]) -> dict[str, Any]:
    """At most a hundred points a curve are kept on record."""
    chosen = np.unique(np.linspace(0, curve["n"] - 1, min(100, curve["n"])).astype(int))
    return {
        "n": curve["n"],
        "coverage": curve["coverage"][chosen].round(4),
        "risk": curve["risk"][chosen].round(4),
        "rises": _rising_share(curve),
    }


def _rising_share(curve: dict[str, Any]) -> float:
    """Rank correlation of risk with coverage above a tenth: one for a curve that only rises."""
    from scipy.stats import spearmanr

    kept = curve["coverage"] >= 0.1
    if kept.sum() < 3 or np.ptp(curve["risk"][kept]) == 0:
        return 1.0
    return float(spearmanr(curve["coverage"][kept], curve["risk"][kept]).statistic)


def _table(panel: str, curves: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for name, curve in curves.items():
        paper = [
            theirs(ARTEFACT, f"risk_at_{c:.0%}"[:-1], panel, theirs_name(curve["method"])) for c in (0.8, 1.0)
        ]
        risks = [f"{_at(curve, c):.3f}" for c in SHOWN_AT]
        rows.append(
            (name, str(curve["n"]), *risks, *(quoted(p) for p in paper), f"{_rising_share(curve):.2f}")
        )
    heads = [f"risk at {c:.0%}" for c in SHOWN_AT]
    columns = ("method", "n", *heads, "at 80 %, paper", "at 100 %, paper", "rises")
    note = "rises: rank correlation of risk with coverage above 10 %; 1 is a curve that only rises."
    return Table(f"{panel}: error rate among the most certain cases", columns, tuple(rows), note)


def _figure(panel: str, curves: dict[str, dict[str, Any]]) -> Figure:
    series = []
    for name, curve in curves.items():
        thin = _thinned(curve)
        series.append(Series(name, thin["coverage"].tolist(), thin["risk"].tolist()))
    drawing = line_plot(
        f"Risk–coverage on {panel}", "coverage (most certain first)", "error rate", series, x=(0.0, 1.0)
    )
    return Figure(f"risk-coverage-{panel}", drawing, f"Error rate against coverage on {panel}, by entropy.")


def _verdicts(panel: str, curves: dict[str, dict[str, Any]]) -> list[str]:
    m = curves[M_SMC]
    said = [
        f"{panel}: keeping the most certain 80 % lowers M-SMC's error rate from {_at(m, 1.0):.3f} to "
        f"{_at(m, 0.8):.3f}, the recipe's from {_at(curves[RECIPE], 1.0):.3f} to "
        f"{_at(curves[RECIPE], 0.8):.3f}."
    ]
    rises = {name: _rising_share(curve) for name, curve in curves.items()}
    asked = {name: value for name, value in rises.items() if name not in METHODS}
    if asked:
        worst = min(asked, key=lambda name: asked[name])
        ordered = "as in the paper" if asked[worst] < rises[M_SMC] else "unlike the paper"
        said.append(
            f"{panel}: M-SMC's curve rises with rank correlation {rises[M_SMC]:.2f}; the least orderly way "
            "of "
            f"asking, {worst}, with {asked[worst]:.2f}, {ordered}."
        )
    return said
