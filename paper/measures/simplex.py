"""Posteriors on the simplex: where they lie, how their uncertainty splits, and a network like them."""

from typing import Any

import numpy as np

from paper import engine
from paper.answers import Spec
from paper.context import Context
from paper.intervals import interval, mean_interval
from paper.measures import Measured, each_panel, packaged_used
from simdx.abc.dirichlet import bank_tolerance
from simdx.abc.second_order import dirichlet_differential_entropy
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
    # group -> rows among the labelled or the out-of-class cases, means and spreads of those
    groups = {"correct": (np.flatnonzero(right), False), "wrong": (np.flatnonzero(~right), False)}
    if beyond is not None:
        groups["out of class"] = np.arange(len(beyond["probabilities"])), True
    before, draws_of = engine.simplex_draws(context.panel_data(spec), spec, prior, SHOWN)
    triangles = [{"heading": "prior", "draws": before.round(4), "mean": prior.probabilities}]
    examples, measured, middles = {}, {}, {}
    for name, (rows, apart) in groups.items():
        answers = beyond if apart and beyond is not None else inside
        mean = answers["probabilities"][rows]
        middles[name] = np.linalg.norm(mean - 1 / mean.shape[1], axis=1)
        parts = {"from_middle": middles[name], "spread": spread_of(mean, answers["alpha0"][rows])}
        parts["top"] = mean.max(axis=1) if len(mean) else np.zeros(0)
        measured[name] = {"n": len(mean)} | {
            part: {
                "median": float(np.median(values)) if len(values) else None,
                "ci": _boot(context, np.median, values, what=("ternary", name, part)),
            }
            for part, values in parts.items()
        }
        if not len(mean):
            continue
        chosen = typical(mean)
        seen = context.outside_observations(panel) if apart else context.observations(panel)
        case = (cases.outside if apart else cases.dataset).cases[rows[chosen]]  # type: ignore[union-attr]
        draws = draws_of(seen.at(rows[chosen : chosen + 1]))
        heading = name if case.label is None else f"{name} (it is {case.label})"
        triangles.append({"heading": heading, "draws": draws.round(4), "mean": mean[chosen]})
        bits = float(entropy_bits(mean[chosen]))
        examples[name] = {"id": case.id, "label": case.label, "mean": mean[chosen], "entropy_bits": bits}
    gaps = {}
    for name in ("out of class", "wrong"):
        a, b = middles["correct"], middles.get(name, np.zeros(0))
        if len(a) and len(b):
            what = ("ternary", "gap", name)
            gaps[name] = {"value": _gap(a, b), "ci": _boot(context, _gap, a, b, what=what)}
    data = {"panel": panel, "examples": examples, "groups": measured, "gaps": gaps, "triangles": triangles}
    n = {panel: context.n[panel]}
    n |= {} if beyond is None else {"out of class": len(beyond["probabilities"])}
    empty = [name for name, one in measured.items() if not one["n"]]
    notes = [f"No case was {name}, so there is no such triangle." for name in empty]
    return Measured(data | {"labels": context.names(panel)}, n, packaged_used(context, [panel]), notes)


def _gap(a: Float, b: Float) -> float:
    return float(np.median(a) - np.median(b))


def _boot(context: Context, statistic: Any, *groups: Float, what: tuple[str, ...]) -> list[float] | None:
    return interval(statistic, *groups, rng=context.rng(*what), resamples=context.size.resamples)


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
    def measure(context: Context, panel: str) -> dict[str, Any]:
        specs = {
            FIXED: Spec(panel, "d-smc"),
            ABSOLUTE: Spec(panel, "d-smc", tolerance=_tolerance(context, panel)),
            "abi": Spec(panel, "abi"),
        }
        return {name: _decomposed(context, panel, name, spec) for name, spec in specs.items()}

    return each_panel(context, measure, packaged_used)


def _decomposed(context: Context, panel: str, name: str, spec: Spec) -> dict[str, Any]:
    groups = split_by_outcome(context.answers(spec), context.answers_outside(spec), context.labels(panel))
    return {
        "tolerance": spec.tolerance,
        "accuracy": context.scores(spec)["accuracy"],
        "auroc": {
            f"{against}: {part}": _separation(context, panel, name, groups, against, part)
            for against in ("wrong", "out of class")
            if against in groups and "correct" in groups
            for part in PARTS[:3]
        },
        "spread": {g: {p: spread(v).as_dict() for p, v in parts.items()} for g, parts in groups.items()},
    }


def _tolerance(context: Context, panel: str) -> float:
    """The distance half of the panel's own simulations reach, each left out of its class mean in turn."""
    spec = Spec(panel, "d-smc")
    space, prior = engine.space_of(context.panel_data(spec)), context.prior(spec)
    return round(bank_tolerance(space.bank, space.label_index, space.n_labels, prior, seed=context.seed), 4)


def _separation(
    context: Context, panel: str, method: str, groups: dict[str, dict[str, Float]], against: str, part: str
) -> dict[str, Any]:
    """AUROC of a kind of bits: out-of-class against all cases of the panel, wrong against correct ones."""
    inside = groups["all" if against == "out of class" else "correct"][part]
    other = groups[against][part]

    def value(a: Float, b: Float) -> float | None:
        return auroc(np.concatenate([a, b]), np.r_[np.zeros(len(a), bool), np.ones(len(b), bool)]).value

    rng = context.rng("uncertainty-decomposition", panel, method, against, part)
    around = interval(value, inside, other, rng=rng, resamples=min(context.size.resamples, 1000))
    return {"value": value(inside, other), "ci": around, "n": [len(inside), len(other)]}


# --------------------------------------------------------------------------- the network

OBJECTIVES: dict[str, dict[str, Any]] = {
    "own objective": {"objective": "kl"},
    "the paper's objective": {"objective": "mean"},
    "the paper's objective and training": {"objective": "mean", "trained_as": "the paper"},
}
DRAWS = {"smoke": 200, "full": fidelity.DRAWS}


def abi_fidelity(context: Context) -> Measured:
    rows = [_imitated(context, panel, name) for panel in context.panels for name in OBJECTIVES]
    models = ["reference bank", *dict.fromkeys(row["embedder"] for row in rows)]
    return Measured({f"{row['panel']}, {row['objective']}": row for row in rows}, context.n, models)


def compared(comparison: fidelity.Fidelity, m_smc: Float, label: Any) -> dict[str, Any]:
    """The figures of the paper's table, with agreement with M-SMC beside them; no intervals."""
    abi, dsmc = comparison.abi, comparison.dsmc
    return fidelity.summary(comparison, label) | {
        "kl_quartiles": np.quantile(comparison.kl, [0.25, 0.5, 0.75]).tolist(),
        "alpha0_median": {"abi": float(np.median(abi.alpha0)), "d-smc": float(np.median(dsmc.alpha0))},
        "agreement_with_m_smc": float((abi.mean.argmax(axis=1) == m_smc.argmax(axis=1)).mean()),
        "correlation_with_m_smc": _correlation(abi.mean, m_smc),
    }


def _imitated(context: Context, panel: str, name: str) -> dict[str, Any]:
    spec = Spec(panel, "abi", **OBJECTIVES[name])
    network, space = load(context.network(spec)), engine.space_of(context.panel_data(spec))
    vectors, draws = context.observations(panel).vectors, DRAWS[context.scale]
    c = fidelity.compare(network, space, vectors, context.prior(spec), draws=draws, seed=context.seed)
    rng, resamples = context.rng("abi-fidelity", panel, name), context.size.resamples

    def around(statistic: Any, values: Float) -> list[float] | None:
        return interval(statistic, values, rng=rng, resamples=resamples)

    ci = {  # one stream for all four: their order decides the draws
        "agreement": mean_interval(c.agree.astype(float), rng, resamples),
        "kl_nats": around(np.median, c.kl),
        "alpha0_ratio": around(np.median, c.abi.alpha0 / c.dsmc.alpha0),
        "correlation_of_means": around(
            lambda pairs: _correlation(pairs[:, 0], pairs[:, 1]), np.stack([c.abi.mean, c.dsmc.mean], axis=1)
        ),
    }
    return compared(c, context.probabilities(Spec(panel, "m-smc")), context.labels(panel)) | {
        "ci": ci,
        "panel": panel,
        "objective": name,
        "embedder": network.card.embedder,
        "parameters": int(sum(w.size + b.size for w, b in network.layers)),
        "training": dict(network.card.metrics),
    }


def _correlation(a: Float, b: Float) -> float | None:
    x, y = np.asarray(a).ravel(), np.asarray(b).ravel()
    if len(x) < 3 or np.std(x) == 0 or np.std(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])
