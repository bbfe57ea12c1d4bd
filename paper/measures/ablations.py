"""Headline metrics as one thing varies: normalisation, embedding, weights, temperature, size of the pool."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from paper.asked import LEAST_READABLE, PAPER_ASKING
from paper.context import Context
from paper.measures import Measured
from paper.world import METHODS, REFERENCE, Spec, Variant
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
