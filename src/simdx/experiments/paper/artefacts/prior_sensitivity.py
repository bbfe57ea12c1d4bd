"""Prior sensitivity: uniform, right and misleading priors, over a sweep of strengths (table S7).

The paper gives one pseudo-count of five to one label of its three. Here a prior of every strength is put on
each label of a panel in turn: it is *informative* for the cases of that label and *misleading* for the
others, so a case's figure under a misleading prior is the mean over every wrong label, and none is picked.
D-SMC takes the prior as the paper does, as pseudo-counts (a stronger prior is also a more concentrated one),
and once more with the concentration held at the number of labels, which separates the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.experiments.paper.artefact import Figure, Finding, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import mean_interval
from simdx.experiments.paper.spec import Spec
from simdx.experiments.paper.theirs import data_of_panel, quote, quotes
from simdx.experiments.paper.words import METHODS, doubts, theirs
from simdx.methods import Infer, Observations
from simdx.report.plots import Series, line_plot
from simdx.types import Float, Int

ORDER = 340
NAME = "prior-sensitivity"
COUNTS = (1, 2, 5, 10, 30, 100, 300, 1000)  # pseudo-counts of the favoured label, one for each other
SMOKE_COUNTS = (1, 5, 100)
PAPER_COUNT = 5
HELD = "d-smc, α₀ = K"  # the variant whose concentration does not grow with the prior
VARIANTS = ("m-smc", "d-smc", HELD, "auto")


@dataclass(frozen=True, slots=True, eq=False)
class Under:
    """Per case: mass on the true label and whether the answer is right, under each kind of prior."""

    count: float
    prior_informative: float
    prior_misleading: float
    informative: Float  # (N,) posterior of the true label
    misleading: Float  # (N,) the same, mean over the wrong labels
    right_informative: Float  # (N,)
    right_misleading: Float  # (N,) share of the wrong labels' priors under which the answer is right


def under_priors(
    infer: Infer, observations: Observations, label: Int, n_labels: int, count: float, held: bool
) -> Under:
    """Every label favoured in turn by `count` pseudo-counts against one."""
    n, rows = len(label), np.arange(len(label))
    own, wrong = np.zeros(n), np.zeros(n)
    own_right, wrong_right = np.zeros(n), np.zeros(n)
    for favoured in range(n_labels):
        counts = np.ones(n_labels)
        counts[favoured] = count
        prior = Prior(counts / counts.sum(), float(n_labels) if held else float(counts.sum()))
        p = infer(observations, prior)[0].probabilities
        mass, right = p[rows, label], (p.argmax(axis=1) == label).astype(float)
        mine = label == favoured
        own[mine], own_right[mine] = mass[mine], right[mine]
        wrong[~mine] += mass[~mine] / (n_labels - 1)
        wrong_right[~mine] += right[~mine] / (n_labels - 1)
    total = count + n_labels - 1
    return Under(count, count / total, 1 / total, own, wrong, own_right, wrong_right)


def breaking_point(counts: list[float], accuracies: list[float]) -> float | None:
    """The first strength at which accuracy is below half of what it is under the uniform prior."""
    return next((c for c, a in zip(counts, accuracies, strict=True) if a < accuracies[0] / 2), None)


def run(context: Context) -> Finding:
    found = {panel: _panel(context, panel) for panel in context.panels}
    notes = doubts(quotes(NAME))
    return Finding(
        tables=(_paper_table(found, notes), _sweep_table(found)),
        figures=tuple(_figure(panel, one) for panel, one in found.items()),
        verdicts=tuple(line for panel, one in found.items() for line in _verdicts(panel, one)),
        n=context.n,
        models=("reference bank", *dict.fromkeys(context.embedder_name(Spec(p, "")) for p in found)),
        data=found,
        notes=context.notes,
    )


def _panel(context: Context, panel: str) -> dict[str, list[dict[str, Any]]]:
    label, n_labels = context.labels(panel), len(context.names(panel))
    observations = context.observations(panel)
    found = {}
    for variant in VARIANTS:
        infer = context.fitted(Spec(panel, "d-smc" if variant == HELD else variant))
        rows = []
        for count in SMOKE_COUNTS if context.smoke else COUNTS:
            under = under_priors(infer, observations, label, n_labels, count, variant == HELD)
            rows.append(_figures(context, panel, variant, under))
        found[variant] = rows
    return found


def _figures(context: Context, panel: str, variant: str, under: Under) -> dict[str, Any]:
    rng = context.rng(NAME, panel, variant, str(under.count))

    def with_interval(values: Float) -> dict[str, Any]:
        return {
            "value": float(values.mean()),
            "ci": mean_interval(values, rng, context.size.resamples),
        }

    return {
        "count": under.count,
        "informative": {
            "prior_on_true": under.prior_informative,
            "posterior_on_true": with_interval(under.informative),
            "accuracy": with_interval(under.right_informative),
        },
        "misleading": {
            "prior_on_true": under.prior_misleading,
            "posterior_on_true": with_interval(under.misleading),
            "accuracy": with_interval(under.right_misleading),
        },
    }


def _name(variant: str) -> str:
    return METHODS.get(variant, variant.replace("d-smc", "D-SMC"))


def _cell(found: dict[str, Any], digits: int = 2) -> str:
    return number(found["value"], found["ci"], digits)


def _paper_table(found: dict[str, dict[str, list[dict[str, Any]]]], note: str) -> Table:
    rows = []
    for panel, variants in found.items():
        data = data_of_panel(panel)
        for variant, sweep in variants.items():
            even = next(row for row in sweep if row["count"] == 1)
            five = next(row for row in sweep if row["count"] == PAPER_COUNT)
            for setting, one in (
                ("uniform", even["informative"]),
                ("informative", five["informative"]),
                ("misleading", five["misleading"]),
            ):
                about = {"data": data, "method": METHODS.get(variant), "setting": setting}
                quoted = [quote(NAME, q, **about) for q in ("prior_on_true", "posterior_on_true", "accuracy")]
                rows.append(
                    (
                        panel, _name(variant), setting, number(one["prior_on_true"], digits=2),
                        theirs(quoted[0], 2), _cell(one["posterior_on_true"]), theirs(quoted[1], 2),
                        _cell(one["accuracy"]), theirs(quoted[2], 2),
                    )
                )  # fmt: skip
    return Table(
        f"One label favoured {PAPER_COUNT} to 1: mass on the true label before and after, and accuracy",
        (
            "panel",
            "method",
            "prior",
            "prior on the true label",
            "paper",
            "posterior on it",
            "paper",
            "accuracy",
            "paper",
        ),
        tuple(rows),
        "Misleading: mean over all wrong labels. 95 % bootstrap over cases. " + note,
    )


def _sweep_table(found: dict[str, dict[str, list[dict[str, Any]]]]) -> Table:
    rows = []
    for panel, variants in found.items():
        for variant, sweep in variants.items():
            for row in sweep:
                rows.append(
                    (
                        panel, _name(variant), f"{row['count']:g} to 1",
                        number(row["misleading"]["prior_on_true"], digits=4),
                        _cell(row["misleading"]["posterior_on_true"]),
                        _cell(row["misleading"]["accuracy"]), _cell(row["informative"]["accuracy"]),
                    )
                )  # fmt: skip
    return Table(
        "The sweep the paper leaves open",
        (
            "panel",
            "method",
            "odds of the favoured label",
            "misleading: prior on the true label",
            "posterior on it",
            "accuracy, misleading",
            "accuracy, informative",
        ),
        tuple(rows),
        "M-SMC and D-SMC keep a fixed share of the prior predictive, one part in 32, however the prior "
        "lies: once a wrong label holds nearly all of it, its own simulations fill that share and no "
        "evidence is left to overrule it. The recipe multiplies prior and likelihood, so evidence keeps its "
        "weight.",
    )


def _figure(panel: str, variants: dict[str, list[dict[str, Any]]]) -> Figure:
    series, ticks = [], []
    for variant in VARIANTS:
        sweep = variants[variant]
        x = [float(np.log10(row["count"])) for row in sweep]
        ticks = [(a, f"{row['count']:g}") for a, row in zip(x, sweep, strict=True)]
        shown = [row["misleading"]["accuracy"] for row in sweep]
        values = [one["value"] for one in shown]
        series.append(Series(_name(variant), x, values, marks=True, intervals=[s["ci"] for s in shown]))
    plot = line_plot(
        f"Accuracy under misleading priors, {panel}",
        "odds given to a wrong label (to 1)",
        "accuracy",
        series,
        x=(0.0, max(t[0] for t in ticks)),
        y=(0.0, 1.0),
        x_ticks=ticks,
    )
    return Figure(
        f"misleading-{panel}",
        plot,
        f"{panel}: accuracy as the odds of a wrong label grow, mean over every wrong label, 95 % bootstrap.",
    )


def _verdicts(panel: str, variants: dict[str, list[dict[str, Any]]]) -> list[str]:
    said = []
    for variant in ("m-smc", "d-smc"):
        sweep = variants[variant]
        five = next(row for row in sweep if row["count"] == PAPER_COUNT)["misleading"]
        even = sweep[0]["informative"]["accuracy"]["value"]
        about = {"data": data_of_panel(panel), "method": METHODS[variant], "setting": "misleading"}
        quoted = quote(NAME, "accuracy", **about)
        line = (
            f"{panel}: misled 5 to 1, {METHODS[variant]} moves the true label from "
            f"{five['prior_on_true']:.2f} to {five['posterior_on_true']['value']:.2f} and keeps an accuracy "
            f"of {_cell(five['accuracy'])} ({even:.2f} under a uniform prior)"
        )
        if quoted is not None:
            line += f"; the paper reports {quoted.value:.2f}"
        said.append(line + ".")
    points = {
        variant: breaking_point(
            [row["count"] for row in sweep], [row["misleading"]["accuracy"]["value"] for row in sweep]
        )
        for variant, sweep in variants.items()
    }
    last = variants["m-smc"][-1]["count"]
    words = ", ".join(
        f"{_name(v)} " + (f"at {c:g} to 1" if c is not None else f"not up to {last:g} to 1")
        for v, c in points.items()
    )
    said.append(f"{panel}: accuracy under a misleading prior falls below half of its uniform value: {words}.")
    return said
