"""Is it only the embedding? Calibrated and supervised classifiers beside the Bayesian layer (table 4)

The paper's Table 4: a fifth of the cases, the same for every method, is for calibration; the rest is scored
once. Beside its centroid classifier stand the one that uses those labels fully (logistic regression with
temperature scaling) and the supervised ceiling, which trains on four fifths of the cases in turn. "Native"
rows use no label at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simdx.baselines.posthoc import SHARE
from simdx.baselines.supervised import calibrated_logistic, supervised_ceiling
from simdx.datasets.splits import make_splits
from simdx.errors import BadInput
from simdx.experiments.paper.artefact import Finding, Table
from simdx.experiments.paper.compare import agreement
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.lineup import ABI, D_SMC, M_SMC, RECIPE, models_used, spec_of
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote
from simdx.experiments.paper.words import ours as cell
from simdx.experiments.paper.words import theirs as quoted
from simdx.experiments.paper.world import PAPER_NAMES
from simdx.methods.logistic import choose_penalty
from simdx.metrics.calibration import apply_temperature, fit_temperature
from simdx.types import Float, Int

ORDER = 40
ARTEFACT = "calibrated-embedding"
METRICS = ("accuracy", "nll", "brier", "ece", "error_auroc")
HEADINGS = ("accuracy", "NLL", "Brier", "ECE", "error AUROC")
CENTROID = "centroid"
SUPERVISED, CEILING = "logistic + TS on the calibration fifth", "supervised ceiling (four fifths)"
NATIVE = (M_SMC, RECIPE)
SCALED = (CENTROID, M_SMC, D_SMC, ABI, RECIPE)
LEAST_PER_LABEL = 2  # labelled cases a supervised model needs of every label


def run(context: Context) -> Finding:
    tables, verdicts, notes = [], [], list(context.notes)
    data: dict[str, Any] = {}
    for panel in context.panels:
        fit, kept = _split(context, panel)
        rows, missing = _rows(context, panel, fit, kept)
        data[panel] = {"calibration_cases": len(fit), "test_cases": len(kept), "rows": rows}
        tables.append(_table(panel, rows, len(fit), len(kept)))
        verdicts += _verdicts(panel, {name: row["scores"] for name, row in rows.items()})
        notes += missing
    return Finding(tuple(tables), (), tuple(verdicts), context.n, models_used(context), data, tuple(notes))


def _split(context: Context, panel: str) -> tuple[Int, Int]:
    dataset = context.cases(panel).dataset
    parts = make_splits(dataset, {"calibration": SHARE, "test": 1 - SHARE}, seed=context.seed).parts
    return np.array(parts["calibration"], dtype=np.int64), np.array(parts["test"], dtype=np.int64)


def _spec(name: str, panel: str) -> Spec:
    # Cosines as they are give answers close to uniform; the softmax is the form whose temperature is fitted.
    if name == CENTROID:
        return replace(Spec(panel, "centroid"), kernel="soft")
    return spec_of(name, panel)


def _rows(context: Context, panel: str, fit: Int, kept: Int) -> tuple[dict[str, dict[str, Any]], list[str]]:
    y = context.labels(panel)
    rows: dict[str, dict[str, Any]] = {}

    def keep(name: str, p: Float, temperature: float | None = None) -> None:
        scores = context.evaluate(p, y[kept], f"{ARTEFACT} {panel} {name}")
        rows[name] = {"scores": scores, "temperature": temperature}

    for name in NATIVE:
        keep(name, context.probabilities(_spec(name, panel))[kept])
    for name in SCALED:
        p = context.probabilities(_spec(name, panel))
        temperature = fit_temperature(p[fit], y[fit]).value
        keep(f"{name} + TS", apply_temperature(p[kept], temperature), temperature)
    missing = []
    vectors = np.asarray(context.observations(panel).vectors, dtype=float)
    k = len(context.names(panel))
    counts = np.bincount(y[fit], minlength=k)
    if counts.min() >= LEAST_PER_LABEL:
        penalty = choose_penalty(vectors[fit], y[fit], k, context.seed)
        model, temperature = calibrated_logistic(vectors[fit], y[fit], k, penalty, context.seed)
        keep(SUPERVISED, apply_temperature(model.probabilities(vectors[kept]), temperature), temperature)
    else:
        missing.append(f"{panel}: a label has {counts.min()} calibration cases, too few for '{SUPERVISED}'.")
    try:
        texts = context.cases(panel).dataset.texts
        keep(CEILING, supervised_ceiling(vectors, y, k, texts, seed=context.seed)[kept])
    except BadInput as reason:
        missing.append(f"{panel}: no supervised ceiling: {reason}.")
    return rows, missing


def _table(panel: str, rows: dict[str, dict[str, Any]], fitted: int, tested: int) -> Table:
    shown = []
    for name, row in rows.items():
        line = [name, "–" if row["temperature"] is None else f"{row['temperature']:.2f}"]
        for metric in METRICS:
            found = quote(ARTEFACT, metric, data=data_of_panel(panel), method=name)
            line += [cell(row["scores"], metric), quoted(found)]
        shown.append(tuple(line))
    columns = ["method", "T"] + [c for h in HEADINGS for c in (h, f"{h}, paper")]
    title = f"{panel} ({PAPER_NAMES[panel]}): {fitted} cases for calibration, {tested} scored"
    note = "TS: temperature scaling. The paper gives this table for one model on MultiCaRe alone."
    return Table(title, tuple(columns), tuple(shown), note)


def _verdicts(panel: str, scores: dict[str, dict[str, Any]]) -> list[str]:
    centroid, m, abi = scores[f"{CENTROID} + TS"], scores[M_SMC], scores[f"{ABI} + TS"]
    said = [
        f"{panel}: with a fifth of the labels the centroid classifier reaches ECE {centroid['ece']:.3f}; "
        "M-SMC "
        f"without any label {m['ece']:.3f}, the recipe without any {scores[RECIPE]['ece']:.3f}.",
        f"{panel}: ABI + TS has {'the better' if abi['brier'] < centroid['brier'] else 'no better a'} Brier "
        "score "
        f"than centroid + TS ({abi['brier']:.3f} against {centroid['brier']:.3f}), "
        f"{agreement(abi['brier'] < centroid['brier'])}.",
    ]
    if SUPERVISED in scores:
        s, r = scores[SUPERVISED], scores[RECIPE]
        ahead = "behind" if s["brier"] > r["brier"] else "ahead of"
        said.append(
            f"{panel}: logistic regression on the same fifth of labels (accuracy {s['accuracy']:.3f}, Brier "
            f"{s['brier']:.3f}) is {ahead} the recipe without labels ({r['accuracy']:.3f}, {r['brier']:.3f})."
        )
    if CEILING in scores:
        c = scores[CEILING]
        said.append(
            f"{panel}: with four fifths of the labels the ceiling is {c['accuracy']:.3f} (Brier "
            f"{c['brier']:.3f})."
        )
    return said
