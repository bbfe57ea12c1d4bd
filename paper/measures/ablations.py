"""Headline metrics as one thing varies: normalisation, embedding, weights, temperature, size of the pool."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paper.answers import METHODS, Spec
from paper.asked import PAPER_ASKING, asked_in
from paper.context import Context
from paper.intervals import differences
from paper.measures import Measured, packaged_used
from paper.replies import LEAST_READABLE
from paper.world import REFERENCE, Variant
from simdx.embedders import get_embedder
from simdx.errors import SimdxError
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.runs import NotRun

COSINES: dict[str, tuple[str, Any]] = {
    "TF-IDF cosine, normalised": ("tfidf", None), "TF-IDF cosine, softmax": ("tfidf", "soft"),
    "embedding cosine, normalised": ("centroid", None), "embedding cosine, softmax": ("centroid", "soft"),
    "D-SMC": ("d-smc", None), "M-SMC": ("m-smc", None), "M-SMC, soft kernel": ("m-smc", "soft"),
}  # fmt: skip


def cosine_ablation(context: Context) -> Measured:
    """Cosines as they are and through a softmax, beside M-SMC; and D-SMC minus the normalised cosine."""
    scores = {
        panel: {name: context.scores(Spec(panel, method, kernel=kernel)) for name, (method, kernel) in COSINES.items()}
        for panel in context.panels
    }
    gaps = {}
    for panel in context.panels:
        cosine, d_smc = (context.probabilities(Spec(panel, m)) for m in ("centroid", "d-smc"))
        rng, resamples = context.rng("cosine-ablation", panel), context.size.paired_resamples
        found = differences(cosine, d_smc, context.labels(panel), ("accuracy", "brier", "ece"), rng, resamples)
        gaps[panel] = {
            "answers_differ_on": int(np.sum(cosine.argmax(axis=1) != d_smc.argmax(axis=1))),
            **{n: {"value": d["difference"], "ci": d["ci"], "p": d["p_value"]} for n, d in found.items()},
        }
    data = {"scores": scores, "d_smc_minus_cosine": gaps}
    return Measured(data, context.n, packaged_used(context))


EMBEDDERS = ("wordllama", "minilm", "mpnet", "wordllama+minilm", "wordllama+mpnet", "hashing")


def embedders_at_hand(names: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """Embedders with their dimensions, and why the others are left out; nothing is downloaded."""
    found, missing = {}, {}
    for name in names:
        absent = [part for part in name.split("+") if not _installed(part)]
        if absent:
            missing[name] = f"the weights of {absent[0]} are not installed"
            continue
        try:
            found[name] = sum(get_embedder(name).blocks)
        except SimdxError as problem:
            missing[name] = str(problem)
    return found, missing


def _installed(part: str) -> bool:
    try:
        return part not in REGISTRY or bool(locate(part, download=False))
    except SimdxError:
        return False


def embedding_ablation(context: Context, names: Sequence[str] = ()) -> Measured:
    # Encoders take a while: a smoke run shows one, on one panel, with one method.
    wanted = names or (("wordllama", "minilm", "hashing") if context.smoke else EMBEDDERS)
    found, missing = embedders_at_hand(wanted)
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
    data = {"scores": scores, "dimensions": found, "left_out": missing}
    return Measured(data, {p: context.n[p] for p in panels}, ["reference bank", *found], notes)


def orders(context: Context) -> Measured:
    """A model asked with the options in every order: each alone, and the mean over all."""
    data = {}
    for panel in context.panels:
        for one in context.orders(panel):
            y = context.labels(panel)[one.positions]
            alone = [one.at(order) for order in range(one.letters.shape[1])]
            answers = {f"order {i + 1}": p for i, p in enumerate(alone)} | {"all orders": np.mean(alone, axis=0)}
            top = np.stack([p.argmax(axis=1) for p in alone])
            data[f"{panel}, {one.simulator}"] = {
                "panel": panel, "simulator": one.simulator,
                "order_changes_answer": float((top != top[0]).any(axis=0).mean()),
                "rows": {n: context.evaluate(p, y, f"orders {panel} {n}") for n, p in answers.items()},
            }  # fmt: skip
    if not data:
        raise NotRun("no record of a model asked in every order is at hand")
    return Measured(data, context.n, sorted({str(row["simulator"]) for row in data.values()}))


def pairs_of(models: Sequence[str], variants: dict[str, Variant]) -> list[tuple[str, str]]:
    """(bank with the weights as they are, bank with other weights); a temperature is no other weight. A bank made
    in the same run as the others (`-bf16`, as many requests) comes before the model's own, which is larger."""
    other = {name: v for name, v in variants.items() if v.model in models and v.kind == "weights"}
    beside = {v.model: name for name, v in other.items() if v.way == "bf16"}
    return [(beside.get(v.model, v.model), name) for name, v in other.items() if v.way != "bf16"]


def quantisation_ablation(context: Context) -> Measured:
    data = {}
    for panel in context.panels:
        for plain, other in pairs_of(context.models(panel), context.variants(panel)):
            data[f"{panel}: {plain} and {other}"] = _pair(context, panel, plain, other)
    if not data:
        raise NotRun(
            "no two banks at hand were written by one model with different weights: build one with "
            "'simdx bank build' as {panel}-{model} and one as {panel}-{model}-q8_0 in the folder of banks"
        )
    note = (
        "A pair made by requantising a file that was quantised before says what the second rounding does, "
        "not what the first did."
    )
    models = dict.fromkeys(name for pair in data.values() for name in pair["banks"])
    return Measured(data, {pair["panel"]: context.n[pair["panel"]] for pair in data.values()}, list(models), [note])


def _pair(context: Context, panel: str, plain: str, other: str) -> dict[str, Any]:
    specs = [Spec(panel, "m-smc", bank) for bank in (plain, other)]
    p, q = (context.probabilities(spec) for spec in specs)
    rng, resamples = context.rng("quantisation-ablation", panel, plain, other), context.size.paired_resamples
    found = differences(p, q, context.labels(panel), ("accuracy", "ece", "brier"), rng, resamples)
    return {
        "panel": panel,
        "banks": [plain, other],
        "bits": _bits(context.variants(panel)[other].way),
        "m-smc": [context.scores(spec) for spec in specs],
        "same_answer": float((p.argmax(axis=1) == q.argmax(axis=1)).mean()),
        "difference": {
            name: {"value": d["difference"], "ci": None if d["ci"][0] is None else d["ci"]} for name, d in found.items()
        },
        "asked": _asked_both(context, panel, other),
    }


def _bits(way: str) -> int | None:
    """q4 and q4_k have four bits."""
    return int(way[1]) if way.startswith("q") and way[1:2].isdigit() else None


def _asked_both(context: Context, panel: str, other: str) -> dict[str, Any]:
    """ML and EP of the model's own weights and of the other ones, as far as they were asked."""
    both = (context.variants(panel)[other].model, other)
    said = (asked for one in context.replies(panel) for asked in asked_in(one))
    found = [one for one in said if one.model in both and one.way in ("ML", "EP")]
    return {one.name: context.asked_scores(panel, one) for one in sorted(found, key=lambda one: (one.way, one.model))}


ASKED_AT = (0.2, 0.4, 0.6, 0.8, 1.0)  # the paper's temperatures


def temperature_ablation(context: Context) -> Measured:
    series = [one for panel in context.panels for one in _over_temperatures(context, panel)]
    if not series:
        raise NotRun("no banks written at several temperatures are at hand ({panel}-{model}-t0.4 and so on)")
    models = list(dict.fromkeys(one["model"] for one in series))
    data = {"source": "banks", "series": series}
    return Measured(data, {one["panel"]: one["cases"] for one in series}, models)


def _over_temperatures(context: Context, panel: str) -> list[dict[str, Any]]:
    by_model: dict[str, dict[float, str]] = {}
    for name, one in context.variants(panel).items():
        if one.kind == "temperature":
            by_model.setdefault(one.model, {})[float(one.way[1:])] = name
    found = []
    for model, banks in by_model.items():
        points = []
        for temperature, bank in sorted(banks.items()):
            counts = context.bank(Spec(panel, "", bank)).counts.values()
            complete = min(counts) == max(counts)  # each label is asked for equally many
            points.append(_point(temperature, context.scores(Spec(panel, "m-smc", bank)), sum(counts), complete))
        if len(points) > 1:
            about = {"panel": panel, "model": model, "what": "M-SMC", "cases": context.n[panel]}
            found.append({**about, "points": points})
    for asked in context.orders(panel):  # the letters' logits at each temperature, one order of the list
        y = context.labels(panel)[asked.positions]
        said = {t: context.evaluate(asked.at(0, t), y, f"ML {panel} {asked.simulator} {t}") for t in ASKED_AT}
        points = [_point(t, scores, 0, True) for t, scores in said.items()]
        about = {"panel": panel, "model": asked.simulator, "what": "ML", "cases": len(y)}
        found.append({**about, "points": points})
    return found + _asked_over_temperatures(context, panel)


def _asked_over_temperatures(context: Context, panel: str) -> list[dict[str, Any]]:
    """EP and EF, where their replies at more than one temperature are at hand and can be read."""
    series: dict[tuple[str, str], dict[str, Any]] = {}
    for one in context.replies(panel):
        if one.method not in ("elicited", "fidelity") or one.bits is not None or one.answered < LEAST_READABLE:
            continue
        y, what = context.labels(panel)[one.positions], PAPER_ASKING[one.method]
        scores = context.evaluate(one.probabilities, y, f"{what} {panel} {one.model} {one.temperature}")
        about = {"panel": panel, "model": f"hf:{one.model}", "what": what, "cases": len(y), "points": []}
        own = series.setdefault((one.model, what), about)
        own["points"].append(_point(one.temperature, scores, 0, True))
    for own in series.values():
        own["points"].sort(key=lambda point: point["temperature"])
    return [own for own in series.values() if len(own["points"]) > 1]


def _point(temperature: float, scores: dict[str, Any], texts: int, complete: bool) -> dict[str, Any]:
    parts = {m: {"value": scores[m], "ci": scores["ci"].get(m)} for m in ("accuracy", "brier", "ece")}
    parts["ece"]["debiased"] = scores["ece_debiased"]
    return {"temperature": float(temperature), "texts": texts, "complete": complete, **parts}


POOLS = {"smoke": 2, "full": 5}


def pool_size(
    context: Context, sizes: Sequence[int], metrics: Sequence[str], largest: int, largest_panel: str
) -> Measured:
    rows = []
    for panel in context.panels:
        large = (name for name, one in context.variants(panel).items() if one.kind == "pool")
        for bank in (REFERENCE, *context.models(panel), *large):
            counts = context.bank(Spec(panel, "", bank)).counts.values()
            most = max(counts)
            more = (largest,) if panel == largest_panel or most >= largest else ()
            for method in ("d-smc", "m-smc"):
                for size in (*sizes, *more):
                    rows.append(_pools(context, Spec(panel, method, bank), size, min(counts), most, metrics))
    return Measured({"rows": rows}, context.n, list(dict.fromkeys(r["bank"] for r in rows)))


def _pools(context: Context, spec: Spec, size: int, least: int, most: int, metrics: Sequence[str]) -> dict[str, Any]:
    # One pool where it is the whole bank: there is nothing to draw, and nothing is repeated to fill it up.
    drawn = [replace(spec, per_label=size, pool_seed=s) for s in range(POOLS[context.scale])]
    found = [context.scores(one) for one in ([spec] if size >= most else drawn)]
    accuracies = [one["accuracy"] for one in found]
    return {
        "panel": spec.panel,
        "bank": spec.bank,
        "method": spec.method,
        "size": size,
        "distinct": [min(size, least), min(size, most)],
        "pools": len(found),
        "first": found[0],
        "means": {m: _mean([one[m] for one in found]) for m in metrics},
        "accuracy_range": [min(accuracies), max(accuracies)],
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known else None
