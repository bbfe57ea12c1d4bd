"""Headline metrics of methods, of models asked, and of either after calibration with labels."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paper import engine
from paper.answers import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, M_SOFT, RECIPE, Spec, spec_of
from paper.asked import PAPER_ASKING
from paper.context import Context
from paper.intervals import differences
from paper.measures import Measured, each_panel, models_used
from paper.replies import LEAST_READABLE
from paper.world import PARTS, REFERENCE
from simdx.abc.second_order import concentration_cap
from simdx.datasets.dataset import make_splits
from simdx.errors import BadInput
from simdx.metrics.calibration import apply_temperature, fit_temperature
from simdx.types import Float, Int

Rows = dict[str, dict[str, Any]]

# --------------------------------------------------------------------------- methods beside models asked


def asked_rows(context: Context, panel: str, ways: Sequence[str] = tuple(PAPER_ASKING)) -> Rows:
    """A model and way of asking each: its scores, and M-SMC over its own simulations on the same cases."""
    rows = {}
    for one in (one for one in context.asked(panel) if one.method in ways):
        bank = context.own_bank(panel, one)
        answer = context.probabilities(spec_of(M_SMC, panel, bank))[one.positions].argmax(axis=1)
        rows[one.name] = {
            **context.asked_scores(panel, one),
            "method": one.way,
            "simulator": one.model,
            "answered": float((one.readable > 0).mean()),
            "own_bank": bank,
            "own_bank_accuracy": float((answer == context.labels(panel)[one.positions]).mean()),
        }
    return rows


def over_banks(context: Context, panel: str, name: str, metrics: Iterable[str]) -> dict[str, list[Any]]:
    """Over the banks of the models that were asked: the same simulators on both sides of a mean."""
    found = [context.scores(spec_of(name, panel, bank)) for bank in simulators(context, panel)]
    return {metric: [scores[metric] for scores in found] for metric in metrics}


def simulators(context: Context, panel: str) -> tuple[str, ...]:
    """Models that were asked and wrote a bank; every bank where none was asked."""
    asked = {one.model for one in context.asked(panel)}
    return tuple(m for m in context.models(panel) if m in asked) or context.banks(panel)


def own_rows(context: Context, panel: str, names: Sequence[str]) -> Rows:
    """Methods over the bank of each model that was asked."""
    pairs = [(name, bank) for bank in simulators(context, panel) for name in names]
    return {f"{name}, {bank}": row_of(context, panel, name, bank) | {"bank": bank} for name, bank in pairs}


def row_of(context: Context, panel: str, name: str, bank: str = REFERENCE) -> dict[str, Any]:
    return {**context.scores(spec_of(name, panel, bank)), "method": name}


def main_results(context: Context, metrics: Sequence[str]) -> Measured:
    def measure(context: Context, panel: str) -> Rows:
        rows = asked_rows(context, panel, ("logits", "elicited", "ensemble"))
        for bank in (*context.packaged(REFERENCE, *PARTS), *context.models(panel)):
            rows[f"{M_SMC}, {bank}"] = row_of(context, panel, M_SMC, bank)
        for name in context.packaged(M_PARTICLES, RECIPE):
            rows[f"{name}, {REFERENCE}"] = row_of(context, panel, name)
        for name in context.packaged(M_SMC, RECIPE):
            rows[f"{name}, {REFERENCE}"]["over_banks"] = over_banks(context, panel, name, metrics)
        return rows

    return replace(each_panel(context, measure), notes=unreadable(context))


def unreadable(context: Context) -> list[str]:
    """Ways of asking that give no row, because most of the replies are not what was asked for."""
    return [
        f"Left out: {PAPER_ASKING[one.method]} of hf:{one.model} on {panel} with free replies at {one.temperature:g}: "
        f"{round(one.answered * len(one.positions))} of {len(one.positions)} can be read."
        for panel in context.panels
        for one in context.replies(panel)
        if one.answered < LEAST_READABLE and one.bits is None
    ]


def error_detection(context: Context, metrics: Sequence[str]) -> Measured:
    def measure(context: Context, panel: str) -> Rows:
        rows = {
            name: row_of(context, panel, name) | {"over_banks": over_banks(context, panel, name, metrics)}
            for name in context.packaged(M_SMC, M_SOFT, D_SMC, ABI, RECIPE)
        }
        return rows | own_rows(context, panel, (M_SMC, D_SMC, ABI)) | asked_rows(context, panel)

    return each_panel(context, measure)


def distribution_aware(context: Context, metrics: Sequence[str]) -> Measured:
    def measure(context: Context, panel: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        y = context.labels(panel)
        own = {b: context.probabilities(spec_of(D_SMC, panel, b)) for b in simulators(context, panel)}
        for one in (one for one in context.asked(panel) if one.method == "fidelity"):
            bank = context.own_bank(panel, one)
            p = own[bank][one.positions] if bank in own else context.probabilities(spec_of(D_SMC, panel))[one.positions]
            gap = differences(
                one.probabilities, p, y[one.positions], ("accuracy",),
                context.rng("distribution-aware", panel, one.name), context.size.paired_resamples,
            )  # fmt: skip
            about = {"name": one.name, "method": one.way, "scores": context.asked_scores(panel, one)}
            about |= {"own_bank": bank, "d_smc_minus_asking": gap["accuracy"]}
            same = p.argmax(axis=1) == y[one.positions]
            cost = {"seconds": one.seconds_per_case, "inference_seconds": None}
            rows.append(about | cost | {"d_smc_on_the_same": float(same.mean())})
        for name in context.packaged(D_SMC, D_PARTICLES, ABI, M_SMC, RECIPE):
            spec = spec_of(name, panel)
            took = context.seconds(spec)
            both = took["infer_seconds"] + took["embed_seconds"]
            row = {"name": name, "method": name, "scores": context.scores(spec), "seconds": both}
            row["inference_seconds"] = took["infer_seconds"]
            if name in (D_SMC, ABI):
                row["over_banks"] = over_banks(context, panel, name, metrics)
            if name == D_SMC:  # what it says at most, and on average
                d_smc = context.probabilities(spec)
                cap = concentration_cap(len(context.names(panel)), spec.populations)
                row |= {"mean_top": float(d_smc.max(axis=1).mean()), "cap": cap}
            rows.append(row)
        for bank in own:
            for name in (D_SMC, *context.packaged(ABI)):
                about = {
                    "name": f"{name}, {bank}",
                    "method": name,
                    "scores": context.scores(spec_of(name, panel, bank)),
                }
                rows.append(about | {"seconds": None, "inference_seconds": None})
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
    data, notes = {}, []
    for panel in context.panels:
        y, k, share = context.labels(panel), len(context.names(panel)), engine.CALIBRATION_SHARE
        dataset = context.cases(panel).dataset
        parts = make_splits(dataset, {"calibration": share, "test": 1 - share}, seed=context.seed)
        fit, kept = (np.array(parts[name], dtype=np.int64) for name in ("calibration", "test"))
        # Cosines as they are give answers close to uniform; the softmax has a temperature to fit.
        answers = {CENTROID: context.probabilities(replace(Spec(panel, "centroid"), kernel="soft"))}
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
        data[panel] = {"calibration_cases": len(fit), "test_cases": len(kept), "rows": rows}
    return Measured(data, context.n, models_used(context), notes)


def post_hoc_calibration(context: Context) -> Measured:
    def measure(context: Context, panel: str) -> list[dict[str, Any]]:
        every = np.arange(context.cases(panel).n)
        blocks = [_scaled_block(context, panel, every, bank, {}, "") for bank in context.packaged(REFERENCE)]
        by_model: dict[str, list[Any]] = {}
        for one in context.asked(panel):
            if len(one.positions) >= LEAST_CASES:
                by_model.setdefault(one.simulator, []).append(one)
        for simulator, ways in by_model.items():
            # Models may have been asked about a subset; every row of the block is scored on it.
            shared = ways[0].positions
            same = [way for way in ways if np.array_equal(way.positions, shared)]
            answers = {way.way: way.probabilities for way in same}
            bank = context.own_bank(panel, ways[0])
            blocks.append(_scaled_block(context, panel, shared, bank, answers, simulator))
        return blocks

    return each_panel(context, measure)


def _scaled_block(
    context: Context, panel: str, positions: Int, bank: str, answers: dict[str, Float], simulator: str
) -> dict[str, Any]:
    """Answers before and after temperature scaling, all on the same cases."""
    cases, y = context.cases(panel), context.labels(panel)[positions]
    dataset = cases.dataset.subset(positions.tolist())
    inferred = {
        n: context.probabilities(spec_of(n, panel, bank))[positions] for n in (M_SMC, *context.packaged(RECIPE))
    }
    rows: dict[str, Any] = {}
    for name, p in (answers | inferred).items():
        scaled = engine.temperature_scaled(floored(p), dataset, cases.names, seed=context.seed)
        kept, about = scaled.kept, f"post-hoc-calibration {panel} {simulator} {bank} {name}"
        rows[name] = {"scores": context.evaluate(p[kept], y[kept], about), "temperature": None}
        after = context.evaluate(scaled.probabilities, y[kept], f"{about} scaled")
        rows[f"{name} + TS"] = {"scores": after, "temperature": scaled.temperature.value}
    title = f"asked {simulator}, simulations of {bank}" if simulator else f"simulations of {bank}"
    return {"title": title, "asked": bool(simulator), "n": len(y), "rows": rows}
