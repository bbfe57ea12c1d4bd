"""Whole posteriors: where they lie and how their uncertainty splits, what a prior does, entropy on cases of no label,
the samplers at work, and what each variant can do.

Models asked come from records of asking. An answer that cannot be read says nothing about a model's entropy: it is
left out."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from paper.context import Context, Measured, per_panel
from paper.world import (
    ABI,
    D_PARTICLES,
    D_SMC,
    M_PARTICLES,
    M_SMC,
    M_SOFT,
    METHODS,
    RECIPE,
    REFERENCE,
    SECOND_ORDER,
    Spec,
    spec_of,
    theirs_name,
)  # fmt: skip
from simdx.abc.dirichlet import bank_tolerance, concentration_cap, dirichlet_differential_entropy
from simdx.abc.particles import multinomial_live
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised import fidelity
from simdx.amortised.network import load
from simdx.bank.files import MANIFEST_FILE
from simdx.classifier import Classifier
from simdx.embedders import get_embedder
from simdx.embedders.base import embed_texts
from simdx.errors import BadInput
from simdx.methods import Fitted, Observations, Settings
from simdx.methods.calibration import calibrated
from simdx.methods.outside import Outside
from simdx.methods.smc import SimplexPosterior
from simdx.metrics import auroc, spread
from simdx.metrics.scores import ood_auroc
from simdx.runs import Arrays, NotRun
from simdx.types import Float, Int, Trace, entropy_bits

# --------------------------------------------------------------------------- pictures of three labels

SHOWN = 200  # draws in each triangle


def spread_of(mean: Float, alpha0: Float) -> Float:
    """Root mean squared distance of draws from their mean, from the moment fit: exact for its Dirichlet."""
    return np.sqrt(np.sum(mean * (1 - mean), axis=1) / (alpha0 + 1))


def typical(mean: Float) -> int:
    """Position of the case of median entropy; the lower one of two."""
    return int(np.argsort(entropy_bits(mean), kind="stable")[(len(mean) - 1) // 2])


def ternary(context: Context) -> Measured:
    panel = next((p for p in context.panels if len(context.names(p)) == 3), None)
    if panel is None:
        raise NotRun("a ternary picture needs a panel with three labels, and none of this run has three")
    spec, cases = Spec(panel, "d-smc"), context.cases(panel)
    inside, prior = context.answers(spec), context.prior(spec)
    right = inside["probabilities"].argmax(axis=1) == context.labels(panel)
    # group -> answers, and the rows of the group among them
    groups = {"correct": (inside, np.flatnonzero(right)), "wrong": (inside, np.flatnonzero(~right))}
    n = {panel: context.n[panel]}
    if cases.outside is not None:
        n["out of class"] = len(cases.outside.cases)
        groups["out of class"] = context.answers(spec, True), np.arange(n["out of class"])
    simplex = SimplexPosterior(context.panel_data(spec), Settings.named_alike(spec))
    before = simplex.shared(prior).features[:SHOWN, : prior.probabilities.size].astype(float)
    triangles = [{"heading": "prior", "draws": before.round(4), "mean": prior.probabilities}]
    measured = {}
    for name, (answers, rows) in groups.items():
        mean = answers["probabilities"][rows]
        parts = {
            "from_middle": np.linalg.norm(mean - 1 / mean.shape[1], axis=1),
            "spread": spread_of(mean, answers["alpha0"][rows]),
            "top": mean.max(axis=1) if len(mean) else np.zeros(0),
        }
        measured[name] = {"n": len(mean)} | {
            part: {
                "median": float(np.median(values)) if len(values) else None,
                "ci": context.bootstrap("ternary", name, part).of(np.median, values),
            }
            for part, values in parts.items()
        }
        if len(mean):
            row, outside = rows[typical(mean)], name == "out of class"
            label = cases.part(outside).cases[row].label
            draws = simplex.draws(context.observations(panel, outside).at(np.array([row])), prior, SHOWN)
            heading = name if label is None else f"{name} (it is {label})"
            triangles.append({"heading": heading, "draws": draws.round(4), "mean": answers["probabilities"][row]})
    notes = [f"No case was {name}, so there is no such triangle." for name, one in measured.items() if not one["n"]]
    data = {"panel": panel, "labels": context.names(panel), "groups": measured, "triangles": triangles}
    return Measured(data, n, notes)


# --------------------------------------------------------------------------- ambiguity and doubt

PARTS = ("total_bits", "aleatoric_bits", "epistemic_bits", "differential_entropy", "alpha0")
FIXED, ABSOLUTE = "d-smc", "d-smc, absolute tolerance"


def split_by_outcome(inside: Arrays, outside: Arrays | None, label: Int) -> dict[str, dict[str, Float]]:
    """The five quantities of all, correct, wrong and out-of-class cases; empty groups are left out."""

    def parts(answers: Arrays) -> dict[str, Float]:
        alpha = answers["probabilities"] * answers["alpha0"][:, None]
        return {p: answers[p] if p in answers else dirichlet_differential_entropy(alpha) for p in PARTS}

    every, right = parts(inside), inside["probabilities"].argmax(axis=1) == label
    groups = {
        "all": every,
        "correct": {name: values[right] for name, values in every.items()},
        "wrong": {name: values[~right] for name, values in every.items()},
    }
    if outside is not None:
        groups["out of class"] = parts(outside)
    return {name: group for name, group in groups.items() if len(group["total_bits"])}


@per_panel
def uncertainty_decomposition(context: Context, panel: str) -> dict[str, Any]:
    absolute = Spec(panel, "d-smc", tolerance=_tolerance(context, panel))
    specs = {FIXED: Spec(panel, "d-smc"), ABSOLUTE: absolute, "abi": Spec(panel, "abi")}
    return {name: _decomposed(context, name, spec) for name, spec in specs.items()}


def _decomposed(context: Context, name: str, spec: Spec) -> dict[str, Any]:
    outside = None if context.cases(spec.panel).outside is None else context.answers(spec, True)
    groups = split_by_outcome(context.answers(spec), outside, context.labels(spec.panel))

    def separation(a: Float, b: Float) -> float | None:
        return auroc(np.concatenate([a, b]), np.r_[np.zeros(len(a), bool), np.ones(len(b), bool)]).value

    separated = {}
    for against, among in (("wrong", "correct"), ("out of class", "all")):
        for part in PARTS[:3] if against in groups and "correct" in groups else ():
            boot = context.bootstrap("uncertainty-decomposition", spec.panel, name, against, part, most=1000)
            pair = groups[among][part], groups[against][part]
            separated[f"{against}: {part}"] = {"value": separation(*pair), "ci": boot.of(separation, *pair)}
    spreads = {g: {p: spread(v) for p, v in parts.items()} for g, parts in groups.items()}
    return {"auroc": separated, "spread": spreads}


def _tolerance(context: Context, panel: str) -> float:
    """The distance half of the panel's own simulations reach, each left out of its class mean in turn."""
    spec = Spec(panel, "d-smc")
    space, prior = Space.fit(context.panel_data(spec).embedded, centre=False), context.prior(spec)
    return round(bank_tolerance(space.bank, space.label_index, space.n_labels, prior, seed=context.seed), 4)


# --------------------------------------------------------------------------- the network

OBJECTIVES: dict[str, dict[str, Any]] = {
    "own objective": {"objective": "kl"},
    "the paper's objective": {"objective": "mean"},
    "the paper's objective and training": {"objective": "mean", "trained_as": "the paper"},
}
DRAWS = {"smoke": 200, "full": fidelity.DRAWS}


def abi_fidelity(context: Context) -> Measured:
    """Each network against D-SMC, case by case."""
    rows = [_imitated(context, panel, name) for panel in context.panels for name in OBJECTIVES]
    return Measured({f"{row['panel']}, {row['objective']}": row for row in rows}, context.n)


def _imitated(context: Context, panel: str, name: str) -> dict[str, Any]:
    spec = Spec(panel, "abi", **OBJECTIVES[name])
    network, space = load(context.network(spec)), Space.fit(context.panel_data(spec).embedded, centre=False)
    vectors, draws = context.observations(panel).vectors, DRAWS[context.scale]
    c = fidelity.compare(network, space, vectors, context.prior(spec), draws=draws, seed=context.seed)
    boot = context.bootstrap("abi-fidelity", panel, name)

    def correlation(a: Float, b: Float) -> float | None:
        return float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) if a.std() and b.std() else None

    ci = {  # one stream for all four: their order decides the draws
        "agreement": boot.of(np.mean, c.agree.astype(float)),
        "kl_nats": boot.of(np.median, c.kl),
        "alpha0_ratio": boot.of(np.median, c.abi.alpha0 / c.dsmc.alpha0),
        "correlation_of_means": boot.of(
            lambda pairs: correlation(pairs[:, 0], pairs[:, 1]), np.stack([c.abi.mean, c.dsmc.mean], axis=1)
        ),
    }
    return fidelity.summary(c, context.labels(panel)) | {
        "kl_quartiles": np.quantile(c.kl, [0.25, 0.5, 0.75]),
        "alpha0_median": {"abi": float(np.median(c.abi.alpha0)), "d-smc": float(np.median(c.dsmc.alpha0))},
        "ci": ci,
        "panel": panel,
        "objective": name,
        "parameters": int(sum(w.size + b.size for w, b in network.layers)),
        "training": dict(network.card.metrics),
    }


# --------------------------------------------------------------------------- priors

HELD = "d-smc, α₀ = K"  # the variant whose concentration does not grow with the prior
COUNTS = {"smoke": (1, 5, 100), "full": (1, 2, 5, 10, 30, 100, 300, 1000)}  # of the favoured label, one for each other
VARIANTS = ("m-smc", "d-smc", HELD, "auto")


def under_priors(
    fitted: Fitted, observations: Observations, label: Int, n_labels: int, count: float, held: bool
) -> dict[str, dict[str, Any]]:
    """Every label favoured in turn by `count` pseudo-counts against one.

    Per case the mass on the true label and whether the answer is right: under the prior that favours the true
    label (informative), and as means over those that favour a wrong one (misleading).
    """
    rows, total = np.arange(len(label)), count + n_labels - 1
    answers = []
    for favoured in range(n_labels):
        counts = np.ones(n_labels)
        counts[favoured] = count
        prior = Prior(counts / counts.sum(), float(n_labels) if held else float(counts.sum()))
        answers.append(fitted.infer(observations, prior).posterior.probabilities)
    p = np.array(answers)  # (favoured, N, K)
    measured = {"posterior_on_true": p[:, rows, label], "accuracy": (p.argmax(axis=2) == label).astype(float)}
    own = {name: values[label, rows] for name, values in measured.items()}
    wrong = np.arange(n_labels)[:, None] != label
    misled = {name: np.mean(values, axis=0, where=wrong) for name, values in measured.items()}
    informative, misleading = {"prior_on_true": count / total}, {"prior_on_true": 1 / total}
    return {"informative": informative | own, "misleading": misleading | misled}


@per_panel
def prior_sensitivity(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
    return {variant: [_favoured(context, panel, variant, c) for c in COUNTS[context.scale]] for variant in VARIANTS}


def _favoured(context: Context, panel: str, variant: str, count: int) -> dict[str, Any]:
    label, k, seen = context.labels(panel), len(context.names(panel)), context.observations(panel)
    fitted = context.fitted(Spec(panel, "d-smc" if variant == HELD else variant))
    boot, row = context.bootstrap("prior-sensitivity", panel, variant, str(count)), dict[str, Any](count=count)
    for kind, one in under_priors(fitted, seen, label, k, count, variant == HELD).items():
        row[kind] = {"prior_on_true": one["prior_on_true"]}
        for name in ("posterior_on_true", "accuracy"):
            row[kind][name] = {"value": float(one[name].mean()), "ci": boot.of(np.mean, one[name])}
    return row


# --------------------------------------------------------------------------- out of class

COMPARED = ("m-smc", "d-smc", "abi", "auto", "bank-logistic", "centroid", "tfidf", "zero-shot")


def out_of_class(context: Context) -> Measured:
    panels = [p for p in context.panels if context.cases(p).outside is not None]
    if not panels:
        raise NotRun("no panel of this run has out-of-class cases at hand")
    data, notes = {}, list[str]()
    for panel in panels:
        rows = []
        for method in COMPARED:
            bits = [entropy_bits(context.probabilities(Spec(panel, method), outside)) for outside in (False, True)]
            paper = METHODS[method] if method in ("m-smc", "d-smc") else None
            rows.append(_row(context, panel, METHODS[method], paper, *bits))
        rows.append(_row(context, panel, "recipe with “none of these”", None, *_with_background(context, panel)))
        asked, missing = asked_bits(context, panel)
        data[panel], notes = [*rows, *asked], [*notes, *missing]
    n = {p: context.n[p] for p in panels}
    n |= {f"{p}, out of class": len(context.cases(p).part(True).cases) for p in panels}
    return Measured(data, n, notes)


def _with_background(context: Context, panel: str) -> list[Float]:
    """The recipe as it is shipped: what its background hypothesis claims goes back to the prior."""
    spec = Spec(panel, "auto")
    share_of, prior = Outside.fit(calibrated(context.panel_data(spec))), context.prior(spec)
    assert share_of is not None, "the packaged banks have a background"
    bits = []
    for outside in (False, True):
        share = share_of(context.observations(panel, outside), prior)[:, None]
        bits.append(entropy_bits((1 - share) * context.probabilities(spec, outside) + share * prior.probabilities))
    return bits


def asked_bits(context: Context, panel: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Models asked about out-of-class cases, from records; and what could not be read."""
    inside = {one.name: entropy_bits(one.probabilities[one.readable > 0]) for one in context.asked(panel)}
    found, missing = [], []
    for one in context.asked(panel, True):
        if (one.readable > 0).any():
            outside = entropy_bits(one.probabilities[one.readable > 0])
            within = inside.get(one.name, np.zeros(0))
            found.append(_row(context, panel, one.name, theirs_name(one.way), within, outside))
        else:
            missing.append(f"{panel}: no answer of {one.name} on an out-of-class case could be read.")
    return found, missing


def _row(context: Context, panel: str, name: str, paper: str | None, inside: Float, outside: Float) -> dict[str, Any]:
    """Entropies of one method inside and outside the panel; `paper` is the paper's name of it."""
    boot = context.bootstrap("out-of-class", panel, name)

    def separation(a: Float, b: Float) -> float | None:
        return ood_auroc(a, b).value

    found: dict[str, Any] = {"method": name, "paper": paper, "n_outside": len(outside)}
    found |= {"outside": float(outside.mean()), "outside_ci": boot.of(np.mean, outside)}
    if not len(inside):
        return found | dict.fromkeys(("inside", "inside_ci", "auroc", "auroc_ci"))
    found |= {"inside": float(inside.mean()), "inside_ci": boot.of(np.mean, inside)}
    between = boot._replace(resamples=min(boot.resamples, 1000)).of(separation, inside, outside)
    return found | {"auroc": separation(inside, outside), "auroc_ci": between}


# --------------------------------------------------------------------------- population by population

POPULATIONS, DEFAULT = 8, 5  # the paper's trace, and what it settles on
CASES = {"smoke": 6, "full": 400}  # more than any packaged panel has: all of them
EXAMPLE_PANEL = "oral-lesions"


def dynamics_table(trace: Trace, true_label: Int) -> list[dict[str, Any]]:
    """Population by population the figures of the cases still refining: one that stopped early leaves them."""
    rows = []
    for t in range(int(trace.populations.max())):
        here = np.flatnonzero(trace.populations > t)
        figures = {"epsilon": trace.tolerance, "acceptance": trace.acceptance, "simulations": trace.simulations}
        figures |= {"entropy_bits": trace.entropy_bits, "ess": trace.ess}
        row: dict[str, Any] = {"population": t + 1}
        row |= {name: float(values[t, here].mean()) for name, values in figures.items()}
        rows.append(row | {"p_true": trace.mass[t, here, true_label[here]]})
    return rows


def _refined(panel: str, method: str) -> Spec:
    return Spec(panel, method, engine="particles", populations=POPULATIONS, stop_acceptance=None)


def smc_dynamics(context: Context) -> Measured:
    found = {p: {m: _traced(context, p, m) for m in ("d-smc", "m-smc")} for p in context.panels}
    example = _example(context) if EXAMPLE_PANEL in context.panels else None
    n = {panel: two["d-smc"]["n"] for panel, two in found.items()}
    return Measured({"panels": found, "example": example}, n)


def _trace(context: Context, spec: Spec, rows: Int) -> Trace:
    trace = context.fitted(spec).infer(context.observations(spec.panel).at(rows), context.prior(spec)).trace
    assert trace is not None
    return trace


def _traced(context: Context, panel: str, method: str) -> dict[str, Any]:
    rows = np.sort(context.rng("smc-dynamics", panel).permutation(context.n[panel])[: CASES[context.scale]])
    label, prior = context.labels(panel)[rows], context.prior(Spec(panel, method))
    boot, steps = context.bootstrap("smc-dynamics", panel, method), []
    for row in dynamics_table(_trace(context, _refined(panel, method), rows), label):
        masses = row["p_true"]
        cap = concentration_cap(prior.alpha, row["population"]) if method == "d-smc" else None
        steps.append(row | {"p_true": float(masses.mean()), "p_true_ci": boot.of(np.mean, masses), "cap": cap})
    return {"n": len(rows), "steps": steps}


def _example(context: Context) -> dict[str, Any] | None:
    """The correctly answered vignette of median entropy."""
    p, label = context.probabilities(Spec(EXAMPLE_PANEL, "d-smc")), context.labels(EXAMPLE_PANEL)
    right = np.flatnonzero(p.argmax(axis=1) == label)
    if not right.size:
        return None
    case = right[[typical(p[right])]]
    steps = dynamics_table(_trace(context, _refined(EXAMPLE_PANEL, "d-smc"), case), label[case])
    return {
        "id": context.cases(EXAMPLE_PANEL).dataset.cases[case[0]].id,
        "steps": [row | {"p_label": float(row.pop("p_true")[0])} for row in steps],
    }


# --------------------------------------------------------------------------- what a case costs


@per_panel
def runtime(context: Context, panel: str) -> dict[str, Any]:
    names = (M_SMC, M_SOFT, M_PARTICLES, D_SMC, D_PARTICLES, ABI, RECIPE)
    times = {name: context.seconds(spec_of(name, panel)) for name in names}
    trace = _trace(context, spec_of(M_PARTICLES, panel), np.arange(context.n[panel]))
    # With fresh simulations a proposal is a call. Cases that stopped early repeat their last row.
    own = np.arange(trace.simulations.shape[0])[:, None] < trace.populations[None, :]
    drawn = spread((trace.simulations * own).sum(axis=0))
    banks = {}
    for name in (REFERENCE, *context.models(panel)):
        bank = context.bank(panel, name)
        banks[name] = {"simulations": len(bank.texts), "background": len(bank.background)}
        banks[name]["rejected"] = sum(bank.rejected.values())
    asked = {one.name: {"calls_per_case": one.calls_per_case} for one in context.asked(panel)}
    return {"times": times, "fresh_simulations": drawn, "budget": {"banks": banks, "asked": asked}}


# --------------------------------------------------------------------------- what a variant can do

ABI_PRIOR = "ABI (prior-conditioned)"
PROBES = (M_SMC, M_PARTICLES, D_SMC, D_PARTICLES, ABI, ABI_PRIOR, RECIPE)
PROBED = 8  # cases
FAVOUR = 0.9  # prior of the favoured label in the probe


def capabilities(context: Context) -> Measured:
    panel = context.panels[0]
    return Measured({name: _probe(context, panel, name) for name in PROBES}, {panel: PROBED})


def _probe(context: Context, panel: str, name: str) -> dict[str, Any]:
    observed = context.observations(panel).at(np.arange(min(PROBED, context.n[panel])))
    if name == RECIPE:
        fitted = Classifier(context.cases(panel).source.panel, context.bank(panel, REFERENCE)).fitted
    else:
        conditioned = Spec(panel, "abi", prior_conditioned=True)
        fitted = context.fitted(conditioned if name == ABI_PRIOR else spec_of(name, panel))
    k = len(context.names(panel))
    favoured = Prior(np.where(np.arange(k) == 0, FAVOUR, (1 - FAVOUR) / (k - 1)), float(k))
    table = fitted.answer(observed, Prior.uniform(k))
    p, second, traced = table.posterior, table.second_order, table.trace is not None
    try:
        moved: float | None = float((fitted.answer(observed, favoured).posterior - p)[:, 0].mean())
    except BadInput:
        moved = None  # refused: this fitted object answers for one prior alone
    split = second is not None and bool(
        np.allclose(second.total_bits, second.aleatoric_bits + second.epistemic_bits)
        and np.all(second.epistemic_bits >= 0)
        and np.any(second.epistemic_bits > 0)
    )
    return {
        "posterior_over_labels": bool(np.allclose(p.sum(axis=1), 1)),
        "posterior_over_simplex": second is not None,
        "uncertainty_split": split,
        "prior_at_test_time": moved is not None and moved > 0,
        "sampler_per_case": traced,
        "single_forward_pass": not traced,
        "prior_moved_mass": moved,
    }


# --------------------------------------------------------------------------- with fresh generations

LIVE_MODEL = "qwen2.5-coder-1.5b"
# Banks by that model at the temperature and with the facets of its own, among them other draws.
SAME_SETTINGS = ("n1000", "t0.8", "bf16", "s1", "s2")
SAMPLED = {3: 5}  # cases of a label on a panel of so many labels
ELSE_SAMPLED, LEAST_TEXTS = 3, 500  # texts of a label: with fewer the first populations use them up
BUDGET = 20_000


def algorithm_1(context: Context) -> Measured:
    """Algorithm 1 on a stratified sample: a simulation is the next text of its label in a random order, and no text
    is used twice within a case, so that the law is that of a new generation for every proposal. A case that uses up
    the texts of a label ends with the population before."""
    data, notes = {}, _lived(context)
    for panel in context.panels:
        names = [LIVE_MODEL, *(n for n, v in context.variants(panel).items() if v.model == LIVE_MODEL
                               and v.way in SAME_SETTINGS)]  # fmt: skip
        if LIVE_MODEL not in context.models(panel):
            continue
        banks = [context.bank(panel, name) for name in names]
        texts = [
            list(dict.fromkeys(t for b in banks for t, at in zip(b.texts, b.label_index, strict=True) if at == k))
            for k in range(len(context.names(panel)))
        ]
        if (least := min(map(len, texts))) < LEAST_TEXTS:
            notes.append(f"Left out: {panel}, where {LIVE_MODEL} has {least} texts of a label.")
            continue
        data[panel] = _stratified(context, panel, texts) | _generated(context, panel)
    if not data:
        raise NotRun(f"no bank by {LIVE_MODEL} has {LEAST_TEXTS} texts of every label")
    return Measured({"panels": data}, {panel: one["n"] for panel, one in data.items()}, notes)


def _lived(context: Context) -> list[str]:
    """What an earlier run on a GPU, with generations inside the run, cost."""
    place = context.live_folder / "algorithm1" / "cases.jsonl"
    if not place.is_file():
        return []
    about = json.loads(place.with_name("about.json").read_text("utf-8"))
    took = [json.loads(line)["wall_seconds"] for line in place.read_text("utf-8").splitlines()]
    return [f"Generated inside the run, on one {about['device']} beside other work: {len(took)} cases drawn by no rule "
            f"({about['used']['texts']:,} texts; a mean of {np.mean(took):,.0f} s a case, side by side). A run before "
            "it began 50 cases and finished two."]  # fmt: skip


def _generated(context: Context, panel: str) -> dict[str, Any]:
    """Cases of the sample whose every simulation `paper.live` generated; only beside a bank with the same settings."""
    place = context.live_folder / "stratified" / "cases.jsonl"
    bank = context.banks_folder / f"{panel}-{LIVE_MODEL}" / MANIFEST_FILE
    if not place.is_file() or not bank.is_file():
        return {}
    settings = ("temperature", "facets")
    about, manifest = (json.loads(file.read_text("utf-8")) for file in (place.with_name("about.json"), bank))
    if any(manifest.get(name) != about[name] for name in settings):
        return {}
    spec, ids = spec_of(M_SMC, panel, LIVE_MODEL), [case.id for case in context.cases(panel).dataset.cases]
    lines = [json.loads(line) for line in place.read_text("utf-8").splitlines()]
    lines = [line for line in lines if line["panel"] == panel and line["populations"] == DEFAULT]
    if context.embedder_of(spec).id != get_embedder(about["embedder"]).id or not lines:
        return {}
    p, rows = np.array([line["posterior"] for line in lines]), np.array([ids.index(line["case"]) for line in lines])
    q, y = context.probabilities(spec)[rows], context.labels(panel)[rows]
    more = {name: np.array([line[name] for line in lines]) for name in ("simulations", "seconds")}
    return {"generated": _beside_closed_form(p, q, y, more, context.bootstrap("algorithm-1", panel, "generated"))}


def _beside_closed_form(p: Float, q: Float, y: Int, more: dict[str, Float], boot: Any) -> dict[str, Any]:
    """Means over cases with their intervals: Algorithm 1's posteriors `p` beside those of the closed form, `q`."""
    figures = {
        "accuracy": p.argmax(axis=1) == y,
        "closed_form_accuracy": q.argmax(axis=1) == y,
        "total_variation": np.abs(p - q).sum(axis=1) / 2,
        **more,
    }
    found: dict[str, Any] = {"n": len(y)}
    for name, values in figures.items():
        found |= {name: float(values.mean()), f"{name}_ci": boot.of(np.mean, values)}
    return found


def sampled(ids: Sequence[str], y: Int) -> Int:
    """Of each label the first cases by the hash of the seed and their id."""
    k = int(y.max()) + 1
    order = sorted(range(len(ids)), key=lambda i: sha256(f"0 {ids[i]}".encode()).hexdigest())
    of_label = [[i for i in order if y[i] == label] for label in range(k)]
    return np.array([i for some in of_label for i in some[: SAMPLED.get(k, ELSE_SAMPLED)]])


class _UsedUp(Exception):
    pass


def _stratified(context: Context, panel: str, texts: list[list[str]]) -> dict[str, Any]:
    spec, y = spec_of(M_SMC, panel, LIVE_MODEL), context.labels(panel)
    rows = sampled([case.id for case in context.cases(panel).dataset.cases], y)
    embedder = context.embedder_of(spec)
    vectors = [np.asarray(embed_texts(embedder, some), dtype=float) for some in texts]
    seen = np.asarray(context.observations(panel).vectors, dtype=float)[rows]
    found = [_one_case(vectors, z, context.prior(spec), int(row)) for z, row in zip(seen, rows, strict=True)]
    p, reached, simulations = (np.array(part) for part in zip(*found, strict=True))
    closed = {t: context.probabilities(replace(spec, populations=t))[rows] for t in set(reached.tolist())}
    q = np.array([closed[t][i] for i, t in enumerate(reached)])
    boot = context.bootstrap("algorithm-1", panel)
    figures = _beside_closed_form(p, q, y[rows], {"simulations": simulations}, boot)
    return figures | {"populations": dict(Counter(reached.tolist()))}


def _one_case(vectors: list[Float], z: Float, prior: Prior, row: int) -> tuple[Float, int, int]:
    """The posterior, the populations it took and the simulations: five, or as many as the texts last for."""
    for populations in range(DEFAULT, 0, -1):
        rng = np.random.default_rng([0, row])
        left = [iter(some[rng.permutation(len(some))]) for some in vectors]

        def simulate(labels: Int, _: np.random.Generator, left: list[Iterator[Float]] = left) -> Float:
            found = [next(left[label], None) for label in labels]
            if any(one is None for one in found):
                raise _UsedUp
            return np.array(found)

        try:
            posterior, trace = multinomial_live(
                simulate, len(vectors), z / np.linalg.norm(z), prior, [row], seed=0, budget=BUDGET,
                populations=populations,
            )  # fmt: skip
        except _UsedUp:
            continue
        return posterior.probabilities[0], int(trace.populations[0]), int(trace.total_simulations[0])
    raise BadInput("the texts of a label do not last for one population")


# --------------------------------------------------------------------------- like with like

SCHEDULES = (5, 11)  # what the paper names, and what the masses of its Table S10 need
PAPERS_NETWORK = "ABI, trained as the paper trains"
LIKE_WITH_LIKE: dict[str, dict[str, Any]] = {
    **{f"D-SMC, T = {t}": {"method": "d-smc", "populations": t} for t in SCHEDULES},
    PAPERS_NETWORK: {"method": "abi", "objective": "mean", "trained_as": "the paper"},
}


def paper_settings(context: Context) -> Measured:
    """D-SMC at both schedules, and the network with the paper's objective, data, epochs, batch and rate."""
    place = context.live_folder / "smollm2.json"
    rows = json.loads(place.read_text("utf-8"))["rows"] if place.is_file() else []
    live = next((r["per_case"]["seconds"] for r in rows if (r["method"], r["engine"]) == ("d-smc", "live")), None)
    panels = {panel: _settings_on(context, panel) for panel in context.panels}
    return Measured({"panels": panels, "live_d_smc_seconds": live}, context.n)


def _settings_on(context: Context, panel: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    specs = {name: Spec(panel, **fields) for name, fields in LIKE_WITH_LIKE.items()}
    for name, spec in specs.items():
        answers, boot = context.answers(spec), context.bootstrap("paper-settings", panel, name)
        found[name] = {"scores": context.scores(spec), "seconds": context.seconds(spec)["infer_seconds"]}
        for part in SECOND_ORDER:
            found[name] |= {part: np.median(answers[part]), f"{part}_ci": boot.of(np.median, answers[part])}
    network, first = (context.answers(specs[name]) for name in (PAPERS_NETWORK, f"D-SMC, T = {SCHEDULES[0]}"))
    boot, gaps = context.bootstrap("paper-settings", panel, "gaps"), {}
    for part in SECOND_ORDER[:3]:
        pairs = np.stack([network[part], first[part]], axis=1)
        gaps[part] = {"value": _median_gap(pairs), "ci": boot.of(_median_gap, pairs)}
    return found | {"network minus D-SMC": gaps}


def _median_gap(pairs: Float) -> float:
    """Difference of medians over the same cases."""
    return float(np.subtract(*np.median(pairs, axis=0)))


@per_panel
def model_banks(context: Context, panel: str) -> dict[str, Any]:
    """D-SMC at both schedules and both networks over every draw of each model's own bank."""
    found: dict[str, Any] = {}
    for bank in (draw for model in context.models(panel) for draw in context.draws(panel, model)):
        found[bank] = {}
        for name, fields in {**LIKE_WITH_LIKE, "ABI, trained on the bank": {"method": "abi"}}.items():
            spec = Spec(panel, bank=bank, **fields)
            medians = {part: float(np.median(context.answers(spec)[part])) for part in SECOND_ORDER}
            found[bank][name] = {"scores": context.scores(spec)} | medians
    return found


ON_THE_BANK = "ABI, trained on the bank"
TARGET = f"D-SMC, T = {SCHEDULES[0]}"


@per_panel
def whole_embedding(context: Context, panel: str) -> dict[str, Any]:
    """Networks that read the whole embedding beside those that read K coordinates and beside their common target,
    over every draw of each model's own bank. A network trained as the paper trains has seen most of the cases; of
    those outside the panel it has seen none."""
    networks = {PAPERS_NETWORK: LIKE_WITH_LIKE[PAPERS_NETWORK], ON_THE_BANK: {"method": "abi"}}
    arms = {TARGET: LIKE_WITH_LIKE[TARGET]}
    for name, fields in networks.items():
        arms |= {name: fields, f"{name}, whole embedding": {**fields, "inputs": "embedding"}}
    banks = (draw for model in context.models(panel) for draw in context.draws(panel, model))
    return {bank: _arms(context, {name: Spec(panel, bank=bank, **f) for name, f in arms.items()}) for bank in banks}


def _arms(context: Context, specs: dict[str, Spec]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, spec in specs.items():
        boot = context.bootstrap("whole-embedding", spec.key)
        found[name] = {"scores": context.scores(spec)}
        found[name] |= {part: float(np.median(context.answers(spec)[part])) for part in SECOND_ORDER}
        for where, outside in (("agreement", False), ("agreement_outside", True)):
            if outside and context.cases(spec.panel).outside is None:
                continue
            both = (context.probabilities(one, outside).argmax(axis=1) for one in (spec, specs[TARGET]))
            same = np.equal(*both).astype(float)
            found[name] |= {where: float(same.mean()), f"{where}_ci": boot.of(np.mean, same)}
        if spec.inputs == "embedding":
            p, q = (context.probabilities(one) for one in (replace(spec, inputs="coordinates"), spec))
            y, metrics = context.labels(spec.panel), ("accuracy", "ece", "brier")
            found[name]["minus_coordinates"] = context.paired(p, q, y, metrics, "whole-embedding", spec.key)
    return found
