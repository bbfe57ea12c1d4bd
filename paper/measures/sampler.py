"""The samplers at work: population by population, what a case costs, and what each variant can do."""

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from paper import engine
from paper.answers import ABI, D_PARTICLES, D_SMC, M_PARTICLES, M_SMC, M_SOFT, RECIPE, Spec, spec_of
from paper.context import Context
from paper.intervals import interval, mean_interval
from paper.measures import Measured, each_panel, packaged_used
from paper.world import REFERENCE
from simdx.abc.prior import Prior
from simdx.abc.second_order import concentration_cap
from simdx.errors import BadInput
from simdx.metrics.means import spread
from simdx.runs import NotRun
from simdx.types import Int, Trace, entropy_bits

# --------------------------------------------------------------------------- population by population

POPULATIONS, DEFAULT = 8, 5  # the paper's trace, and what it settles on
STOP = 0.2  # the paper's rule
CASES = {"smoke": 6, "full": 400}  # more than any packaged panel has: all of them
EXAMPLE_PANEL = "oral-lesions"


def stopped_by(trace: Trace, threshold: float = STOP) -> Int:
    """The population (from one) at which a case's acceptance first lies below the threshold; 0: never."""
    below = trace.acceptance < threshold
    return np.where(below.any(axis=0), below.argmax(axis=0) + 1, 0)


def dynamics_table(trace: Trace, true_label: Int) -> list[dict[str, Any]]:
    """Population by population means over the cases still refining: one that stopped early leaves them."""
    rows = []
    for t in range(int(trace.populations.max())):
        here = np.flatnonzero(trace.populations > t)
        rows.append(
            {
                "population": t + 1,
                "cases": int(here.size),
                "epsilon": float(trace.tolerance[t, here].mean()),
                "acceptance": float(trace.acceptance[t, here].mean()),
                "simulations": float(trace.simulations[t, here].mean()),
                "entropy_bits": float(trace.entropy_bits[t, here].mean()),
                "p_true": float(np.mean(trace.mass[t, here, true_label[here]])),
            }
        )
    return rows


def worked_example(trace: Trace, case: int, label: int) -> list[dict[str, Any]]:
    """One case's own populations: population, p_label, entropy_bits, epsilon, acceptance, ess."""
    return [
        {
            "population": t + 1,
            "p_label": float(trace.mass[t, case, label]),
            "entropy_bits": float(trace.entropy_bits[t, case]),
            "epsilon": float(trace.tolerance[t, case]),
            "acceptance": float(trace.acceptance[t, case]),
            "ess": float(trace.ess[t, case]),
        }
        for t in range(int(trace.populations[case]))
    ]


def dynamics(context: Context) -> Measured:
    found = {p: {m: _traced(context, p, m) for m in ("d-smc", "m-smc")} for p in context.panels}
    example = _example(context) if EXAMPLE_PANEL in context.panels else None
    n = {panel: two["d-smc"]["n"] for panel, two in found.items()}
    return Measured({"panels": found, "example": example}, n, packaged_used(context))


def _trace_spec(panel: str, method: str) -> Spec:
    return Spec(panel, method, engine="particles", populations=POPULATIONS, stop_acceptance=None)


def _traced(context: Context, panel: str, method: str) -> dict[str, Any]:
    rows = np.sort(context.rng("smc-dynamics", panel).permutation(context.n[panel])[: CASES[context.scale]])
    label, seen = context.labels(panel)[rows], context.observations(panel).at(rows)
    spec = _trace_spec(panel, method)
    prior = context.prior(spec)
    posterior, trace, *_ = context.fitted(spec).infer(seen, prior)
    assert trace is not None
    limit = context.fitted(Spec(panel, method, populations=POPULATIONS)).infer(seen, prior).posterior
    rng, resamples = context.rng("smc-dynamics", panel, method), context.size.resamples
    steps = []
    for row in dynamics_table(trace, label):
        t = row["population"] - 1
        here = np.flatnonzero(trace.populations > t)
        around = mean_interval(trace.mass[t, here, label[here]], rng, resamples)
        cap = concentration_cap(prior.alpha, t + 1) if method == "d-smc" else None
        steps.append({**row, "ess": float(trace.ess[t, here].mean()), "p_true_ci": around, "cap": cap})
    stops = stopped_by(trace)
    apart = np.abs(posterior.probabilities - limit.probabilities).sum(axis=1) / 2
    return {
        "n": len(rows),
        "labels": len(context.names(panel)),
        "particles": 100,
        "steps": steps,
        "simulations_in_all": float(trace.total_simulations.mean()),
        "stopped_by_default": float(np.mean((stops > 0) & (stops <= DEFAULT))),
        "distance_to_closed_form": float(np.mean(apart)),
        "outcomes": {name: trace.outcome.count(name) for name in dict.fromkeys(trace.outcome)},
    }


def _example(context: Context) -> dict[str, Any] | None:
    """The correctly answered vignette of median entropy."""
    p, label = context.probabilities(Spec(EXAMPLE_PANEL, "d-smc")), context.labels(EXAMPLE_PANEL)
    right = np.flatnonzero(p.argmax(axis=1) == label)
    if not right.size:
        return None
    order = right[np.argsort(entropy_bits(p[right]), kind="stable")]
    case = int(order[(len(order) - 1) // 2])
    spec = _trace_spec(EXAMPLE_PANEL, "d-smc")
    seen = context.observations(EXAMPLE_PANEL).at(np.array([case]))
    trace = context.fitted(spec).infer(seen, context.prior(spec)).trace
    assert trace is not None
    return {
        "id": context.cases(EXAMPLE_PANEL).dataset.cases[case].id,
        "label": context.names(EXAMPLE_PANEL)[int(label[case])],
        "steps": worked_example(trace, 0, int(label[case])),
    }


# --------------------------------------------------------------------------- what a case costs


def runtime(context: Context) -> Measured:
    def measure(context: Context, panel: str) -> dict[str, Any]:
        names = (M_SMC, M_SOFT, M_PARTICLES, D_SMC, D_PARTICLES, ABI, RECIPE)
        times = {name: context.seconds(spec_of(name, panel)) for name in names}
        spec = spec_of(M_PARTICLES, panel)
        trace = context.fitted(spec).infer(context.observations(panel), context.prior(spec)).trace
        assert trace is not None
        # With fresh simulations a proposal is a call. Cases that stopped early repeat their last row.
        own = np.arange(trace.simulations.shape[0])[:, None] < trace.populations[None, :]
        drawn = spread((trace.simulations * own).sum(axis=0)).as_dict()
        banks = {}
        for name in (REFERENCE, *context.models(panel)):
            bank = context.bank(Spec(panel, "", name))
            rejected = sum(bank.rejected.values())
            banks[name] = {
                "simulations": len(bank.texts), "background": len(bank.background), "rejected": rejected,
            }  # fmt: skip
        asked = {
            one.name: {"calls_per_case": one.calls_per_case, "seconds_per_case": one.seconds_per_case}
            for one in context.asked(panel)
        }
        budget = {"banks": banks, "asked": asked}
        return {"times": times, "fresh_simulations": drawn, "budget": budget}

    return each_panel(context, measure)


# --------------------------------------------------------------------------- what a variant can do

ABI_PRIOR = "ABI (prior-conditioned)"
VARIANTS = (M_SMC, M_PARTICLES, D_SMC, D_PARTICLES, ABI, ABI_PRIOR, RECIPE)
PROBED = 8  # cases
FAVOUR = 0.9  # prior of the favoured label in the probe


def capabilities(context: Context) -> Measured:
    panel = context.panels[0]
    data = {name: _probe(context, panel, name) for name in VARIANTS}
    return Measured(data, {panel: PROBED}, [f"bank reference of {panel}"])


def _probe(context: Context, panel: str, name: str) -> dict[str, Any]:
    observed = context.observations(panel).at(np.arange(min(PROBED, context.n[panel])))
    if name == RECIPE:
        fitted = engine.front_door(context.cases(panel).source.panel, context.bank(spec_of(RECIPE, panel)))
    else:
        conditioned = Spec(panel, "abi", prior_conditioned=True)
        fitted = context.fitted(conditioned if name == ABI_PRIOR else spec_of(name, panel))
    k = len(context.names(panel))
    uniform = Prior.uniform(k)
    favoured = Prior(np.where(np.arange(k) == 0, FAVOUR, (1 - FAVOUR) / (k - 1)), float(k))
    table = fitted.answer(observed, uniform)
    p, second, traced = table.posterior, table.second_order, table.trace is not None
    began = time.perf_counter()
    fitted.answer(observed, uniform).second_order  # noqa: B018  # made on demand, and part of the answer
    seconds = (time.perf_counter() - began) / len(p)
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
        "seconds_per_case": seconds,
    }


# --------------------------------------------------------------------------- with fresh generations

LIVE_MODEL = "qwen2.5-coder-1.5b"


def algorithm_1(context: Context) -> Measured:
    place = context.live_folder / "algorithm1" / "cases.jsonl"
    lines = [json.loads(line) for line in place.read_text("utf-8").splitlines()] if place.is_file() else []
    about = json.loads(place.with_name("about.json").read_text("utf-8")) if lines else {}
    data = {}
    for panel in context.panels:
        position = {case.id: i for i, case in enumerate(context.cases(panel).dataset.cases)}
        own = [line for line in lines if line["panel"] == panel and line["case"] in position]
        if own and LIVE_MODEL in context.models(panel):
            data[panel] = _fresh(context, panel, own, np.array([position[line["case"]] for line in own]))
    if not data:
        raise NotRun(f"no fresh generations are on record in {place.as_posix()}: they take minutes of a GPU")
    finished, begun = about["done"], about["done"] + about["unfinished"]
    note = (
        f"{begun} cases were begun side by side and {finished} ended within {about['seconds']:,.0f} s on one "
        f"{about['device']} ({about['used']['texts']:,} texts, {about['used']['completion_tokens']:,} tokens in all)."
    )
    cut = [line for line in lines if line["outcome"] != "complete"]
    for line in cut:
        note += f" {line['case']} was cut short; its answer is that of population {line['populations']}."
    if finished + len(cut) < begun:
        note += " The finished ones are the quickest: they accept sooner than the others, and say little about them."
    n = {panel: one["n"] for panel, one in data.items()}
    return Measured({"panels": data, "finished": finished, "begun": begun}, n, [LIVE_MODEL], [note])


def _fresh(context: Context, panel: str, lines: list[dict[str, Any]], rows: Int) -> dict[str, Any]:
    p = np.array([line["posterior"] for line in lines])
    q = context.probabilities(spec_of(M_SMC, panel, LIVE_MODEL))[rows]
    y, rng, resamples = context.labels(panel)[rows], context.rng("algorithm-1", panel), context.size.resamples
    found: dict[str, Any] = {"n": len(lines), "outcomes": dict(Counter(line["outcome"] for line in lines))}
    figures = {
        "accuracy": p.argmax(axis=1) == y,
        "closed_form_accuracy": q.argmax(axis=1) == y,
        "total_variation": np.abs(p - q).sum(axis=1) / 2,
    }
    for name, values in figures.items():
        found |= {name: float(values.mean()), f"{name}_ci": mean_interval(values.astype(float), rng, resamples)}
    used = [line["usage"] for line in lines]
    found |= {
        "simulations": float(np.mean([sum(line["simulations"]) for line in lines])),
        "calls": float(np.mean([u["llm_calls"] for u in used])),
        "tokens": float(np.mean([u["prompt_tokens"] + u["completion_tokens"] for u in used])),
        "seconds": float(np.mean([line["wall_seconds"] for line in lines])),
    }
    names = ("tolerance", "acceptance", "simulations", "entropy_bits")
    here = [[line for line in lines if line["populations"] > t] for t in range(max(x["populations"] for x in lines))]
    found["steps"] = [
        {"population": t + 1} | {n: float(np.mean([line[n][t] for line in some])) for n in names}
        for t, some in enumerate(here)
    ]
    return found


# --------------------------------------------------------------------------- like with like

SCHEDULES = (5, 11)  # what the paper names, and what the masses of its Table S10 need
BITS = ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0")


def paper_settings(context: Context) -> Measured:
    """D-SMC at both schedules, and the network with the paper's objective, data, epochs, batch and rate."""

    def measure(context: Context, panel: str) -> dict[str, Any]:
        specs = {f"D-SMC, T = {t}": Spec(panel, "d-smc", populations=t) for t in SCHEDULES}
        specs["ABI, trained as the paper trains"] = Spec(panel, "abi", objective="mean", trained_as="the paper")
        found: dict[str, Any] = {}
        for name, spec in specs.items():
            answers, rng = context.answers(spec), context.rng("paper-settings", panel, name)
            found[name] = {"scores": context.scores(spec), "seconds": context.seconds(spec)["infer_seconds"]}
            for part in BITS:
                around = interval(np.median, answers[part], rng=rng, resamples=context.size.resamples)
                found[name] |= {part: float(np.median(answers[part])), f"{part}_ci": around}
        first, network = (context.answers(specs[name]) for name in (f"D-SMC, T = {SCHEDULES[0]}", name))
        rng = context.rng("paper-settings", panel, "gaps")
        found["network minus D-SMC"] = {
            part: _median_gap(network[part], first[part], rng, context.size.resamples) for part in BITS[:3]
        }
        return found

    data = each_panel(context, measure, packaged_used)
    place = context.live_folder / "smollm2.json"
    rows = json.loads(place.read_text("utf-8"))["rows"] if place.is_file() else []
    live = next((r["per_case"]["seconds"] for r in rows if (r["method"], r["engine"]) == ("d-smc", "live")), None)
    return replace(data, data={"panels": data.data, "live_d_smc_seconds": live})


def _median_gap(a: Any, b: Any, rng: np.random.Generator, resamples: int) -> dict[str, Any]:
    """Difference of medians over the same cases."""
    pairs = np.stack([a, b], axis=1)
    around = interval(lambda x: float(np.subtract(*np.median(x, axis=0))), pairs, rng=rng, resamples=resamples)
    return {"value": float(np.median(a) - np.median(b)), "ci": around}
