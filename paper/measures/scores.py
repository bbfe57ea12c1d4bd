"""Headline metrics of methods, of models asked, and of either after calibration with labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.asked import LEAST_READABLE, PAPER_ASKING, Asked
from paper.context import Context
from paper.measures import Measured, per_panel
from paper.tables import ALL
from paper.world import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, M_SOFT, PARTS, RECIPE, REFERENCE, Spec, spec_of
from simdx.baselines.supervised import SHARE, calibrated_logistic, supervised_ceiling, temperature_scaled
from simdx.datasets.dataset import make_splits
from simdx.errors import BadInput
from simdx.methods.logistic import choose_penalty
from simdx.metrics.calibration import apply_temperature, fit_temperature
from simdx.types import Float, Int

Rows = dict[str, dict[str, Any]]

# --------------------------------------------------------------------------- methods beside models asked


def asked_rows(context: Context, panel: str, methods: Sequence[str] = tuple(PAPER_ASKING)) -> Rows:
    """The scores of each model and way of asking."""
    return {
        one.name: {**context.asked_scores(panel, one), "method": one.way, "own_bank": context.own_bank(panel, one)}
        for one in context.asked(panel)
        if one.method in methods
    }


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
            each = [context.scores(spec_of(name, panel, bank)) for bank in context.simulators(panel)]
            rows[f"{name}, {REFERENCE}"]["over_banks"] = {metric: [one[metric] for one in each] for metric in ALL}
        return rows

    return Measured({panel: measure(panel) for panel in context.panels}, context.n, unreadable(context))


def unreadable(context: Context) -> list[str]:
    """Ways of asking that give no row, because most of the replies are not what was asked for."""
    return [
        f"Left out: {PAPER_ASKING[one.method]} of hf:{one.model} on {panel} with free replies at {one.temperature:g}: "
        f"{round(one.answered * len(one.positions))} of {len(one.positions)} can be read."
        for panel in context.panels
        for one in context.replies(panel)
        if one.answered < LEAST_READABLE and one.bits is None
    ]


@per_panel
def error_detection(context: Context, panel: str) -> Rows:
    rows = {name: row_of(context, panel, name) for name in context.packaged(M_SMC, M_SOFT, D_SMC, ABI, RECIPE)}
    for bank in context.simulators(panel):
        rows |= {f"{name}, {bank}": row_of(context, panel, name, bank) for name in (M_SMC, D_SMC, ABI)}
    return rows | asked_rows(context, panel)


@per_panel
def distribution_aware(context: Context, panel: str) -> list[dict[str, Any]]:
    banks, rows = context.simulators(panel), list[dict[str, Any]]()
    timed = {"seconds": None, "inference_seconds": None}
    for name, row in asked_rows(context, panel, ("fidelity",)).items():
        one = next(asked for asked in context.asked(panel) if asked.name == name)
        bank, y = row.pop("own_bank"), context.labels(panel)[one.positions]
        p = context.probabilities(spec_of(D_SMC, panel, bank if bank in banks else REFERENCE))[one.positions]
        gap = context.paired(one.probabilities, p, y, ("accuracy",), "distribution-aware", panel, name)
        more = {"seconds": one.seconds_per_case, "own_bank": bank, "d_smc_minus_asking": gap["accuracy"]}
        rows.append({"name": name, "method": row.pop("method"), "scores": row} | timed | more)
    for name in context.packaged(D_SMC, D_PARTICLES, ABI, M_SMC, RECIPE):
        spec = spec_of(name, panel)
        took = context.seconds(spec)
        rows.append({"name": name, "method": name, "scores": context.scores(spec),
                     "seconds": took["infer_seconds"] + took["embed_seconds"],
                     "inference_seconds": took["infer_seconds"]})  # fmt: skip
    for bank in banks:
        for name in (D_SMC, *context.packaged(ABI)):
            scores = context.scores(spec_of(name, panel, bank))
            rows.append({"name": f"{name}, {bank}", "method": name, "scores": scores} | timed)
    return rows


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
    y, k, dataset = context.labels(panel), len(context.names(panel)), context.cases(panel).dataset
    parts = make_splits(dataset, {"calibration": SHARE, "test": 1 - SHARE}, seed=context.seed)
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
        penalty = choose_penalty(vectors[fit], y[fit], k, context.seed)
        model, temperature = calibrated_logistic(vectors[fit], y[fit], k, penalty, context.seed)
        found[SUPERVISED] = apply_temperature(model.probabilities(vectors)[kept], temperature), temperature
    else:
        notes.append(f"{panel}: a label has {least} calibration cases, too few for '{SUPERVISED}'.")
    try:
        found[CEILING] = supervised_ceiling(vectors, y, k, dataset.texts, seed=context.seed)[kept], None
    except BadInput as reason:
        notes.append(f"{panel}: no supervised ceiling: {reason}.")
    rows = {}
    for name, (p, scaled_by) in found.items():
        scores = context.evaluate(p, y[kept], f"calibrated-embedding {panel} {name}")
        rows[name] = {"scores": scores, "temperature": scaled_by}
    return {"calibration_cases": len(fit), "test_cases": len(kept), "rows": rows}


@per_panel
def post_hoc_calibration(context: Context, panel: str) -> list[dict[str, Any]]:
    every = np.arange(context.cases(panel).n)
    blocks = [_scaled_block(context, panel, every, bank, ()) for bank in context.packaged(REFERENCE)]
    by_model: dict[str, list[Asked]] = {}
    for one in context.asked(panel):
        if len(one.positions) >= LEAST_CASES:
            by_model.setdefault(one.simulator, []).append(one)
    for ways in by_model.values():
        # Models may have been asked about a subset; every row of the block is scored on it.
        shared = ways[0].positions
        same = [way for way in ways if np.array_equal(way.positions, shared)]
        blocks.append(_scaled_block(context, panel, shared, context.own_bank(panel, ways[0]), same))
    return blocks


def _scaled_block(context: Context, panel: str, positions: Int, bank: str, ways: Sequence[Asked]) -> dict[str, Any]:
    """Answers before and after temperature scaling, all on the same cases."""
    cases, y = context.cases(panel), context.labels(panel)[positions]
    dataset, simulator = cases.dataset.subset(positions.tolist()), ways[0].simulator if ways else ""
    answers = {way.way: way.probabilities for way in ways}
    for name in (M_SMC, *context.packaged(RECIPE)):
        answers[name] = context.probabilities(spec_of(name, panel, bank))[positions]
    rows: dict[str, Any] = {}
    for name, p in answers.items():
        scaled = temperature_scaled(floored(p), dataset, cases.names, seed=context.seed)
        kept, about = scaled.kept, f"post-hoc-calibration {panel} {simulator} {bank} {name}"
        rows[name] = {"scores": context.evaluate(p[kept], y[kept], about), "temperature": None}
        after = context.evaluate(scaled.probabilities, y[kept], f"{about} scaled")
        rows[f"{name} + TS"] = {"scores": after, "temperature": scaled.temperature.value}
    title = f"asked {simulator}, simulations of {bank}" if simulator else f"simulations of {bank}"
    return {"title": title, "rows": rows}
