"""Entropy of every method on out-of-class cases beside that on the panel's own.

Models asked come from records of asking. An answer that cannot be read says nothing about a model's entropy:
it is left out and counted."""

from typing import Any, NamedTuple

import numpy as np

from paper import engine
from paper.answers import METHODS, Spec, theirs_name
from paper.context import Context
from paper.intervals import interval, mean_interval
from paper.measures import Measured, packaged_used
from simdx.metrics.scores import ood_auroc
from simdx.runs import NotRun
from simdx.types import Float, entropy_bits

COMPARED = ("m-smc", "d-smc", "abi", "auto", "bank-logistic", "centroid", "tfidf", "zero-shot")


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
    """Models asked about out-of-class cases, from records; and what could not be read."""
    inside = {
        (one.simulator, one.way): entropy_bits(one.probabilities[one.readable > 0]) for one in context.asked(panel)
    }
    found, missing = [], []
    for one in context.asked_outside(panel):
        read, within = (one.probabilities[one.readable > 0], inside.get((one.simulator, one.way), np.zeros(0)))
        if len(read):
            outside = entropy_bits(read)
            found.append(Bits(one.name, theirs_name(one.way), within, outside, len(one.positions)))
        else:
            missing.append(f"{panel}: no answer of {one.name} on an out-of-class case could be read.")
    return found, missing


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
