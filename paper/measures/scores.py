"""Headline metrics of methods, of models asked, and of either after calibration with labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper import engine
from paper.answers import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, M_SOFT, RECIPE, Spec, spec_of
from paper.asked import LEAST_READABLE, PAPER_ASKING, Asked
from paper.context import Context
from paper.measures import Measured, each_panel
from paper.tables import ALL
from paper.world import PARTS, REFERENCE
from simdx.datasets.dataset import make_splits
from simdx.errors import BadInput
from simdx.metrics.calibration import apply_temperature, fit_temperature
from simdx.types import Float, Int

Rows = dict[str, dict[str, Any]]

# --------------------------------------------------------------------------- methods beside models asked


def asked_rows(context: Context, panel: str, ways: Sequence[str] = tuple(PAPER_ASKING)) -> Rows:
    """The scores of each model and way of asking."""
    return {
        one.name: {
            **context.asked_scores(panel, one), "method": one.way, "own_bank": context.own_bank(panel, one),
        }
        for one in context.asked(panel)
        if one.method in ways
    }  # fmt: skip


def simulators(context: Context, panel: str) -> tuple[str, ...]:
    """Models that were asked and wrote a bank; every bank where none was asked."""
    asked = {one.model for one in context.asked(panel)}
    return tuple(m for m in context.models(panel) if m in asked) or context.banks(panel)


def row_of(context: Context, panel: str, name: str, bank: str = REFERENCE) -> dict[str, Any]:
    return {**context.scores(spec_of(name, panel, bank)), "method": name, "bank": bank}


def main_results(context: Context) -> Measured:
    def measure(panel: str) -> Rows:
        rows = asked_rows(context, panel, ("logits", "elicited", "ensemble"))
        for bank in (*context.packaged(REFERENCE, *PARTS), *context.models(panel)):
            rows[f"{M_SMC}, {bank}"] = row_of(context, panel, M_SMC, bank)
        for name in context.packaged(M_PARTICLES, RECIPE):
            rows[f"{name}, {REFERENCE}"] = row_of(context, panel, name)
        for name in context.packaged(M_SMC, RECIPE):
            # Over the banks of the models that were asked: the same simulators on both sides of a mean.
            each = [context.scores(spec_of(name, panel, bank)) for bank in simulators(context, panel)]
            rows[f"{name}, {REFERENCE}"]["over_banks"] = {metric: [one[metric] for one in each] for metric in ALL}
        return rows

    return each_panel(context, measure, unreadable(context))


def unreadable(context: Context) -> list[str]:
    """Ways of asking that give no row, because most of the replies are not what was asked for."""
    return [
        f"Left out: {PAPER_ASKING[one.method]} of hf:{one.model} on {panel} with free replies at {one.temperature:g}: "
        f"{round(one.answered * len(one.positions))} of {len(one.positions)} can be read."
        for panel in context.panels
        for one in context.replies(panel)
        if one.answered < LEAST_READABLE and one.bits is None
    ]


def error_detection(context: Context) -> Measured:
    def measure(panel: str) -> Rows:
        rows = {name: row_of(context, panel, name) for name in context.packaged(M_SMC, M_SOFT, D_SMC, ABI, RECIPE)}
        for bank in simulators(context, panel):
            rows |= {f"{name}, {bank}": row_of(context, panel, name, bank) for name in (M_SMC, D_SMC, ABI)}
        return rows | asked_rows(context, panel)

    return each_panel(context, measure)


def distribution_aware(context: Context) -> Measured:
    def measure(panel: str) -> list[dict[str, Any]]:
        rows, banks = list[dict[str, Any]](), simulators(context, panel)

        def add(name: str, method: str, scores: Any, seconds: Any = None, inference: Any = None, **more: Any) -> None:
            about = {"name": name, "method": method, "scores": scores, "seconds": seconds}
            rows.append(about | {"inference_seconds": inference} | more)

        for one in (one for one in context.asked(panel) if one.method == "fidelity"):
            bank, y = context.own_bank(panel, one), context.labels(panel)[one.positions]
            p = context.probabilities(spec_of(D_SMC, panel, bank if bank in banks else REFERENCE))[one.positions]
            gap = context.paired(one.probabilities, p, y, ("accuracy",), "distribution-aware", panel, one.name)
            more = {"own_bank": bank, "d_smc_minus_asking": gap["accuracy"]}
            add(one.name, one.way, context.asked_scores(panel, one), one.seconds_per_case, **more)
        for name in context.packaged(D_SMC, D_PARTICLES, ABI, M_SMC, RECIPE):
            took, scores = context.seconds(spec_of(name, panel)), context.scores(spec_of(name, panel))
            add(name, name, scores, took["infer_seconds"] + took["embed_seconds"], took["infer_seconds"])
        for bank in banks:
            for name in (D_SMC, *context.packaged(ABI)):
                add(f"{name}, {bank}", name, context.scores(spec_of(name, panel, bank)))
        return rows

    return each_panel(context, measure)


# --------------------------------------------------------------------------- with labels

CENTROID, SUPERVISED = "centroid", "logistic + TS on the calibration fifth"
CEILING = "supervised ceiling (four fifths)"
LEAST_PER_LABEL = 2  # labelled cases a supervised model needs of every label
UNIFORM = 0.02  # mixed into answers before they are scaled: a hard zero would decide the temperature alone
LEAST_CASES = 10  # fewer cannot be split into fitting and scoring


def floored(p: Float) -> Float:
    return (1 - UNIFORM) * p + UNIFORM / p.shape[1]


def calibrated_embedding(context: Context) -> Measured:
    notes: list[str] = []
    data = {panel: _calibrated(context, panel, notes) for panel in context.panels}
    return Measured(data, context.n, notes)


def _calibrated(context: Context, panel: str, notes: list[str]) -> dict[str, Any]:
    y, k, share = context.labels(panel), len(context.names(panel)), engine.CALIBRATION_SHARE
    dataset = context.cases(panel).dataset
    parts = make_splits(dataset, {"calibration": share, "test": 1 - share}, seed=context.seed)
    fit, kept = (np.array(parts[name], dtype=np.int64) for name in ("calibration", "test"))
    # Cosines as they are give answers close to uniform; the softmax has a temperature to fit.
    answers = {CENTROID: context.probabilities(Spec(panel, "centroid", kernel="soft"))}
    answers |= {name: context.probabilities(spec_of(name, panel)) for name in (M_SMC, D_SMC, ABI, RECIPE)}
    found: dict[str, tuple[Float, float | None]] = {n: (answers[n][kept], None) for n in (M_SMC, RECIPE)}
    for name, p in answers.items():
        soft = floored(p)
        temperature = fit_temperature(soft[fit], y[fit]).value
        found[f"{name} + TS"] = apply_temperature(soft[kept], temperature), temperature
    vectors = np.asarray(context.observations(panel).vectors, dtype=float)
    least = int(np.bincount(y[fit], minlength=k).min())
    if least >= LEAST_PER_LABEL:
        p, temperature = engine.logistic_on(vectors, y, fit, k, context.seed)
        found[SUPERVISED] = apply_temperature(p[kept], temperature), temperature
    else:
        notes.append(f"{panel}: a label has {least} calibration cases, too few for '{SUPERVISED}'.")
    try:
        ceiling = engine.supervised_ceiling(vectors, y, k, dataset.texts, seed=context.seed)
        found[CEILING] = ceiling[kept], None
    except BadInput as reason:
        notes.append(f"{panel}: no supervised ceiling: {reason}.")
    rows = {}
    for name, (p, scaled_by) in found.items():
        scores = context.evaluate(p, y[kept], f"calibrated-embedding {panel} {name}")
        rows[name] = {"scores": scores, "temperature": scaled_by}
    return {"calibration_cases": len(fit), "test_cases": len(kept), "rows": rows}


def post_hoc_calibration(context: Context) -> Measured:
    def measure(panel: str) -> list[dict[str, Any]]:
        every = np.arange(context.cases(panel).n)
        blocks = [_scaled_block(context, panel, every, bank, (), "") for bank in context.packaged(REFERENCE)]
        by_model: dict[str, list[Asked]] = {}
        for one in context.asked(panel):
            if len(one.positions) >= LEAST_CASES:
                by_model.setdefault(one.simulator, []).append(one)
        for simulator, ways in by_model.items():
            # Models may have been asked about a subset; every row of the block is scored on it.
            shared = ways[0].positions
            same = [way for way in ways if np.array_equal(way.positions, shared)]
            blocks.append(_scaled_block(context, panel, shared, context.own_bank(panel, ways[0]), same, simulator))
        return blocks

    return each_panel(context, measure)


def _scaled_block(
    context: Context, panel: str, positions: Int, bank: str, ways: Sequence[Asked], simulator: str
) -> dict[str, Any]:
    """Answers before and after temperature scaling, all on the same cases."""
    cases, y = context.cases(panel), context.labels(panel)[positions]
    dataset = cases.dataset.subset(positions.tolist())
    answers = {way.way: way.probabilities for way in ways}
    for name in (M_SMC, *context.packaged(RECIPE)):
        answers[name] = context.probabilities(spec_of(name, panel, bank))[positions]
    rows: dict[str, Any] = {}
    for name, p in answers.items():
        scaled = engine.temperature_scaled(floored(p), dataset, cases.names, seed=context.seed)
        kept, about = scaled.kept, f"post-hoc-calibration {panel} {simulator} {bank} {name}"
        rows[name] = {"scores": context.evaluate(p[kept], y[kept], about), "temperature": None}
        after = context.evaluate(scaled.probabilities, y[kept], f"{about} scaled")
        rows[f"{name} + TS"] = {"scores": after, "temperature": scaled.temperature.value}
    title = f"asked {simulator}, simulations of {bank}" if simulator else f"simulations of {bank}"
    return {"title": title, "rows": rows}
