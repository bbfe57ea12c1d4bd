"""Two weights of one model: does quantisation touch the answer? (table S16)

The paper compares full precision with four bits of one model. A pair here is a model's bank and a bank the
same model wrote with other weights (`{panel}-{model}` and `{panel}-{model}-q8_0`, say, in $SIMDX_BANKS);
M-SMC with each is compared on the same cases, and beside it what the two answered when asked directly, where
records hold that. Where no pair is at hand the artefact is not run and says so.
"""

from __future__ import annotations

from typing import Any

from simdx.experiments.paper.artefact import Finding, NotRun, Table, number
from simdx.experiments.paper.asked import PAPER_ASKING, Asked
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quotes
from simdx.experiments.paper.words import doubts, ours, theirs
from simdx.experiments.paper.world import Variant
from simdx.metrics import paired_bootstrap

ORDER = 430
NAME = "quantisation-ablation"
METRICS = ("accuracy", "brier", "ece", "entropy_bits", "auroc")
PAIRED = ("accuracy", "ece", "brier")


def pairs_of(models: tuple[str, ...], variants: dict[str, Variant]) -> list[tuple[str, str]]:
    """(bank as the model runs by default, bank with other weights); a temperature is no other weight."""
    return [
        (one.model, name) for name, one in variants.items() if one.model in models and one.kind == "weights"
    ]


def run(context: Context) -> Finding:
    found = []
    for panel in context.panels:
        for plain, other in pairs_of(context.models(panel), context.variants(panel)):
            found.append(_pair(context, panel, plain, other))
    if not found:
        raise NotRun(
            "no two banks at hand were written by one model with different weights: build one with "
            "'simdx bank build' as {panel}-{model} and one as {panel}-{model}-q8_0 in the folder of banks"
        )
    return Finding(
        tables=tuple(_table(pair) for pair in found),
        verdicts=tuple(_verdict(pair) for pair in found),
        n={pair["panel"]: context.n[pair["panel"]] for pair in found},
        models=tuple(dict.fromkeys(name for pair in found for name in pair["banks"])),
        data={f"{pair['panel']}: {' and '.join(pair['banks'])}": pair for pair in found},
        notes=(
            *context.notes,
            "A pair made by requantising a file that was quantised before says what the second rounding "
            "does, not what the first did.",
        ),
    )


def _pair(context: Context, panel: str, plain: str, other: str) -> dict[str, Any]:
    specs = [Spec(panel, "m-smc", bank) for bank in (plain, other)]
    p, q = (context.probabilities(spec) for spec in specs)
    differences = paired_bootstrap(
        p,
        q,
        context.labels(panel),
        metrics=PAIRED,
        resamples=context.size.paired_resamples,
        rng=context.rng(NAME, panel, plain, other),
    )
    label = context.labels(panel)
    asked = {}
    for one in context.asked(panel):
        if one.model in (plain, other):
            asked[one.name] = context.evaluate(one.probabilities, label[one.positions], _key(one))
    return {
        "panel": panel,
        "banks": [plain, other],
        "m-smc": [context.scores(spec) for spec in specs],
        "same_answer": float((p.argmax(axis=1) == q.argmax(axis=1)).mean()),
        "difference": {
            name: {"value": d.difference, "ci": None if d.low is None else [d.low, d.high]}
            for name, d in differences.items()
        },
        "asked": asked,
    }


def _key(asked: Asked) -> str:
    return f"{asked.simulator} {PAPER_ASKING.get(asked.method, asked.method)}"


def _table(pair: dict[str, Any]) -> Table:
    rows = []
    for bank, scores in zip(pair["banks"], pair["m-smc"], strict=True):
        rows.append(("M-SMC", bank, *(ours(scores, m) for m in METRICS)))
    for name, scores in pair["asked"].items():
        rows.append(("asked", name, *(ours(scores, m) for m in METRICS)))
    quoted = quotes(NAME, data=data_of_panel(pair["panel"]))
    for method, setting in dict.fromkeys((q.method, q.setting) for q in quoted):
        own = {q.quantity: q for q in quoted if (q.method, q.setting) == (method, setting)}
        rows.append((f"paper: {method}", str(setting), *(theirs(own.get(m)) for m in METRICS)))
    return Table(
        f"{pair['panel']}: {' and '.join(pair['banks'])}",
        ("method", "weights", "accuracy", "Brier", "ECE", "entropy", "AUROC"),
        tuple(rows),
        "95 % bootstrap over cases. " + doubts(quoted),
    )


def _verdict(pair: dict[str, Any]) -> str:
    first, second = pair["banks"]
    gaps = ", ".join(f"{name} {number(one['value'], one['ci'])}" for name, one in pair["difference"].items())
    sure = [n for n, one in pair["difference"].items() if one["ci"] and not one["ci"][0] <= 0 <= one["ci"][1]]
    return (
        f"{pair['panel']}: M-SMC answers the same with simulations of {first} and of {second} on "
        f"{pair['same_answer']:.1%} of the cases; {second} minus {first}: {gaps}. "
        + (
            f"Beyond chance: {', '.join(sure)}; two banks of one model also differ by the draw of texts."
            if sure
            else "Nothing beyond chance, which agrees with the paper's robustness."
        )
    )
