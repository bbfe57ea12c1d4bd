"""The paper gives one pseudo-count of five to one label of its three. Here a prior of every strength is
put on each label of a panel in turn: it is *informative* for the cases of that label and *misleading* for
the others, so a case's figure under a misleading prior is the mean over every wrong label, and none is
picked. D-SMC takes the prior as the paper does, as pseudo-counts (a stronger prior is also a more
concentrated one), and once more with the concentration held at the number of labels, which separates the
two."""

from collections.abc import Iterator, Sequence
from math import log10
from typing import Any

from paper.cells import METHODS, number
from paper.measures import priors
from paper.spec import Artefact, Block, Column, Drawing, Said, Table, as_one, by_panel, keys
from paper.theirs import beside
from simdx.report.plots import Series, line_plot

COUNTS = (1, 2, 5, 10, 30, 100, 300, 1000)  # pseudo-counts of the favoured label, one for each other
SMOKE_COUNTS = (1, 5, 100)
PAPER_COUNT = 5


def breaking_point(counts: Sequence[float], accuracies: Sequence[float]) -> float | None:
    """The first strength at which accuracy is below half of what it is under the uniform prior."""
    return next((c for c, a in zip(counts, accuracies, strict=True) if a < accuracies[0] / 2), None)


def name_of(variant: str) -> str:
    return METHODS.get(variant, variant.replace("d-smc", "D-SMC"))


def sweeps(b: Block) -> Iterator[dict[str, Any]]:
    for panel, variants in b.d.items():
        for variant, sweep in variants.items():
            yield {"panel": panel, "name": name_of(variant), "variant": variant, "sweep": sweep}


def at_five(b: Block) -> Iterator[dict[str, Any]]:
    for one in sweeps(b):
        by, method = {row["count"]: row for row in one["sweep"]}, METHODS.get(one["variant"])
        for count, kind in ((1, "uniform"), (PAPER_COUNT, "informative"), (PAPER_COUNT, "misleading")):
            figures = by[count]["informative" if kind == "uniform" else kind]
            # A variant of our own has no counterpart, whatever the setting.
            yield one | figures | {"prior": kind, "method": method, "setting": kind if method else None}


def every_strength(b: Block) -> Iterator[dict[str, Any]]:
    for one in sweeps(b):
        for row in one["sweep"]:
            yield one | {"odds": f"{row['count']:g} to 1", **row}


def drawn(b: Block) -> str:
    series, ticks = [], []
    for variant, sweep in b.d.items():
        ticks = [(log10(row["count"]), f"{row['count']:g}") for row in sweep]
        shown = [row["misleading"]["accuracy"] for row in sweep]
        values, around = [one["value"] for one in shown], [one["ci"] for one in shown]
        series.append(Series(name_of(variant), [t[0] for t in ticks], values, marks=True, intervals=around))
    axes = (f"Accuracy under misleading priors, {b.panel}", "odds given to a wrong label (to 1)", "accuracy")
    return line_plot(*axes, series, x=(0.0, max(t[0] for t in ticks)), y=(0.0, 1.0), x_ticks=ticks)


def claims(b: Block) -> Iterator[Said | str]:
    for variant in ("m-smc", "d-smc"):
        by = {row["count"]: row for row in b.d[variant]}
        five, even = by[PAPER_COUNT]["misleading"], by[1]["informative"]["accuracy"]["value"]
        right, after = five["accuracy"], five["posterior_on_true"]["value"]
        paper = beside("prior-sensitivity", "accuracy", b.panel, METHODS[variant], setting="misleading")
        yield (f"{b.panel}: misled 5 to 1, {METHODS[variant]} moves the true label from "
               f"{five['prior_on_true']:.2f} to {after:.2f} and keeps an accuracy of "
               f"{number(right['value'], right['ci'], 2)} ({even:.2f} under a uniform prior)"
               + (f"; the paper reports {paper.value:.2f}." if paper is not None else "."))
    words = []
    for variant, sweep in b.d.items():
        counts = [row["count"] for row in sweep]
        point = breaking_point(counts, [row["misleading"]["accuracy"]["value"] for row in sweep])
        end = f"not up to {counts[-1]:g} to 1" if point is None else f"at {point:g} to 1"
        words.append(f"{name_of(variant)} {end}")
    yield (f"{b.panel}: accuracy under a misleading prior falls below half of its uniform value: "
           f"{', '.join(words)}.")


ARTEFACT = Artefact(
    "Prior sensitivity: uniform, right and misleading priors, over a sweep of strengths (table S7)", 340,
    lambda context: priors.sensitivity(context, SMOKE_COUNTS if context.smoke else COUNTS),
    each=as_one, claims_each=by_panel,
    tables=(
        Table(f"One label favoured {PAPER_COUNT} to 1: mass on the true label before and after, and accuracy",
              at_five,
              (*keys("panel | method=name | prior"),
               Column("prior on the true label", "prior_on_true", "prior_on_true", 2, "paper"),
               Column("posterior on it", "posterior_on_true", "posterior_on_true", 2, "paper"),
               Column("accuracy", "accuracy", "accuracy", 2, "paper")),
              "Misleading: mean over all wrong labels. 95 % bootstrap over cases."),
        Table("The sweep the paper leaves open", every_strength,
              (*keys("panel | method=name | odds of the favoured label=odds"),
               Column("misleading: prior on the true label", "misleading.prior_on_true", digits=4),
               Column("posterior on it", "misleading.posterior_on_true", digits=2),
               Column("accuracy, misleading", "misleading.accuracy", digits=2),
               Column("accuracy, informative", "informative.accuracy", digits=2)),
              "M-SMC and D-SMC keep a fixed share of the prior predictive, one part in 32, however the prior "
              "lies: once a wrong label holds nearly all of it, its own simulations fill that share and no "
              "evidence is left to overrule it. The recipe multiplies prior and likelihood, so evidence keeps "
              "its weight."),
    ),
    drawings=(Drawing("misleading-{panel}", drawn,
                      "{panel}: accuracy as the odds of a wrong label grow, mean over every wrong label, 95 % "
                      "bootstrap.", by_panel),),
    claims=claims,
)
