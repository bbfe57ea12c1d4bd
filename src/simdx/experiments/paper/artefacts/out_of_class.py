"""Entropy on out-of-class cases, for every method (table S8).

A text of none of the panel's labels should leave the posterior diffuse. Predictive entropy of every method
on the out-of-class cases of each panel stands beside that on the panel's own cases: high entropy says little
if the panel's cases have it too, so the AUROC of entropy between the two is given as well. Models asked
directly (ML, EP and the others) come from records of asking; where there are none, a small embedded model is
asked about a random subset, where its weights are installed, and otherwise a note says that it was not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simdx.baselines.interview import AskingMethod
from simdx.errors import SimdxError
from simdx.experiments.cells import subset
from simdx.experiments.paper.artefact import Figure, Finding, NotRun, Table, number
from simdx.experiments.paper.asked import PAPER_ASKING, SMALL_MODEL
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import interval, mean_interval
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import Quote, data_of_panel, over_models
from simdx.experiments.paper.words import METHODS, doubts, theirs
from simdx.methods import Observations, Settings, fit_method
from simdx.methods.outside import fit_outside
from simdx.metrics.ood import ood_auroc
from simdx.models import locate
from simdx.report.plots import Estimate, interval_plot
from simdx.types import Float, entropy_bits

ORDER = 360
NAME = "out-of-class"
COMPARED = ("m-smc", "d-smc", "abi", "auto", "bank-logistic", "centroid", "tfidf", "zero-shot")
ASKED_WAYS = ("logits", "elicited")  # the paper's two in this table
# How many out-of-class cases the small model is asked about where no record holds its answers. Case reports
# are twenty times as long as the others.
ASKED_CASES = {"oral-lesions": 40, "symptom-to-diagnosis": 40, "case-reports": 10}


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """Entropies of one method inside and outside the panel."""

    name: str
    paper: str | None  # the paper's name of it
    inside: Float
    outside: Float
    asked: int | None = None  # of how many out-of-class cases these are the readable answers


def run(context: Context) -> Finding:
    panels = [p for p in context.panels if context.cases(p).outside is not None]
    if not panels:
        raise NotRun("no panel of this run has out-of-class cases at hand")
    found, notes = {}, []
    for panel in panels:
        methods = [_computed(context, panel, method) for method in COMPARED]
        methods.append(_with_background(context, panel))
        asked, missing = _asked(context, panel)
        notes += missing
        found[panel] = [_measure(context, panel, bits) for bits in (*methods, *asked)]
    return Finding(
        tables=tuple(_table(context, panel, rows) for panel, rows in found.items()),
        figures=tuple(_figure(context, panel, rows) for panel, rows in found.items()),
        verdicts=tuple(line for p, rows in found.items() for line in _verdicts(context, p, rows)),
        n={p: context.n[p] for p in panels}
        | {f"{p}, out of class": len(_outside(context, p)) for p in panels},
        models=("reference bank", *dict.fromkeys(context.embedder_name(Spec(p, "")) for p in panels)),
        data=found,
        notes=(*context.notes, *notes),
    )


def _outside(context: Context, panel: str) -> list[str]:
    dataset = context.cases(panel).outside
    assert dataset is not None
    return [case.id for case in dataset.cases]


def _computed(context: Context, panel: str, method: str) -> Bits:
    answers = context.answers(Spec(panel, method))
    assert answers.outside is not None
    paper = METHODS[method] if method in ("m-smc", "d-smc") else None
    return Bits(METHODS[method], paper, entropy_bits(answers.probabilities), entropy_bits(answers.outside))


def _with_background(context: Context, panel: str) -> Bits:
    """The recipe as it is shipped: what its background hypothesis claims goes back to the prior."""
    spec = Spec(panel, "auto")
    share_of = fit_outside(context.material(spec))
    answers, prior = context.answers(spec), context.prior(spec)
    apart = context.outside_observations(panel)
    assert share_of is not None
    assert apart is not None
    assert answers.outside is not None

    def bits(p: Float, seen: Observations) -> Float:
        share = share_of(seen, prior)[:, None]
        return entropy_bits((1 - share) * p + share * prior.probabilities)

    inside = bits(answers.probabilities, context.observations(panel))
    return Bits("recipe with “none of these”", None, inside, bits(answers.outside, apart))


# --------------------------------------------------------------------------- asking


def _asked(context: Context, panel: str) -> tuple[list[Bits], list[str]]:
    """Models asked about out-of-class cases: from records, else the small one; and what is missing.

    An answer that cannot be read says nothing about the model's entropy and is left out and counted.
    """
    inside = {
        (one.simulator, one.method): one.probabilities[one.readable > 0] for one in context.asked(panel)
    }
    found, missing = [], []
    for one in context.asked_outside(panel):
        within = inside.get((one.simulator, one.method))
        bits = np.zeros(0) if within is None else entropy_bits(within)
        read = one.probabilities[one.readable > 0]
        if len(read):
            paper = PAPER_ASKING.get(one.method)
            found.append(Bits(one.name, paper, bits, entropy_bits(read), len(one.positions)))
        else:
            missing.append(f"{panel}: no answer of {one.name} on an out-of-class case could be read.")
    recorded = {one.method for one in context.asked_outside(panel)}
    for way in ASKED_WAYS:
        if way in recorded:
            continue
        short = PAPER_ASKING[way]
        p, count, reason = _ask(context, panel, way)
        if not len(p):
            missing.append(f"{panel}: {short} on out-of-class cases was not run: {reason}.")
            continue
        within = inside.get((SMALL_MODEL, way))
        bits = np.zeros(0) if within is None else entropy_bits(within)
        found.append(Bits(f"{short} ({SMALL_MODEL})", short, bits, entropy_bits(p), count))
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
    outside = context.cases(panel).outside
    assert outside is not None
    chosen = subset(outside, count, context.seed)
    material = context.material(Spec(panel, way))
    replies = str(context.out / "asking-outside")
    settings = Settings(method=way, simulator=SMALL_MODEL, replies=replies, seed=context.seed)
    infer = fit_method(material, settings)
    assert isinstance(infer, AskingMethod)
    asked = infer.ask(material.observe(chosen.texts))
    p = np.asarray(infer.answer(asked, context.prior(Spec(panel, way))).probabilities)
    return p[asked.readable > 0], len(p), f"none of {len(p)} answers of {SMALL_MODEL} could be read"


# --------------------------------------------------------------------------- measuring


def _measure(context: Context, panel: str, bits: Bits) -> dict[str, Any]:
    rng, resamples = context.rng(NAME, panel, bits.name), context.size.resamples
    separable = len(bits.inside) > 0

    def separation(a: Float, b: Float) -> float | None:
        return ood_auroc(a, b).value

    return {
        "method": bits.name,
        "paper": bits.paper,
        "n_outside": len(bits.outside),
        "asked": bits.asked,
        "outside": float(bits.outside.mean()),
        "outside_ci": mean_interval(bits.outside, rng, resamples),
        "inside": float(bits.inside.mean()) if separable else None,
        "inside_ci": mean_interval(bits.inside, rng, resamples) if separable else None,
        "auroc": separation(bits.inside, bits.outside) if separable else None,
        "auroc_ci": interval(separation, bits.inside, bits.outside, rng=rng, resamples=min(resamples, 1000))
        if separable
        else None,
    }


def _table(context: Context, panel: str, rows: list[dict[str, Any]]) -> Table:
    most = float(np.log2(len(context.names(panel))))
    shown, quotes = [], []
    for row in rows:
        quoted = _quoted(panel, row)
        quotes.append(quoted)
        shown.append(
            (
                row["method"], _count(row), number(row["outside"], row["outside_ci"], 2),
                theirs(quoted, 2), number(row["inside"], row["inside_ci"], 2),
                number(row["auroc"], row["auroc_ci"], 2),
            )
        )  # fmt: skip
    return Table(
        f"{panel}: mean predictive entropy in bits, at most {most:.2f}",
        (
            "method",
            "N out of class (readable of asked)",
            "entropy out of class",
            "paper: mean of 4 models [range]",
            "entropy of the panel's own cases",
            "AUROC of entropy",
        ),
        tuple(shown),
        "95 % bootstrap. " + doubts(quotes),
    )


def _count(row: dict[str, Any]) -> str:
    return str(row["n_outside"]) + ("" if row["asked"] is None else f" of {row['asked']}")


def _quoted(panel: str, row: dict[str, Any]) -> Quote | None:
    if row["paper"] is None:
        return None
    return over_models(NAME, "entropy_bits", data=data_of_panel(panel), method=row["paper"])


def _figure(context: Context, panel: str, rows: list[dict[str, Any]]) -> Figure:
    most = float(np.log2(len(context.names(panel))))
    shown = []
    for row in rows:
        quoted = _quoted(panel, row)
        paper = None if quoted is None else quoted.value
        low, high = row["outside_ci"] or (None, None)
        shown.append(Estimate(f"{row['method']}: out of class", row["outside"], low, high, paper, style=1))
        if row["inside"] is not None:
            low, high = row["inside_ci"]
            shown.append(Estimate(f"{row['method']}: own cases", row["inside"], low, high))
    return Figure(
        f"entropy-{panel}",
        interval_plot(
            f"Entropy inside and outside, {panel}", "predictive entropy (bits)", shown, x=(0, most)
        ),
        f"{panel}: mean entropy of out-of-class cases and of the panel's own, 95 % bootstrap; the scale ends "
        "at the largest entropy there can be. Diamonds: the paper's mean over its models.",
    )


def _verdicts(context: Context, panel: str, rows: list[dict[str, Any]]) -> list[str]:
    most = float(np.log2(len(context.names(panel))))
    by = {row["method"]: row for row in rows}
    said = []
    m = by["M-SMC"]
    quoted = over_models(NAME, "entropy_bits", data=data_of_panel(panel), method="M-SMC")
    line = f"{panel}: M-SMC reaches {m['outside']:.2f} of {most:.2f} bits out of class"
    if quoted is not None:
        near = m["outside"] >= 0.95 * most
        line += f" (the paper: {quoted.value:.2f}); " + (
            "it is maximal here too" if near else "it is not the maximum the paper speaks of"
        )
    said.append(line + ".")
    best = max((r for r in rows if r["asked"] is None), key=lambda r: r["auroc"] or 0.0)
    said.append(
        f"{panel}: entropy tells out-of-class cases from the panel's own with AUROC "
        f"{number(m['auroc'], m['auroc_ci'], 2)} for M-SMC and "
        f"{number(by['D-SMC']['auroc'], by['D-SMC']['auroc_ci'], 2)} for D-SMC; best is {best['method']} "
        f"with {number(best['auroc'], best['auroc_ci'], 2)}. High entropy alone is no detector: normalised "
        f"cosines have {by[METHODS['centroid']]['outside']:.2f} bits out of class and "
        f"{by[METHODS['centroid']]['inside']:.2f} on the panel's own cases."
    )
    asked = [row for row in rows if row["paper"] in ("ML", "EP")]
    if asked:
        words = ", ".join(f"{row['method']} {row['outside']:.2f}" for row in asked)
        above = all(m["outside"] > row["outside"] for row in asked)
        line = f"{panel}: asked directly, {words} bits; M-SMC is "
        line += "above all of them, as in the paper" if above else "not above all of them, unlike the paper"
        known = [row for row in asked if row["auroc"] is not None]
        if known:
            top = max(known, key=lambda row: row["auroc"])
            line += (
                f". Entropy of a model asked tells out-of-class cases from the others with AUROC "
                f"{number(top['auroc'], top['auroc_ci'], 2)} at best ({top['method']}), "
                + ("above" if top["auroc"] > (m["auroc"] or 0) else "not above")
                + " M-SMC's"
            )
        said.append(line + ".")
    return said
