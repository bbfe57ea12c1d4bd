"""Which answers are wrong and whether the uncertainty says so: curves, bands, confusions, differences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binomtest, spearmanr

from paper import engine, world
from paper.answers import ABI, D_SMC, M_SMC, RECIPE, Spec, spec_of
from paper.context import Context
from paper.measures import Measured, each_panel
from paper.measures.scores import simulators
from paper.tables import DIFFERENCES
from paper.world import REFERENCE
from simdx.metrics.resampling import evaluate_probabilities
from simdx.metrics.scores import confusion, errors, kept_at, risk_coverage, uncertainty
from simdx.types import Bank, Float, Int, entropy_bits

ONE_HOT, CONFIDENT, COVERAGE = 0.99, 0.8, 0.8
BANDS = {"high": (0.0, 0.5), "medium": (0.5, 1.5), "low": (1.5, np.inf)}  # certainty by bits
SIMILARITY = ("centroid", "tfidf", "zero-shot", "bank-logistic")
AT = (0.2, 0.5, 0.8, 1.0)  # coverages


def _everyone(context: Context, panel: str, methods: Sequence[str]) -> dict[str, tuple[str, Float, Int]]:
    """Method, answers and labels of each method and each model asked, under their names."""
    y = context.labels(panel)
    found = {name: (name, context.probabilities(spec_of(name, panel)), y) for name in methods}
    for bank in simulators(context, panel):
        found[f"{M_SMC}, {bank}"] = M_SMC, context.probabilities(spec_of(M_SMC, panel, bank)), y
    for one in context.asked(panel):
        found[one.name] = one.way, one.probabilities, y[one.positions]
    return found


def curves(context: Context) -> Measured:
    def measure(panel: str) -> dict[str, Any]:
        everyone = _everyone(context, panel, context.packaged(M_SMC, D_SMC, ABI, RECIPE))
        return {name: {"method": method, **_curve(p, y)} for name, (method, p, y) in everyone.items()}

    return each_panel(context, measure)


def _curve(p: Float, y: Int) -> dict[str, Any]:
    (coverage, risk), n = risk_coverage(uncertainty(p), errors(p, y)), len(y)
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


def strata(context: Context) -> Measured:
    def measure(panel: str) -> dict[str, Any]:
        everyone = _everyone(context, panel, context.packaged(M_SMC, D_SMC, RECIPE))
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
            "ci": None if wilson is None else [float(wilson.low), float(wilson.high)],
        }
    return found


# --------------------------------------------------------------------------- the structure of the errors


def structure(context: Context) -> Measured:
    def measure(panel: str) -> dict[str, Any]:
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
        "errors_among_most_certain": int(wrong[certain].sum()),
    }


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
    each = {name: np.array([row[name] for row in rows], dtype=float) for name in (rows[0] if rows else ())}
    return {name: float(np.nanstd(values, ddof=1)) for name, values in each.items()}


def bank_spread(context: Context, panel: str, bank: str, method: str) -> dict[str, float]:
    """Of a method's figures over the draw of the bank.

    Over the draws at hand where there are three; else over random halves: halves of M texts, drawn without
    replacement, spread as much as whole banks of M texts would (delete-half jackknife).
    """
    spec, names = spec_of(method, panel, bank), context.draws(panel, bank)
    specs = [replace(spec, bank=name) for name in names]
    if len(names) < LEAST_DRAWS:
        half = max(1, min(context.bank(spec).counts.values()) // 2)
        specs = [replace(spec, per_label=half, pool_seed=seed) for seed in range(HALVES[context.scale])]
    return _spread([context.probabilities(one) for one in specs], context.labels(panel))


def disjoint_draws(context: Context, panel: str, bank: str) -> list[Bank]:
    """Three banks of one size by one model that share no text: its own, and two parts of its larger pool."""
    large = next((n for n, v in context.variants(panel).items() if (v.kind, v.model) == ("pool", bank)), None)
    if large is None:
        return []
    own, more = context.bank(Spec(panel, "", bank)), context.bank(Spec(panel, "", large))
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
        data = engine.PanelData.prepare(context.cases(panel).source.panel, one, context.panel_data(spec).embedder)
        posterior = engine.fit(data, spec).infer(context.observations(panel), context.prior(spec)).posterior
        found.append(posterior.probabilities)
    return _spread(found, context.labels(panel))


def bank_draws(context: Context) -> Measured:
    """How far M-SMC's and D-SMC's figures move with the draw of the bank, for every bank that a claim rests on."""

    def measure(panel: str) -> dict[str, Any]:
        varied = [name for name, one in context.variants(panel).items() if (panel, one.kind) == TEMPERATURES
                  or one.way in ROUNDED]  # fmt: skip
        found: dict[str, Any] = {bank: {M_SMC: bank_spread(context, panel, bank, M_SMC)} for bank in varied}
        for bank in (*context.packaged(REFERENCE), *simulators(context, panel)):
            found[bank] = {name: bank_spread(context, panel, bank, name) for name in (M_SMC, D_SMC)}
            if three := _three_draws(context, panel, bank):
                found[bank][THREE] = three
        return found

    return each_panel(context, measure)


def significance(context: Context, metrics: Sequence[str] = tuple(DIFFERENCES)) -> Measured:
    """Asking minus M-SMC over the asked model's own bank, on the same cases; means over the draws of the bank.

    Intervals count the draw of the cases (paired bootstrap) and the draw of the bank.
    """

    def measure(panel: str) -> dict[str, Any]:
        y, rows = context.labels(panel), {}
        banks = dict.fromkeys(context.own_bank(panel, one) for one in context.asked(panel))
        spread = {bank: bank_spread(context, panel, bank, M_SMC) for bank in banks}

        def beyond(ours: Float, theirs: Float, y: Int, name: str) -> dict[str, dict[str, Any]]:
            return context.paired(ours, theirs, y, metrics, "paired", f"{panel} {name}")

        for one in context.asked(panel):
            bank = context.own_bank(panel, one)
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

    return each_panel(context, measure)


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
