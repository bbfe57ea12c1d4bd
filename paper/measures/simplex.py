"""Posteriors on the simplex: where they lie, how their uncertainty splits, and a network like them."""

from typing import Any

import numpy as np

from paper import engine
from paper.answers import Spec
from paper.context import Context
from paper.measures import Measured, each_panel
from simdx.abc.dirichlet import bank_tolerance, dirichlet_differential_entropy
from simdx.amortised import fidelity
from simdx.amortised.network import load
from simdx.metrics import auroc, spread
from simdx.runs import Arrays, NotRun
from simdx.types import Float, Int, entropy_bits

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
    inside, beyond, prior = context.answers(spec), context.answers_outside(spec), context.prior(spec)
    right = inside["probabilities"].argmax(axis=1) == context.labels(panel)
    # group -> answers, and the rows of the group among them
    groups = {"correct": (inside, np.flatnonzero(right)), "wrong": (inside, np.flatnonzero(~right))}
    n = {panel: context.n[panel]}
    if beyond is not None:
        n["out of class"] = len(beyond["probabilities"])
        groups["out of class"] = beyond, np.arange(n["out of class"])
    before, draws_of = engine.simplex_draws(context.panel_data(spec), spec, prior, SHOWN)
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
            row, outside = rows[typical(mean)], answers is beyond
            label = cases.part(outside).cases[row].label
            draws = draws_of(context.observations(panel, outside).at(np.array([row])))
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


def uncertainty_decomposition(context: Context) -> Measured:
    def measure(panel: str) -> dict[str, Any]:
        specs = {
            FIXED: Spec(panel, "d-smc"),
            ABSOLUTE: Spec(panel, "d-smc", tolerance=_tolerance(context, panel)),
            "abi": Spec(panel, "abi"),
        }
        return {name: _decomposed(context, name, spec) for name, spec in specs.items()}

    return each_panel(context, measure)


def _decomposed(context: Context, name: str, spec: Spec) -> dict[str, Any]:
    groups = split_by_outcome(context.answers(spec), context.answers_outside(spec), context.labels(spec.panel))

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
    space, prior = engine.space_of(context.panel_data(spec)), context.prior(spec)
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
    network, space = load(context.network(spec)), engine.space_of(context.panel_data(spec))
    vectors, draws = context.observations(panel).vectors, DRAWS[context.scale]
    c = fidelity.compare(network, space, vectors, context.prior(spec), draws=draws, seed=context.seed)
    boot = context.bootstrap("abi-fidelity", panel, name)

    def correlation(a: Float, b: Float) -> float | None:
        return float(np.corrcoef(a.ravel(), b.ravel())[0, 1]) if a.std() and b.std() else None

    ci = {  # one stream for all four: their order decides the draws
        "agreement": boot.mean(c.agree.astype(float)),
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
