"""Headline metrics of methods and of models asked: after calibration with labels, where they err, how they move with
the bank, and as one thing varies (normalisation, embedding, weights, temperature, size of the pool)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, spearmanr

from paper import world
from paper.asked import LEAST_READABLE, PAPER_ASKING, Asked
from paper.context import Context, Measured, per_panel
from paper.tables import ALL, DIFFERENCES
from paper.world import (
    ABI,
    D_PARTICLES,
    D_SMC,
    M_PARTICLES,
    M_SMC,
    M_SOFT,
    METHODS,
    PARTS,
    RECIPE,
    REFERENCE,
    Spec,
    Variant,
    spec_of,
)
from simdx.baselines.by_bank import SHARE, calibrated_logistic, supervised_ceiling, temperature_scaled
from simdx.datasets.dataset import make_splits
from simdx.embedders import get_embedder
from simdx.errors import BadInput, SimdxError
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.methods.logistic import choose_penalty
from simdx.metrics import scores as selective
from simdx.metrics.calibration import apply_temperature, debiased_ece, ece_difference, fit_temperature, weighted_ece
from simdx.metrics.resampling import evaluate_probabilities
from simdx.metrics.scores import confusion
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.runs import NotRun
from simdx.types import Bank, Float, Int, entropy_bits

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


ONE_HOT, CONFIDENT, COVERAGE = 0.99, 0.8, 0.8
BANDS = {"high": (0.0, 0.5), "medium": (0.5, 1.5), "low": (1.5, np.inf)}  # certainty by bits
SIMILARITY = ("centroid", "tfidf", "zero-shot", "bank-logistic")
AT = (0.2, 0.5, 0.8, 1.0)  # coverages


def _everyone(context: Context, panel: str, methods: Sequence[str]) -> dict[str, tuple[str, Float, Int]]:
    """Method, answers and labels of each method and each model asked, under their names."""
    y = context.labels(panel)
    found = {name: (name, context.probabilities(spec_of(name, panel)), y) for name in methods}
    for bank in context.simulators(panel):
        found[f"{M_SMC}, {bank}"] = M_SMC, context.probabilities(spec_of(M_SMC, panel, bank)), y
    for one in context.asked(panel):
        found[one.name] = one.way, one.probabilities, y[one.positions]
    return found


@per_panel
def risk_coverage(context: Context, panel: str) -> dict[str, Any]:
    everyone = _everyone(context, panel, context.packaged(M_SMC, D_SMC, ABI, RECIPE))
    return {name: {"method": method, **_curve(p, y)} for name, (method, p, y) in everyone.items()}


def _curve(p: Float, y: Int) -> dict[str, Any]:
    (coverage, risk), n = selective.risk_coverage(selective.uncertainty(p), selective.errors(p, y)), len(y)
    thin = np.unique(np.linspace(0, n - 1, min(100, n)).astype(int))  # at most a hundred points on record
    # Rank correlation of risk with coverage above a tenth: one for a curve that only rises.
    kept, rises = coverage >= 0.1, 1.0
    if kept.sum() >= 3 and np.ptp(risk[kept]) > 0:
        rises = float(spearmanr(coverage[kept], risk[kept]).statistic)
    return {
        "n": n,
        "coverage": coverage[thin].round(4),
        "risk": risk[thin].round(4),
        "rises": rises,
        "risk_at": {f"{c:.0%}": float(risk[max(1, int(np.ceil(c * n - 1e-9))) - 1]) for c in AT},
    }


@per_panel
def entropy_strata(context: Context, panel: str) -> dict[str, Any]:
    everyone = _everyone(context, panel, context.packaged(M_SMC, D_SMC, RECIPE))
    return {name: _bands(p, y) for name, (_, p, y) in everyone.items()}


def _bands(p: Float, y: Int) -> dict[str, dict[str, Any]]:
    bits, right, found = entropy_bits(p), p.argmax(axis=1) == y, {}
    for name, (low, high) in BANDS.items():
        # The entropy of a certain answer may be a rounding error below nought.
        hits = right[(bits >= low) & (bits < high) if low else bits < high]
        # Bands may hold a handful of cases, too few to resample: Wilson's interval.
        wilson = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson") if len(hits) else None
        found[name] = {
            "n": len(hits),
            "share": len(hits) / len(y),
            "accuracy": float(hits.mean()) if len(hits) else None,
            "ci": None if wilson is None else [float(wilson.low), float(wilson.high)],
        }
    return found


# --------------------------------------------------------------------------- the structure of the errors


@per_panel
def error_structure(context: Context, panel: str) -> dict[str, Any]:
    y, names = context.labels(panel), context.names(panel)
    answers = {name: context.probabilities(spec_of(name, panel)) for name in (M_SMC, D_SMC, RECIPE)}
    views = {f"M-SMC over {bank}": spec_of(M_SMC, panel, bank) for bank in context.banks(panel)}
    views |= {"TF-IDF": Spec(panel, "tfidf"), "logistic on the bank": Spec(panel, "bank-logistic")}
    others = {name: context.probabilities(spec) for name, spec in views.items()}
    return {
        "errors": {name: _errors(p, y, names) for name, p in answers.items()},
        "views": {name: _objections(answers[M_SMC], other, y) for name, other in others.items()},
    }


def _errors(p: Float, y: Int, names: tuple[str, ...]) -> dict[str, Any]:
    table, top, wrong = confusion(p, y), p.max(axis=1), p.argmax(axis=1) != y
    certain = np.argsort(entropy_bits(p), kind="stable")[: selective.kept_at(COVERAGE, len(y))]
    pairs: list[dict[str, Any]] = [
        {"gold": names[i], "answered": names[j], "n": int(table[i, j])} for i, j in np.argwhere(table) if i != j
    ]
    pairs.sort(key=lambda pair: (-pair["n"], pair["gold"], pair["answered"]))
    return {
        "n": len(y),
        "errors": int(wrong.sum()),
        "confusions": pairs,
        "wrong_label_mass": float(top[wrong].mean()) if wrong.any() else None,
        "one_hot_errors": int((wrong & (top >= ONE_HOT)).sum()),
        "confident_errors": int((wrong & (top >= CONFIDENT)).sum()),
        "errors_among_most_certain": int(wrong[certain].sum()),
    }


def _objections(p: Float, other: Float, y: Int) -> dict[str, int]:
    """How often another view's favourite differs from a confident answer, when wrong and when right."""
    answer, confident = p.argmax(axis=1), p.max(axis=1) >= CONFIDENT
    wrong, right = confident & (answer != y), confident & (answer == y)
    objects = other.argmax(axis=1) != answer
    counted = {"caught": objects & wrong, "confident_errors": wrong, "false": objects & right, "confident_right": right}
    return {name: int(cases.sum()) for name, cases in counted.items()}


# --------------------------------------------------------------------------- the draw of the bank

HALVES = {"smoke": 3, "full": 20}  # of a bank, drawn at random where it was drawn once
LEAST_DRAWS, THREE = 3, "M-SMC, three disjoint banks"
TEMPERATURES, ROUNDED = ("oral-lesions", "temperature"), ("bf16", "q4")  # what Tables S17 and S16 compare


def _spread(answers: Sequence[Float], y: Int) -> dict[str, float]:
    """Standard deviation of each figure over sets of answers."""
    rows = []
    for p in answers:
        scores: dict[str, Any] = evaluate_probabilities(p, y)
        kept = {name: scores[name] for name in ("accuracy", "brier", "ece", "error_auroc", "e_aurc")}
        rows.append(kept | _curve(p, y)["risk_at"])
    table = pd.DataFrame(rows, dtype=float)
    return {name: float(np.nanstd(table[name], ddof=1)) for name in table}


def bank_spread(context: Context, panel: str, bank: str, method: str) -> dict[str, float]:
    """Of a method's figures over the draw of the bank.

    Over the draws at hand where there are three; else over random halves: halves of M texts, drawn without
    replacement, spread as much as whole banks of M texts would (delete-half jackknife).
    """
    spec, names = spec_of(method, panel, bank), context.draws(panel, bank)
    specs = [replace(spec, bank=name) for name in names]
    if len(names) < LEAST_DRAWS:
        half = max(1, min(context.bank_of(spec).counts.values()) // 2)
        specs = [replace(spec, per_label=half, pool_seed=seed) for seed in range(HALVES[context.scale])]
    return _spread([context.probabilities(one) for one in specs], context.labels(panel))


def disjoint_draws(context: Context, panel: str, bank: str) -> list[Bank]:
    """Three banks of one size by one model that share no text: its own, and two parts of its larger pool."""
    large = next((n for n, v in context.variants(panel).items() if (v.kind, v.model) == ("pool", bank)), None)
    if large is None:
        return []
    own, more = context.bank(panel, bank), context.bank(panel, large)
    size, known = min(own.counts.values()), set(own.texts)
    new = np.array([text not in known for text in more.texts])
    rows = [np.flatnonzero(new & (more.label_index == label)) for label in range(len(more.labels))]
    if min(map(len, rows)) < 2 * size:
        return []
    parts = [np.concatenate([some[at : at + size] for some in rows]) for at in (0, size)]
    return [world.pool(own, size, 0), *(more.subset(np.sort(part).tolist(), name=f"{large}, part") for part in parts)]


def _three_draws(context: Context, panel: str, bank: str) -> dict[str, float]:
    """Of M-SMC's figures over three such banks, a check of what halves say."""
    spec, found = spec_of(M_SMC, panel, bank), []
    for one in disjoint_draws(context, panel, bank):
        data = PanelData.prepare(context.cases(panel).source.panel, one, context.embedder_of(spec))
        fitted = fit_method(data, Settings.named_alike(spec))
        found.append(fitted.infer(context.observations(panel), context.prior(spec)).posterior.probabilities)
    return _spread(found, context.labels(panel))


@per_panel
def bank_draws(context: Context, panel: str) -> dict[str, Any]:
    """How far M-SMC's and D-SMC's figures move with the draw of the bank, for every bank that a claim rests on."""
    varied = [name for name, one in context.variants(panel).items()
              if (panel, one.kind) == TEMPERATURES or one.way in ROUNDED]  # fmt: skip
    found: dict[str, Any] = {bank: {M_SMC: bank_spread(context, panel, bank, M_SMC)} for bank in varied}
    for bank in (*context.packaged(REFERENCE), *context.simulators(panel)):
        found[bank] = {name: bank_spread(context, panel, bank, name) for name in (M_SMC, D_SMC)}
        if three := _three_draws(context, panel, bank):
            found[bank][THREE] = three
    return found


@per_panel
def significance(context: Context, panel: str) -> dict[str, Any]:
    """Asking minus M-SMC over the asked model's own bank, on the same cases; means over the draws of the bank.

    Intervals count the draw of the cases (paired bootstrap) and the draw of the bank.
    """
    y, rows, spread = context.labels(panel), {}, dict[str, dict[str, float]]()

    def beyond(ours: Float, theirs: Float, y: Int, name: str) -> dict[str, dict[str, Any]]:
        return context.paired(ours, theirs, y, tuple(DIFFERENCES), "paired", f"{panel} {name}")

    for one in context.asked(panel):
        bank = context.own_bank(panel, one)
        if bank not in spread:
            spread[bank] = bank_spread(context, panel, bank, M_SMC)
        ours = [context.probabilities(spec_of(M_SMC, panel, b))[one.positions] for b in context.draws(panel, bank)]
        each = [beyond(p, one.probabilities, y[one.positions], one.name) for p in ours]
        about: dict[str, Any] = {"model": one.model, "way": one.way, "draws": len(ours)}
        rows[f"{one.name} − M-SMC over {bank}"] = about | _over_draws(each, spread[bank])
    others = {name: spec_of(name, panel) for name in context.packaged(D_SMC, RECIPE)}
    others |= {name: Spec(panel, name) for name in context.packaged(*SIMILARITY)}
    for name, spec in others.items():
        row = beyond(context.probabilities(spec_of(M_SMC, panel)), context.probabilities(spec), y, name)
        rows[f"{name} − M-SMC, {REFERENCE}"] = {"model": None, "way": name} | row
    return {"differences": rows, "bank_spread": spread}


def _over_draws(rows: list[dict[str, dict[str, Any]]], spread: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """The mean over the draws of the bank; both ends moved out in quadrature by what the draw adds to that mean."""
    found = {}
    for name in rows[0]:
        known = [row[name] for row in rows if row[name]["ci"][0] is not None]
        found[name] = dict(rows[0][name])
        if known:
            middle = float(np.mean([one["difference"] for one in known]))
            low, high = np.mean([one["ci"] for one in known], axis=0)
            more = 1.96 * np.nan_to_num(spread[name]) / np.sqrt(len(known))
            ends = [middle - float(np.hypot(middle - low, more)), middle + float(np.hypot(high - middle, more))]
            found[name] = {"difference": middle, "ci": ends}
    return found


COSINES: dict[str, tuple[str, Any]] = {
    "TF-IDF cosine, normalised": ("tfidf", None), "TF-IDF cosine, softmax": ("tfidf", "soft"),
    "embedding cosine, normalised": ("centroid", None), "embedding cosine, softmax": ("centroid", "soft"),
    "D-SMC": ("d-smc", None), "M-SMC": ("m-smc", None), "M-SMC, soft kernel": ("m-smc", "soft"),
}  # fmt: skip


def cosine_ablation(context: Context) -> Measured:
    """Cosines as they are and through a softmax, beside M-SMC."""
    scores = {
        panel: {name: context.scores(Spec(panel, method, kernel=kernel)) for name, (method, kernel) in COSINES.items()}
        for panel in context.panels
    }
    return Measured({"scores": scores}, context.n)


EMBEDDERS = ("wordllama", "minilm", "mpnet", "wordllama+minilm", "wordllama+mpnet", "hashing")


def embedders_at_hand(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Embedders, and why the others are left out; nothing is downloaded."""
    found, missing = [], {}
    for name in names:
        if absent := [part for part in name.split("+") if not _installed(part)]:
            missing[name] = f"the weights of {absent[0]} are not installed"
            continue
        try:
            get_embedder(name)
            found.append(name)
        except SimdxError as problem:
            missing[name] = str(problem)
    return found, missing


def _installed(part: str) -> bool:
    try:
        return part not in REGISTRY or bool(locate(part, download=False))
    except SimdxError:
        return False


def embedding_ablation(context: Context) -> Measured:
    # Encoders take a while: a smoke run shows fewer, on one panel, with one method.
    found, missing = embedders_at_hand(("wordllama", "minilm", "hashing") if context.smoke else EMBEDDERS)
    panels = context.panels[:1] if context.smoke else context.panels
    compared = ("m-smc",) if context.smoke else ("m-smc", "auto")
    scores = {
        panel: {
            f"{METHODS[method]}, {name}": context.scores(Spec(panel, method, embedder=name))
            for method in compared
            for name in found
        }
        for panel in panels
    }
    notes = [f"Left out: {name}, because {reason}." for name, reason in missing.items()]
    notes.append(
        "Not at hand: the paper's text-embedding-3-large (sends text to another machine) and its four "
        "biomedical encoders."
    )
    return Measured({"scores": scores}, {p: context.n[p] for p in panels}, notes)


def option_orders(context: Context) -> Measured:
    """A model asked with the options in every order: each alone, and the mean over all."""
    data = {}
    replies = [(panel, one) for panel in context.panels for one in context.replies(panel)]
    for panel, one in replies:
        if one.method != "logits" or one.bits is not None:
            continue
        y = context.labels(panel)[one.positions]
        alone = [one.at(order) for order in range(one.scores.shape[1])]
        answers = {f"order {i + 1}": p for i, p in enumerate(alone)} | {"all orders": np.mean(alone, axis=0)}
        top = np.stack([p.argmax(axis=1) for p in alone])
        data[f"{panel}, {one.simulator}"] = {
            "order_changes_answer": float((top != top[0]).any(axis=0).mean()),
            "rows": {n: context.evaluate(p, y, f"orders {panel} {n}") for n, p in answers.items()},
        }
    if not data:
        raise NotRun("no record of a model asked in every order is at hand")
    return Measured(data, context.n)


# --------------------------------------------------------------------------- weights


def pairs_of(models: Sequence[str], variants: dict[str, Variant]) -> list[tuple[str, str]]:
    """(bank with the weights as they are, bank with other weights); a temperature is no other weight. A bank made
    in the same run as the others (`-bf16`, as many requests) comes before the model's own, which is larger."""
    other = {name: v for name, v in variants.items() if v.model in models and v.kind == "weights"}
    beside = {v.model: name for name, v in other.items() if v.way == "bf16"}
    return [(beside.get(v.model, v.model), name) for name, v in other.items() if v.way != "bf16"]


def quantisation_ablation(context: Context) -> Measured:
    pairs = [
        _pair(context, panel, plain, other)
        for panel in context.panels
        for plain, other in pairs_of(context.models(panel), context.variants(panel))
    ]
    if not pairs:
        raise NotRun(
            "no two banks at hand were written by one model with different weights: build one with "
            "'simdx bank build' as {panel}-{model} and one as {panel}-{model}-q8_0 in the folder of banks"
        )
    note = (
        "A pair made by requantising a file that was quantised before says what the second rounding does, "
        "not what the first did."
    )
    data = {f"{pair['panel']}: {' and '.join(pair['banks'])}": pair for pair in pairs}
    return Measured(data, {pair["panel"]: context.n[pair["panel"]] for pair in pairs}, [note])


def _pair(context: Context, panel: str, plain: str, other: str) -> dict[str, Any]:
    specs, y = [Spec(panel, "m-smc", bank) for bank in (plain, other)], context.labels(panel)
    p, q = (context.probabilities(spec) for spec in specs)
    found = context.paired(p, q, y, ("accuracy", "ece", "brier"), "quantisation-ablation", panel, plain, other)
    variant = context.variants(panel)[other]
    # ML and EP of the model's own weights and of the other ones, as far as they were asked.
    asked = [
        one
        for replies in context.replies(panel)
        for one in replies.asked()
        if one.model in (variant.model, other) and one.way in ("ML", "EP")
    ]
    asked.sort(key=lambda one: (one.way, one.model))
    return {
        "panel": panel,
        "banks": [plain, other],
        # q4 and q4_k have four bits.
        "bits": int(variant.way[1]) if variant.way.startswith("q") and variant.way[1:2].isdigit() else None,
        "m-smc": [context.scores(spec) for spec in specs],
        "difference": {
            name: {"value": d["difference"], "ci": None if d["ci"][0] is None else d["ci"]} for name, d in found.items()
        },
        "asked": {one.name: context.asked_scores(panel, one) for one in asked},
    }


# --------------------------------------------------------------------------- temperatures

ASKED_AT = (0.2, 0.4, 0.6, 0.8, 1.0)  # the paper's temperatures


def temperature_ablation(context: Context) -> Measured:
    series = [one for panel in context.panels for one in _over_temperatures(context, panel)]
    if not series:
        raise NotRun("no banks written at several temperatures are at hand ({panel}-{model}-t0.4 and so on)")
    return Measured({"series": series}, {one["panel"]: one["cases"] for one in series})


def _over_temperatures(context: Context, panel: str) -> list[dict[str, Any]]:
    """M-SMC over banks of several temperatures; ML, EP and EF, where they were asked and can be read."""
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(what: str, model: str, temperature: float, scores: dict[str, Any], texts: int = 0) -> None:
        about = {"panel": panel, "model": model, "what": what, "cases": scores["n"], "points": []}
        parts = {m: {"value": scores[m], "ci": scores["ci"].get(m)} for m in ("accuracy", "brier", "ece")}
        parts["ece"]["debiased"] = scores["ece_debiased"]
        points = found.setdefault((what, model), about)["points"]
        points.append({"temperature": float(temperature), "texts": texts, **parts})

    for name, one in context.variants(panel).items():
        if one.kind == "temperature":
            spec = Spec(panel, "m-smc", name)
            add("M-SMC", one.model, float(one.way[1:]), context.scores(spec), len(context.bank_of(spec).texts))
    replies = (one for one in context.replies(panel) if one.bits is None)
    for said in sorted(replies, key=lambda one: one.method != "logits"):
        y, way = context.labels(panel)[said.positions], PAPER_ASKING[said.method]
        if said.method == "logits":  # the letters' logits at each temperature, one order of the list
            for t in ASKED_AT:
                add(way, said.simulator, t, context.evaluate(said.at(0, t), y, f"ML {panel} {said.simulator} {t}"))
        elif said.method != "ensemble" and said.answered >= LEAST_READABLE:
            scores = context.evaluate(said.probabilities, y, f"{way} {panel} {said.model} {said.temperature}")
            add(way, said.simulator, said.temperature, scores)
    for series in found.values():
        series["points"].sort(key=lambda point: point["temperature"])
    return [series for series in found.values() if len(series["points"]) > 1]


# --------------------------------------------------------------------------- pools

SIZES = (3, 10, 30, 50, 100, 500)
LARGEST, LARGEST_PANEL = 1000, "oral-lesions"
POOLED = ("accuracy", "macro_f1", "auroc", "brier", "ece", "entropy_bits")
POOLS = {"smoke": 2, "full": 5}


def pool_size(context: Context) -> Measured:
    rows = []
    for panel in context.panels:
        large = (name for name, one in context.variants(panel).items() if one.kind == "pool")
        for bank in (REFERENCE, *context.models(panel), *large):
            most = max(context.bank(panel, bank).counts.values())
            sizes = (*SIZES, LARGEST) if panel == LARGEST_PANEL or most >= LARGEST else SIZES
            rows += [_pools(context, Spec(panel, method, bank), n) for method in ("d-smc", "m-smc") for n in sizes]
    return Measured({"rows": rows}, context.n)


def _pools(context: Context, spec: Spec, size: int) -> dict[str, Any]:
    counts = context.bank_of(spec).counts.values()
    # One pool where it is the whole bank: there is nothing to draw, and nothing is repeated to fill it up.
    drawn = [replace(spec, per_label=size, pool_seed=s) for s in range(POOLS[context.scale])]
    found = [context.scores(one) for one in ([spec] if size >= max(counts) else drawn)]
    known = {m: [one[m] for one in found if one[m] is not None] for m in POOLED}
    return {
        "panel": spec.panel,
        "bank": spec.bank,
        "method": spec.method,
        "size": size,
        "distinct": [min(size, min(counts)), min(size, max(counts))],
        "pools": len(found),
        "means": {m: float(np.mean(values)) if values else None for m, values in known.items()},
        "accuracy_range": [min(known["accuracy"]), max(known["accuracy"])],
    }


SIZE_RUNS = {"smoke": 3, "full": 1000}
SIZE_CASES, SIZE_LABELS, SIZE_RESAMPLES = 300, 3, 200


def ece_size(context: Context) -> Measured:
    """How often the interval and the paired test of the ECE are wrong where nothing is: calibrated answers and flat
    ones of labels drawn from the calibrated; beside the percentile bootstrap of the plug-in ECE."""
    rng, runs = context.rng("ece-size"), SIZE_RUNS[context.scale]
    flat, found = np.full((SIZE_CASES, SIZE_LABELS), 1 / SIZE_LABELS), dict.fromkeys(("held", "ours", "plug-in"), 0)
    for _ in range(runs):
        p = rng.dirichlet(np.full(SIZE_LABELS, 0.5), size=SIZE_CASES)
        y = (rng.random((SIZE_CASES, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=SIZE_LABELS - 1)
        own, other = debiased_ece(p, y, rng), debiased_ece(flat, y, rng)
        _, low, high = ece_difference(own, other)
        found["held"] += own[1] == 0
        found["ours"] += low > 0 or high < 0
        w = rng.multinomial(SIZE_CASES, np.full(SIZE_CASES, 1 / SIZE_CASES), size=SIZE_RESAMPLES).astype(float)
        plain = [weighted_ece(w, q.max(1), (q.argmax(1) == y).astype(float)) for q in (p, flat)]
        low, high = np.quantile(plain[1] - plain[0], (0.025, 0.975))
        found["plug-in"] += low > 0 or high < 0
    shares = {name: count / runs for name, count in found.items()}
    return Measured({"runs": runs, "cases": SIZE_CASES, "labels": SIZE_LABELS, **shares}, {})
