"""Entropy of every method on out-of-class cases beside that on the panel's own.

Models asked come from records of asking; where there are none, a small embedded model is asked about a
random subset, where its weights are installed, and otherwise a note says that it was not run. An answer
that cannot be read says nothing about a model's entropy: it is left out and counted."""

from typing import Any, NamedTuple

import numpy as np

from paper import engine
from paper.answers import Spec, theirs_name
from paper.asked import PAPER_ASKING, SMALL_MODEL
from paper.cells import METHODS
from paper.context import Context
from paper.intervals import interval, mean_interval
from paper.measures import packaged_used
from paper.spec import Measured
from simdx.errors import SimdxError
from simdx.experiments.cells import subset
from simdx.metrics.ood import ood_auroc
from simdx.models.fetch import locate
from simdx.runs import NotRun
from simdx.types import Float, entropy_bits

COMPARED = ("m-smc", "d-smc", "abi", "auto", "bank-logistic", "centroid", "tfidf", "zero-shot")
ASKED_WAYS = ("logits", "elicited")  # the paper's two in this table
# How many out-of-class cases the small model is asked about where no record holds its answers. Case reports
# are twenty times as long as the others.
ASKED_CASES = {"oral-lesions": 40, "symptom-to-diagnosis": 40, "case-reports": 10}


class Bits(NamedTuple):
    """Entropies of one method inside and outside the panel."""

    name: str
    paper: str | None  # the paper's name of it
    inside: Float
    outside: Float
    asked: int | None = None  # of how many out-of-class cases these are the readable answers


def out_of_class(context: Context) -> Measured:
    panels = [p for p in context.panels if context.cases(p).outside is not None]
    if not panels:
        raise NotRun("no panel of this run has out-of-class cases at hand")
    data, notes, n = {}, [], {p: context.n[p] for p in panels}
    for panel in panels:
        asked, missing = asked_bits(context, panel)
        notes += missing
        computed = [_computed(context, panel, method) for method in COMPARED]
        every = [*computed, _with_background(context, panel), *asked]
        data[panel] = [_measure(context, panel, bits) for bits in every]
    n |= {f"{p}, out of class": len(context.cases(p).outside.cases) for p in panels}  # type: ignore[union-attr]
    return Measured(data, n, packaged_used(context, panels), notes)


def _computed(context: Context, panel: str, method: str) -> Bits:
    paper = METHODS[method] if method in ("m-smc", "d-smc") else None
    inside, outside = map(entropy_bits, _both(context, Spec(panel, method)))
    return Bits(METHODS[method], paper, inside, outside)


def _both(context: Context, spec: Spec) -> tuple[Float, Float]:
    beyond = context.answers_outside(spec)
    assert beyond is not None
    return context.probabilities(spec), beyond["probabilities"]


def _with_background(context: Context, panel: str) -> Bits:
    """The recipe as it is shipped: what its background hypothesis claims goes back to the prior."""
    spec = Spec(panel, "auto")
    share_of, prior = engine.none_of_these(context.panel_data(spec)), context.prior(spec)
    seen = (context.observations(panel), context.outside_observations(panel))
    bits = []
    for p, observations in zip(_both(context, spec), seen, strict=True):
        share = share_of(observations, prior)[:, None]
        bits.append(entropy_bits((1 - share) * p + share * prior.probabilities))
    return Bits("recipe with “none of these”", None, bits[0], bits[1])


def asked_bits(context: Context, panel: str) -> tuple[list[Bits], list[str]]:
    """Models asked about out-of-class cases: from records, else the small one; and what is missing."""
    inside = {
        (one.simulator, one.way): entropy_bits(one.probabilities[one.readable > 0]) for one in context.asked(panel)
    }
    found, missing, recorded = [], [], set()
    for one in context.asked_outside(panel):
        recorded.add(one.method)
        read, within = (one.probabilities[one.readable > 0], inside.get((one.simulator, one.way), np.zeros(0)))
        if len(read):
            outside = entropy_bits(read)
            found.append(Bits(one.name, theirs_name(one.way), within, outside, len(one.positions)))
        else:
            missing.append(f"{panel}: no answer of {one.name} on an out-of-class case could be read.")
    for way in ASKED_WAYS:
        if way in recorded:
            continue
        short = PAPER_ASKING[way]
        p, count, reason = _ask(context, panel, way)
        if len(p):
            within = inside.get((SMALL_MODEL, short), np.zeros(0))
            found.append(Bits(f"{short} ({SMALL_MODEL})", short, within, entropy_bits(p), count))
        else:
            missing.append(f"{panel}: {short} on out-of-class cases was not run: {reason}.")
    return found, missing


def _ask(context: Context, panel: str, way: str) -> tuple[Float, int, str]:
    """The small model's readable answers on a random subset, of how many, and why there are none."""
    nothing = np.zeros((0, len(context.names(panel))))
    if context.smoke and (panel != context.panels[0] or not context.size.asked_cases):
        return nothing, 0, "a smoke run asks a model about one panel at most"
    try:
        locate(SMALL_MODEL, download=False)
    except SimdxError:
        return nothing, 0, f"no record holds a model's answers, and {SMALL_MODEL} is not installed"
    count = context.size.asked_cases if context.smoke else ASKED_CASES.get(panel, 10)
    outside, spec = context.cases(panel).outside, Spec(panel, way)
    assert outside is not None
    texts, replies = subset(outside, count, context.seed).texts, context.out / "asking-outside"
    p, readable = engine.ask_model(
        context.panel_data(spec), way, SMALL_MODEL, texts, context.prior(spec), context.seed, replies
    )
    return p[readable > 0], len(p), f"none of {len(p)} answers of {SMALL_MODEL} could be read"


def _measure(context: Context, panel: str, bits: Bits) -> dict[str, Any]:
    rng, resamples = context.rng("out-of-class", panel, bits.name), context.size.resamples

    def separation(a: Float, b: Float) -> float | None:
        return ood_auroc(a, b).value

    found: dict[str, Any] = {
        "method": bits.name,
        "paper": bits.paper,
        "n_outside": len(bits.outside),
        "asked": bits.asked,
        "outside": float(bits.outside.mean()),
        "outside_ci": mean_interval(bits.outside, rng, resamples),
    }
    if not len(bits.inside):
        return found | dict.fromkeys(("inside", "inside_ci", "auroc", "auroc_ci"))
    around = mean_interval(bits.inside, rng, resamples)
    found |= {"inside": float(bits.inside.mean()), "inside_ci": around}
    between = interval(separation, bits.inside, bits.outside, rng=rng, resamples=min(resamples, 1000))
    return found | {"auroc": separation(bits.inside, bits.outside), "auroc_ci": between}
