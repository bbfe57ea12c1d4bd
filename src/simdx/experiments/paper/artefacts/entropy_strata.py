"""Accuracy by band of entropy (table S6)

The paper's Table S6 (its SD, one model): cases below .5 bits, from .5 to 1.5, and above, here on every panel.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import binomtest

from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.asked import PAPER_ASKING
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import D_SMC, M_SMC, RECIPE, models_used, spec_of, theirs_name
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.types import Float, Int, entropy_bits

ORDER = 330
ARTEFACT = "entropy-strata"
BANDS = (("high", 0.0, 0.5), ("medium", 0.5, 1.5), ("low", 1.5, np.inf))
METHODS = (M_SMC, D_SMC, RECIPE)


def run(context: Context) -> Finding:
    tables, verdicts = [], []
    data: dict[str, Any] = {}
    for panel in context.panels:
        y = context.labels(panel)
        found = [(name, name, _strata(context.probabilities(spec_of(name, panel)), y)) for name in METHODS]
        for one in context.asked(panel):
            found.append((one.name, PAPER_ASKING[one.method], _strata(one.probabilities, y[one.positions])))
        data[panel] = {name: strata for name, _, strata in found}
        tables.append(_table(panel, found))
        verdicts += _verdicts(panel, found)
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, context.notes)


def _strata(p: Float, y: Int) -> dict[str, dict[str, Any]]:
    bits, right = entropy_bits(p), p.argmax(axis=1) == y
    strata = {}
    for name, low, high in BANDS:
        # The entropy of a certain answer may be a rounding error below nought.
        inside = (bits >= low) & (bits < high) if low else bits < high
        n = int(inside.sum())
        strata[name] = {
            "n": n,
            "share": n / len(y),
            "accuracy": float(right[inside].mean()) if n else None,
            "entropy_bits": float(bits[inside].mean()) if n else None,
            "ci": _wilson(int(right[inside].sum()), n),
        }
    return strata


def _wilson(hits: int, n: int) -> list[float] | None:
    """Wilson's 95 % interval of a share: bands may hold a handful of cases, too few to resample."""
    if not n:
        return None
    found = binomtest(hits, n).proportion_ci(method="wilson")
    return [float(found.low), float(found.high)]


def _table(panel: str, found: list[tuple[str, str, dict[str, dict[str, Any]]]]) -> Table:
    rows = []
    for name, method, strata in found:
        for band, low, high in BANDS:
            one = strata[band]
            reach = f"{low:g} to {high:g}" if np.isfinite(high) else f"from {low:g}"
            ours = "–" if one["ci"] is None else "{:.3f} [{:.3f}, {:.3f}]".format(one["accuracy"], *one["ci"])
            entropy = "–" if one["entropy_bits"] is None else f"{one['entropy_bits']:.2f}"
            about = {"data": data_of_panel(panel), "method": theirs_name(method), "setting": band}
            share, accuracy = (quote(ARTEFACT, q, **about) for q in ("share", "accuracy"))
            cells = [name, f"{band} ({reach} bits)", str(one["n"]), f"{one['share']:.1%}"]
            cells += ["–" if share is None else f"{share.value:.1%}", ours]
            cells += ["–" if accuracy is None else f"{accuracy.value:.3f}", entropy]
            rows.append(tuple(cells))
    columns = (
        "method",
        "certainty",
        "n",
        "share",
        "share, paper",
        "accuracy",
        "accuracy, paper",
        "entropy, bits",
    )
    return Table(f"{panel}: accuracy by band of entropy", columns, tuple(rows), "Wilson intervals.")


def _verdicts(panel: str, found: list[tuple[str, str, dict[str, dict[str, Any]]]]) -> list[str]:
    said = []
    for name, _, strata in found:
        known = [(band, strata[band]["accuracy"]) for band, *_ in BANDS if strata[band]["n"] >= 10]
        if len(known) < 2:
            continue
        falls = all(a[1] >= b[1] for a, b in pairwise(known))
        words = ", ".join(f"{value:.2f} where certainty is {band}" for band, value in known)
        said.append(
            f"{panel}, {name}: accuracy {words}: " + ("it falls with entropy." if falls else "no order.")
        )
    return said
