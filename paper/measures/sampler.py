"""The samplers at work: population by population, what a case costs, and what each variant can do."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from paper import engine
from paper.answers import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, M_SOFT, RECIPE, Spec, spec_of
from paper.context import Context
from paper.measures import Measured, each_panel
from paper.world import REFERENCE
from simdx.abc.dirichlet import concentration_cap
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.metrics.means import spread
from simdx.runs import NotRun
from simdx.types import Float, Int, Trace, entropy_bits

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


def smc_dynamics(context: Context) -> Measured:
    found = {p: {m: _traced(context, p, m) for m in ("d-smc", "m-smc")} for p in context.panels}
    example = _example(context) if EXAMPLE_PANEL in context.panels else None
    n = {panel: two["d-smc"]["n"] for panel, two in found.items()}
    return Measured({"panels": found, "example": example}, n)


def _trace(context: Context, panel: str, method: str, rows: Int) -> Trace:
    spec = Spec(panel, method, engine="particles", populations=POPULATIONS, stop_acceptance=None)
    trace = context.fitted(spec).infer(context.observations(panel).at(rows), context.prior(spec)).trace
    assert trace is not None
    return trace


def _traced(context: Context, panel: str, method: str) -> dict[str, Any]:
    rows = np.sort(context.rng("smc-dynamics", panel).permutation(context.n[panel])[: CASES[context.scale]])
    label, prior = context.labels(panel)[rows], context.prior(Spec(panel, method))
    boot, steps = context.bootstrap("smc-dynamics", panel, method), []
    for row in dynamics_table(_trace(context, panel, method, rows), label):
        masses = row["p_true"]
        cap = concentration_cap(prior.alpha, row["population"]) if method == "d-smc" else None
        steps.append(row | {"p_true": float(masses.mean()), "p_true_ci": boot.mean(masses), "cap": cap})
    return {"n": len(rows), "steps": steps}


def _example(context: Context) -> dict[str, Any] | None:
    """The correctly answered vignette of median entropy."""
    p, label = context.probabilities(Spec(EXAMPLE_PANEL, "d-smc")), context.labels(EXAMPLE_PANEL)
    right = np.flatnonzero(p.argmax(axis=1) == label)
    if not right.size:
        return None
    order = right[np.argsort(entropy_bits(p[right]), kind="stable")]
    case = order[(len(order) - 1) // 2 : (len(order) - 1) // 2 + 1]
    steps = dynamics_table(_trace(context, EXAMPLE_PANEL, "d-smc", case), label[case])
    return {
        "id": context.cases(EXAMPLE_PANEL).dataset.cases[case[0]].id,
        "steps": [row | {"p_label": float(row.pop("p_true")[0])} for row in steps],
    }


# --------------------------------------------------------------------------- what a case costs


def runtime(context: Context) -> Measured:
    def measure(panel: str) -> dict[str, Any]:
        names = (M_SMC, M_SOFT, M_PARTICLES, D_SMC, D_PARTICLES, ABI, RECIPE)
        times = {name: context.seconds(spec_of(name, panel)) for name in names}
        spec = spec_of(M_PARTICLES, panel)
        trace = context.fitted(spec).infer(context.observations(panel), context.prior(spec)).trace
        assert trace is not None
        # With fresh simulations a proposal is a call. Cases that stopped early repeat their last row.
        own = np.arange(trace.simulations.shape[0])[:, None] < trace.populations[None, :]
        drawn = spread((trace.simulations * own).sum(axis=0))
        banks = {}
        for name in (REFERENCE, *context.models(panel)):
            bank = context.bank(Spec(panel, "", name))
            banks[name] = {"simulations": len(bank.texts), "background": len(bank.background)}
            banks[name]["rejected"] = sum(bank.rejected.values())
        asked = {one.name: {"calls_per_case": one.calls_per_case} for one in context.asked(panel)}
        return {"times": times, "fresh_simulations": drawn, "budget": {"banks": banks, "asked": asked}}

    return each_panel(context, measure)


# --------------------------------------------------------------------------- what a variant can do

ABI_PRIOR = "ABI (prior-conditioned)"
VARIANTS = (M_SMC, M_PARTICLES, D_SMC, D_PARTICLES, ABI, ABI_PRIOR, RECIPE)
PROBED = 8  # cases
FAVOUR = 0.9  # prior of the favoured label in the probe


def capabilities(context: Context) -> Measured:
    panel = context.panels[0]
    return Measured({name: _probe(context, panel, name) for name in VARIANTS}, {panel: PROBED})


def _probe(context: Context, panel: str, name: str) -> dict[str, Any]:
    observed = context.observations(panel).at(np.arange(min(PROBED, context.n[panel])))
    if name == RECIPE:
        fitted = engine.front_door(context.cases(panel).source.panel, context.bank(spec_of(RECIPE, panel)))
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
        banks = [context.bank(Spec(panel, "", name)) for name in names]
        texts = [
            list(dict.fromkeys(t for b in banks for t, at in zip(b.texts, b.label_index, strict=True) if at == k))
            for k in range(len(context.names(panel)))
        ]
        if (least := min(map(len, texts))) < LEAST_TEXTS:
            notes.append(f"Left out: {panel}, where {LIVE_MODEL} has {least} texts of a label.")
            continue
        data[panel] = _stratified(context, panel, texts)
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
    embedder = context.panel_data(spec).embedder
    vectors = [engine.embedded(embedder, some) for some in texts]
    seen = np.asarray(context.observations(panel).vectors, dtype=float)[rows]
    found = [_one_case(vectors, z, context.prior(spec), int(row)) for z, row in zip(seen, rows, strict=True)]
    p, reached, simulations = (np.array(part) for part in zip(*found, strict=True))
    closed = {t: context.probabilities(replace(spec, populations=t))[rows] for t in set(reached.tolist())}
    q = np.array([closed[t][i] for i, t in enumerate(reached)])
    figures = {
        "accuracy": p.argmax(axis=1) == y[rows],
        "closed_form_accuracy": q.argmax(axis=1) == y[rows],
        "total_variation": np.abs(p - q).sum(axis=1) / 2,
        "simulations": simulations,
    }
    about: dict[str, Any] = {"n": len(rows), "populations": dict(Counter(reached.tolist()))}
    boot = context.bootstrap("algorithm-1", panel)
    for name, values in figures.items():
        about |= {name: float(values.mean()), f"{name}_ci": boot.mean(values)}
    return about


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
            posterior, trace = engine.multinomial_live(
                simulate, len(vectors), z / np.linalg.norm(z), prior, [row], seed=0, budget=BUDGET,
                populations=populations,
            )  # fmt: skip
        except _UsedUp:
            continue
        return posterior.probabilities[0], int(trace.populations[0]), int(trace.total_simulations[0])
    raise BadInput("the texts of a label do not last for one population")


# --------------------------------------------------------------------------- like with like

SCHEDULES = (5, 11)  # what the paper names, and what the masses of its Table S10 need
BITS = ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")
PAPERS_NETWORK = "ABI, trained as the paper trains"


def paper_settings(context: Context) -> Measured:
    """D-SMC at both schedules, and the network with the paper's objective, data, epochs, batch and rate."""

    def measure(panel: str) -> dict[str, Any]:
        specs = {f"D-SMC, T = {t}": Spec(panel, "d-smc", populations=t) for t in SCHEDULES}
        specs[PAPERS_NETWORK] = Spec(panel, "abi", objective="mean", trained_as="the paper")
        found: dict[str, Any] = {}
        for name, spec in specs.items():
            answers, boot = context.answers(spec), context.bootstrap("paper-settings", panel, name)
            found[name] = {"scores": context.scores(spec), "seconds": context.seconds(spec)["infer_seconds"]}
            for part in BITS:
                found[name] |= {part: np.median(answers[part]), f"{part}_ci": boot.of(np.median, answers[part])}
        network, first = (context.answers(specs[name]) for name in (PAPERS_NETWORK, f"D-SMC, T = {SCHEDULES[0]}"))
        boot, gaps = context.bootstrap("paper-settings", panel, "gaps"), {}
        for part in BITS[:3]:
            pairs = np.stack([network[part], first[part]], axis=1)
            gaps[part] = {"value": _median_gap(pairs), "ci": boot.of(_median_gap, pairs)}
        return found | {"network minus D-SMC": gaps}

    found = each_panel(context, measure)
    place = context.live_folder / "smollm2.json"
    rows = json.loads(place.read_text("utf-8"))["rows"] if place.is_file() else []
    live = next((r["per_case"]["seconds"] for r in rows if (r["method"], r["engine"]) == ("d-smc", "live")), None)
    return found._replace(data={"panels": found.data, "live_d_smc_seconds": live})


def model_banks(context: Context) -> Measured:
    """D-SMC at both schedules and both networks over every draw of each model's own bank."""
    specs: dict[str, dict[str, Any]] = {f"D-SMC, T = {t}": {"method": "d-smc", "populations": t} for t in SCHEDULES}
    specs[PAPERS_NETWORK] = {"method": "abi", "objective": "mean", "trained_as": "the paper"}
    specs["ABI, trained on the bank"] = {"method": "abi"}

    def measure(panel: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for bank in (draw for model in context.models(panel) for draw in context.draws(panel, model)):
            for name, fields in specs.items():
                spec = Spec(panel, bank=bank, **fields)
                answers, scores = context.answers(spec), context.scores(spec)
                medians = {part: float(np.median(answers[part])) for part in BITS}
                found.setdefault(bank, {})[name] = {"scores": scores} | medians
        return found

    return each_panel(context, measure)


def _median_gap(pairs: Float) -> float:
    """Difference of medians over the same cases."""
    return float(np.subtract(*np.median(pairs, axis=0)))
