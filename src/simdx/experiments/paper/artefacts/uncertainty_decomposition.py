"""Uncertainty split into ambiguity and doubt: medians and quartiles, by outcome (table S1).

D-SMC and the amortised network on every panel, all in bits: total = H(E θ), aleatoric = E H(θ), epistemic =
total − aleatoric. The paper gives one row a model on its case reports; here the same rows stand beside those
of the correct, the wrong and the out-of-class cases, because that is what the split is for: it should tell
them apart. An absolute tolerance taken from the bank itself (no case involved) is shown as the remedy for
what a fixed share of prior mass cannot do, with the accuracy it costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdx.abc.dirichlet_tolerance import bank_tolerance
from simdx.abc.second_order import dirichlet_differential_entropy
from simdx.abc.space import Space
from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import interval
from simdx.experiments.paper.spec import Answers, Spec
from simdx.experiments.paper.theirs import data_of_panel, over_models
from simdx.experiments.paper.words import METHODS, doubts, quartiles, several, theirs
from simdx.metrics import auroc, spread
from simdx.metrics.second_order import Spread
from simdx.report.plots import Estimate, interval_plot
from simdx.types import Float, Int

ORDER = 310
NAME = "uncertainty-decomposition"
PARTS = ("total_bits", "aleatoric_bits", "epistemic_bits", "differential_entropy", "alpha0")
HEADINGS = ("total", "aleatoric", "epistemic", "differential entropy of the fit", "α₀")
FIXED, ABSOLUTE = "d-smc", "d-smc, absolute tolerance"


def parts_of(probabilities: Float, second: dict[str, Float]) -> dict[str, Float]:
    """The five quantities of the paper's table, one number a case."""
    alpha = probabilities * second["alpha0"][:, None]
    return {
        "total_bits": second["total_bits"],
        "aleatoric_bits": second["aleatoric_bits"],
        "epistemic_bits": second["epistemic_bits"],
        "differential_entropy": dirichlet_differential_entropy(alpha),
        "alpha0": second["alpha0"],
    }


def split_by_outcome(answers: Answers, label: Int) -> dict[str, dict[str, Float]]:
    """The quantities of all, correct, wrong and out-of-class cases; groups without cases are left out."""
    assert answers.second is not None
    every = parts_of(answers.probabilities, answers.second)
    right = answers.probabilities.argmax(axis=1) == label
    groups = {
        "all": every,
        "correct": {name: values[right] for name, values in every.items()},
        "wrong": {name: values[~right] for name, values in every.items()},
    }
    if answers.outside is not None and answers.second_outside is not None:
        groups["out of class"] = parts_of(answers.outside, answers.second_outside)
    return {name: group for name, group in groups.items() if len(group["total_bits"])}


def run(context: Context) -> Finding:
    panels = {panel: _panel(context, panel) for panel in context.panels}
    quotes = [
        over_models(NAME, part, data=data_of_panel(panel), method=METHODS[method])
        for panel in panels
        for method in ("d-smc", "abi")
        for part in PARTS
    ]
    return Finding(
        tables=(_all_table(panels, doubts(quotes)), _outcome_table(panels), _use_table(panels)),
        figures=tuple(_figure(panel, found) for panel, found in panels.items()),
        verdicts=tuple(line for panel, found in panels.items() for line in _verdicts(panel, found)),
        n=context.n,
        models=("reference bank", *dict.fromkeys(context.embedder_name(Spec(p, "")) for p in panels)),
        data={panel: _plain(found) for panel, found in panels.items()},
        notes=context.notes,
    )


def _panel(context: Context, panel: str) -> dict[str, dict[str, Any]]:
    specs = {
        FIXED: Spec(panel, "d-smc"),
        ABSOLUTE: Spec(panel, "d-smc", tolerance=_tolerance(context, panel)),
        "abi": Spec(panel, "abi"),
    }
    found = {}
    for name, spec in specs.items():
        groups = split_by_outcome(context.answers(spec), context.labels(panel))
        found[name] = {
            "tolerance": spec.tolerance,
            "accuracy": context.scores(spec)["accuracy"],
            "spread": {g: {part: spread(v) for part, v in parts.items()} for g, parts in groups.items()},
            "auroc": {
                f"{against}: {part}": _separation(context, panel, name, groups, against, part)
                for against in ("wrong", "out of class")
                if against in groups and "correct" in groups
                for part in PARTS[:3]
            },
        }
    return found


def _tolerance(context: Context, panel: str) -> float:
    """The distance half of the panel's own simulations reach, each left out of its class mean in turn."""
    spec = Spec(panel, "d-smc")
    space = Space.fit(context.material(spec).embedded, centre=False)
    found = bank_tolerance(
        space.bank, space.label_index, space.n_labels, context.prior(spec), seed=context.seed
    )
    return round(found, 4)


def _separation(
    context: Context, panel: str, method: str, groups: dict[str, dict[str, Float]], against: str, part: str
) -> dict[str, Any]:
    """AUROC of a kind of bits: out-of-class against all cases of the panel, wrong against correct ones."""
    inside = groups["all" if against == "out of class" else "correct"][part]
    other = groups[against][part]

    def value(a: Float, b: Float) -> float | None:
        return auroc(np.concatenate([a, b]), np.r_[np.zeros(len(a), bool), np.ones(len(b), bool)]).value

    rng = context.rng(NAME, panel, method, against, part)
    return {
        "value": value(inside, other),
        "ci": interval(value, inside, other, rng=rng, resamples=min(context.size.resamples, 1000)),
        "n": [len(inside), len(other)],
    }


# --------------------------------------------------------------------------- tables


def _all_table(panels: dict[str, dict[str, Any]], note: str) -> Table:
    rows = []
    for panel, found in panels.items():
        for method, one in found.items():
            cells = [quartiles(one["spread"]["all"][part]) for part in PARTS]
            rows.append((panel, _name(method), "ours", *cells))
            data = data_of_panel(panel)
            quotes = [over_models(NAME, part, data=data, method=METHODS.get(method)) for part in PARTS]
            if any(quotes):
                rows.append((panel, METHODS[method], "paper", *(theirs(q) for q in quotes)))
    return Table(
        "All cases: median [quartiles]; the paper's: mean of its six models' medians [their range]",
        ("panel", "method", "whose", *HEADINGS),
        tuple(rows),
        "Entropies in bits; the fit of D-SMC is by the moments of all components (the paper's by the first), "
        "so the two α₀ are not the same quantity. " + note,
    )


def _outcome_table(panels: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for panel, found in panels.items():
        for method, one in found.items():
            for group, parts in one["spread"].items():
                if group != "all":
                    cells = [quartiles(parts[part]) for part in PARTS[:3]]
                    name = _name(method)
                    rows.append((panel, name, group, str(parts["total_bits"].n), *cells))
    return Table(
        "By outcome: median [quartiles]",
        ("panel", "method", "cases", "N", "total", "aleatoric", "epistemic"),
        tuple(rows),
    )


def _use_table(panels: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for panel, found in panels.items():
        for method, one in found.items():
            for against in ("wrong", "out of class"):
                cells = [
                    number(part["value"], part["ci"], 2) if part else "no cases"
                    for part in (one["auroc"].get(f"{against}: {p}") for p in PARTS[:3])
                ]
                name = _name(method)
                rows.append((panel, name, against, *cells))
    return Table(
        "What each part tells: AUROC of wrong against correct cases, and of out-of-class against the panel's",
        ("panel", "method", "finds", "total", "aleatoric", "epistemic"),
        tuple(rows),
        "One half is chance; below it the signal points the wrong way. 95 % bootstrap. The paper gives no "
        "such figures.",
    )


def _name(method: str) -> str:
    return METHODS.get(method, method.replace("d-smc", "D-SMC"))


def _figure(panel: str, found: dict[str, Any]) -> Figure:
    rows = []
    for i, (method, one) in enumerate(found.items()):
        for group, parts in one["spread"].items():
            if group != "all":
                name = _name(method)
                s: Spread = parts["epistemic_bits"]
                rows.append(Estimate(f"{name}: {group}", s.median, s.q1, s.q3, style=i))
    return Figure(
        f"epistemic-{panel}",
        interval_plot(f"Epistemic bits by outcome, {panel}", "epistemic bits (median and quartiles)", rows),
        f"{panel}: epistemic bits of correct, wrong and out-of-class cases, median and quartiles. A useful "
        "signal would lie further right for wrong and out-of-class cases.",
    )


# --------------------------------------------------------------------------- sentences


def _verdicts(panel: str, found: dict[str, Any]) -> list[str]:
    def median(method: str, part: str) -> float:
        return float(found[method]["spread"]["all"][part].median)

    said = []
    sharper = [
        word
        for word, part in (("total", "total_bits"), ("aleatoric", "aleatoric_bits"))
        if median(FIXED, part) < median("abi", part)
    ]
    times = median(FIXED, "epistemic_bits") / median("abi", "epistemic_bits")
    share = median("abi", "alpha0") / median(FIXED, "alpha0")
    said.append(
        f"{panel}: the paper finds D-SMC lower in total and aleatoric bits and with two to three times the "
        f"epistemic bits of its network. Here D-SMC is lower in "
        f"{several(sharper) if sharper else 'neither'} and has {times:.2f} times the epistemic bits; the "
        f"network's α₀ is {share:.2f} times D-SMC's."
        + (
            " A network trained on D-SMC's own spread is thus not over-concentrated; the paper's objective "
            "is what does that (see the network's fidelity)."
            if 0.5 < share < 2
            else ""
        )
    )
    for against, claim in (
        ("out of class", "epistemic uncertainty is meant to rise on atypical text"),
        ("wrong", "epistemic uncertainty is meant to mark unreliable answers"),
    ):
        first = found[FIXED]["auroc"].get(f"{against}: epistemic_bits")
        other = found[ABSOLUTE]["auroc"].get(f"{against}: epistemic_bits")
        if first is None or first["value"] is None:
            continue
        words = f"{panel}: {claim}; D-SMC's finds {against} cases with AUROC "
        words += number(first["value"], first["ci"], 2)
        words += ", no better than chance" if first["ci"] and first["ci"][0] <= 0.5 else ""
        if other is not None and other["value"] is not None:
            words += f", and with an absolute tolerance {number(other['value'], other['ci'], 2)}"
            words += (
                f" (accuracy {found[ABSOLUTE]['accuracy']:.2f} instead of {found[FIXED]['accuracy']:.2f})"
            )
        said.append(words + ".")
    return said


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    return {
        method: {
            "tolerance": one["tolerance"],
            "accuracy": one["accuracy"],
            "auroc": one["auroc"],
            "spread": {
                group: {part: s.as_dict() for part, s in parts.items()}
                for group, parts in one["spread"].items()
            },
        }
        for method, one in found.items()
    }
