"""Which answers are wrong and whether the uncertainty says so: curves, bands, confusions, differences."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm, spearmanr

from paper.answers import ABI, ALL_ORDERS, D_SMC, M_SMC, RECIPE, Spec, spec_of
from paper.asked import asked_in
from paper.context import Context
from paper.intervals import differences
from paper.measures import each_panel
from paper.measures.scores import simulators
from paper.spec import Measured
from paper.world import REFERENCE
from simdx.metrics.scores import confusion
from simdx.metrics.selective import errors, kept_at, risk_coverage, uncertainty
from simdx.types import Float, Int, entropy_bits

ONE_HOT, CONFIDENT, COVERAGE = 0.99, 0.8, 0.8
BANDS = {"high": (0.0, 0.5), "medium": (0.5, 1.5), "low": (1.5, np.inf)}  # certainty by bits
SIMILARITY = ("centroid", "tfidf", "zero-shot", "bank-logistic")


def _everyone(context: Context, panel: str, methods: Sequence[str]) -> dict[str, tuple[str, Float, Int]]:
    """Method, answers and labels of each method and each model asked, under their names."""
    y = context.labels(panel)
    found = {name: (name, context.probabilities(spec_of(name, panel)), y) for name in methods}
    for bank in simulators(context, panel):
        found[f"{M_SMC}, {bank}"] = M_SMC, context.probabilities(spec_of(M_SMC, panel, bank)), y
    for one in context.asked(panel):
        found[one.name] = one.way, one.probabilities, y[one.positions]
    return found


def curves(context: Context, shown_at: Sequence[float]) -> Measured:
    def measure(context: Context, panel: str) -> dict[str, Any]:
        everyone = _everyone(context, panel, (M_SMC, D_SMC, ABI, RECIPE))
        return {name: _curve(method, p, y, shown_at) for name, (method, p, y) in everyone.items()}

    return each_panel(context, measure)


def _curve(method: str, p: Float, y: Int, shown_at: Sequence[float]) -> dict[str, Any]:
    found, n = risk_coverage(uncertainty(p), errors(p, y)), len(y)
    thin = np.unique(np.linspace(0, n - 1, min(100, n)).astype(int))  # at most a hundred points on record
    return {
        "method": method,
        "n": n,
        "coverage": found.coverage[thin].round(4),
        "risk": found.risk[thin].round(4),
        "rises": _rising(found.coverage, found.risk),
        "risk_at": {f"{c:.0%}": float(found.risk[max(1, int(np.ceil(c * n - 1e-9))) - 1]) for c in shown_at},
    }


def _rising(coverage: Float, risk: Float) -> float:
    """Rank correlation of risk with coverage above a tenth: one for a curve that only rises."""
    kept = coverage >= 0.1
    if kept.sum() < 3 or np.ptp(risk[kept]) == 0:
        return 1.0
    return float(spearmanr(coverage[kept], risk[kept]).statistic)


def strata(context: Context) -> Measured:
    def measure(context: Context, panel: str) -> dict[str, Any]:
        everyone = _everyone(context, panel, (M_SMC, D_SMC, RECIPE))
        return {name: bands(p, y) for name, (_, p, y) in everyone.items()}

    return each_panel(context, measure)


def bands(p: Float, y: Int) -> dict[str, dict[str, Any]]:
    bits, right = entropy_bits(p), p.argmax(axis=1) == y
    found = {}
    for name, (low, high) in BANDS.items():
        # The entropy of a certain answer may be a rounding error below nought.
        inside = (bits >= low) & (bits < high) if low else bits < high
        n, hits = int(inside.sum()), int(right[inside].sum())
        # Bands may hold a handful of cases, too few to resample: Wilson's interval.
        wilson = binomtest(hits, n).proportion_ci(method="wilson") if n else None
        found[name] = {
            "n": n,
            "share": n / len(y),
            "accuracy": float(right[inside].mean()) if n else None,
            "entropy_bits": float(bits[inside].mean()) if n else None,
            "ci": None if wilson is None else [float(wilson.low), float(wilson.high)],
        }
    return found


def structure(context: Context) -> Measured:
    def measure(context: Context, panel: str) -> dict[str, Any]:
        y, names = context.labels(panel), context.names(panel)
        specs = {name: spec_of(name, panel) for name in (M_SMC, D_SMC, RECIPE)}
        found = {name: _errors(context.probabilities(spec), y, names) for name, spec in specs.items()}
        return {"errors": found, "views": _views(context, panel)}

    return each_panel(context, measure)


def _errors(p: Float, y: Int, names: tuple[str, ...]) -> dict[str, Any]:
    table, top, wrong = confusion(p, y), p.max(axis=1), p.argmax(axis=1) != y
    certain = np.argsort(entropy_bits(p), kind="stable")[: kept_at(COVERAGE, len(y))]
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
        "confident_answers": int((top >= CONFIDENT).sum()),
        "errors_among_most_certain": int(wrong[certain].sum()),
    }


def most_frequent(found: Mapping[str, Any], many: int) -> list[dict[str, Any]]:
    """The confusions that a method makes most often, counted for each."""
    counted = {
        name: {f"{c['gold']} answered as {c['answered']}": c["n"] for c in one["confusions"]}
        for name, one in found.items()
    }
    pairs = dict.fromkeys(pair for own in counted.values() for pair in own)
    most = sorted(pairs, key=lambda pair: -max(own.get(pair, 0) for own in counted.values()))[:many]
    return [{"confusion": p} | {name: own.get(p, 0) for name, own in counted.items()} for p in most]


def _views(context: Context, panel: str) -> dict[str, dict[str, int]]:
    """How often another view's favourite differs from M-SMC's confident answer, when wrong and when right."""
    p = context.probabilities(spec_of(M_SMC, panel))
    answer, confident = p.argmax(axis=1), p.max(axis=1) >= CONFIDENT
    wrong = confident & (answer != context.labels(panel))
    right = confident & ~wrong
    others = {f"M-SMC over {bank}": spec_of(M_SMC, panel, bank) for bank in context.banks(panel)}
    others |= {"TF-IDF": Spec(panel, "tfidf"), "logistic on the bank": Spec(panel, "bank-logistic")}
    found = {}
    for name, spec in others.items():
        objects = context.probabilities(spec).argmax(axis=1) != answer
        found[name] = {
            "caught": int((objects & wrong).sum()),
            "confident_errors": int(wrong.sum()),
            "false": int((objects & right).sum()),
            "confident_right": int(right.sum()),
        }
    return found


def significance(context: Context, metrics: Sequence[str]) -> Measured:
    def measure(context: Context, panel: str) -> dict[str, Any]:
        y, pairs = context.labels(panel), {}
        for one in context.asked(panel):
            bank = context.own_bank(panel, one)
            ours = context.probabilities(spec_of(M_SMC, panel, bank))[one.positions]
            pairs[f"{one.name} − M-SMC over {bank}"] = ours, one.probabilities, y[one.positions]
        others = {name: spec_of(name, panel) for name in (D_SMC, ABI, RECIPE)}
        others |= {name: Spec(panel, name) for name in SIMILARITY}
        others["centroid, softmax"] = replace(Spec(panel, "centroid"), kernel="soft")
        ours = context.probabilities(spec_of(M_SMC, panel))
        for name, spec in others.items():
            pairs[f"{name} − M-SMC, {REFERENCE}"] = ours, context.probabilities(spec), y
        found = {
            name: differences(*pair, metrics, context.rng("paired", f"{panel} {name}"), context.size.paired_resamples)
            for name, pair in pairs.items()
        }
        return {"differences": found, "regressions": _regressions(context, panel)}

    return each_panel(context, measure)


def _regressions(context: Context, panel: str) -> dict[str, Any]:
    """ECE on method with the simulator as random intercept: asked models, and banks."""
    rows: list[tuple[float, str, str]] = []
    for one in context.asked(panel):
        rows.append((context.asked_scores(panel, one)["ece"], one.way, one.simulator))
        if one.way == ALL_ORDERS:
            p = context.probabilities(spec_of(M_SMC, panel, context.own_bank(panel, one)))[one.positions]
            y = context.labels(panel)[one.positions]
            scores = context.evaluate(p, y, f"asked cases {panel} {one.simulator}")
            rows.append((scores["ece"], M_SMC, one.simulator))
    asking = _mixed(rows, ALL_ORDERS if any(row[1] == ALL_ORDERS for row in rows) else None)
    banks = [
        (context.scores(spec_of(name, panel, bank))["ece"], name, bank)
        for bank in context.banks(panel)
        for name in (M_SMC, D_SMC, RECIPE)
    ]
    return {
        "asking and M-SMC, model random": asking,
        "ML and M-SMC, temperature or weights random": _by_way(context, panel),
        "inference, bank random": _mixed(banks, M_SMC),
    }


def _by_way(context: Context, panel: str) -> dict[str, Any]:
    """A model at several temperatures and with rounded weights: ML's logits and M-SMC's bank of each."""
    rows: list[tuple[float, str, str]] = []
    for orders in context.orders(panel):
        for name, variant in context.variants(panel).items():
            if variant.kind == "temperature" and variant.model == orders.simulator.removeprefix("hf:"):
                p, y = orders.at(0, float(variant.way[1:])), context.labels(panel)[orders.positions]
                ml = context.evaluate(p, y, f"orders {panel} {name}")
                own = context.scores(spec_of(M_SMC, panel, name))
                rows += [(ml["ece"], "ML", name), (own["ece"], M_SMC, name)]
    for one in (asked for replies in context.replies(panel) if replies.bits for asked in asked_in(replies)):
        if one.way == "ML" and one.model in context.variants(panel):
            own = context.scores(spec_of(M_SMC, panel, one.model))
            rows += [(context.asked_scores(panel, one)["ece"], "ML", one.model), (own["ece"], M_SMC, one.model)]
    return _mixed(rows, "ML" if rows else None)


LEAST_MODELS = 5  # below which the variance of a random intercept cannot be learnt


def mixed_effects(
    values: Sequence[float], methods: Sequence[str], models: Sequence[str], reference: str
) -> dict[str, dict[str, Any]] | str:
    """value ~ method + (1 | model): each method's difference from the reference within models, or why not.

    The random intercept takes up how good a model is in general.
    """
    x, others = np.asarray(values, dtype=float), sorted(set(methods) - {reference})
    n_models = len(set(models))
    if not others:
        return "a comparison needs at least two methods"
    if n_models < LEAST_MODELS:
        return f"{n_models} language models are too few for a random intercept (at least {LEAST_MODELS})"
    if len(x) <= len(others) + 1 + n_models:
        return "there are no more rows than effects to estimate"
    if not np.all(np.isfinite(x)) or np.ptp(x) == 0:
        return "all values are equal, or one of them is undefined"
    from statsmodels.regression.mixed_linear_model import MixedLM

    design = np.column_stack([np.ones(len(x))] + [[float(m == o) for m in methods] for o in others])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: what did not converge has no finite error
        try:
            fit = MixedLM(x, design, groups=np.asarray(models, dtype=object).astype(str)).fit(reml=True)
        except np.linalg.LinAlgError:  # values hundreds of orders apart
            return "the fit met a singular matrix"
    estimates, spreads = (np.asarray(v, dtype=float)[1:] for v in (fit.fe_params, fit.bse_fe))
    if not np.all(np.isfinite([*estimates, *spreads])):
        return "the fit did not give finite standard errors"
    return {
        name: {"estimate": b, "ci": [b - 1.96 * e, b + 1.96 * e], "p_value": float(2 * norm.sf(abs(b) / e))}
        for name, b, e in zip(others, estimates.tolist(), spreads.tolist(), strict=True)
    }


def _mixed(rows: list[tuple[float, str, str]], reference: str | None) -> dict[str, Any]:
    values, methods, models = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    reference = reference or min(methods, default="")
    found = mixed_effects(values, methods, models, reference)
    reason, effects = (found, {}) if isinstance(found, str) else (None, found)
    return {"reference": reference, "models": len(set(models)), "reason": reason, "effects": effects}
