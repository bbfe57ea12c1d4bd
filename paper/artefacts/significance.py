"""The paper's Table S2: the baseline's ECE minus M-SMC's on the same cases, 10,000 paired resamples, and a regression
with the model as random intercept. Beside the ways of asking stand the embedding baselines, which need no model. With
too few models the regression is refused rather than fitted."""

from collections.abc import Iterator
from typing import Any

from paper.answers import ASKED, M_SMC
from paper.cells import NONE, signed
from paper.measures import errors
from paper.sentences import beyond_doubt
from paper.spec import Artefact, Block, Column, Table, estimate, estimates, keys, metrics, named, of_tuples
from paper.theirs import Quote, beside

HEADS = {"ece": "Δ ECE", "error_auroc": "Δ error AUROC", "e_aurc": "Δ E-AURC", "accuracy": "Δ accuracy"}
ECE, *OTHERS = metrics(HEADS, paper=False, at="")


def rows(b: Block) -> list[dict[str, Any]]:
    ways = ((row, row["name"].split(" (")[0]) for row in named(b.d["differences"], "name"))
    return [row | {"panel": b.panel, "method": first if first in ASKED else None} for row, first in ways]


def theirs(row: dict[str, Any]) -> Quote | None:
    return beside("significance", "delta_ece", row["panel"], row["method"], each=True)


def fits(b: Block) -> Iterator[tuple[Any, ...]]:
    paper = b.paper("delta_ece", "ML")
    for name, fit in b.d["regressions"].items():
        if fit["reason"] is not None:
            yield name, fit["models"], f"refused: {fit['reason']}", NONE
        for method, e in fit["effects"].items():
            same = paper if (method, fit["reference"]) == (M_SMC, "ML") else None
            # Theirs is the other way round.
            theirs = NONE if same is None else signed(-same.value, (-(same.high or 0), -(same.low or 0)))
            own = signed(e["estimate"], e["ci"], e["p_value"])
            yield name, fit["models"], f"{method} − {fit['reference']}: {own}", theirs


ARTEFACT = Artefact(
    "Significance: paired bootstrap and mixed effects (table S2)", 315,
    lambda context: errors.significance(context, tuple(HEADS)),
    tables=(
        Table("{panel}: paired bootstrap over cases", rows,
              (*keys("compared=name"), ECE, Column("", None, theirs, paper_head="Δ ECE, paper (mean, least–most)"),
               *OTHERS),
              "Other method minus M-SMC on the same cases; a positive Δ ECE or Δ E-AURC favours M-SMC. p two-sided."),
        Table("{panel}: mixed-effects regression of ECE", fits, of_tuples("regression", "groups", "effect", "paper")),
    ),
    drawings=(estimates("Difference of ECE on {panel}", "Δ ECE (right of zero: M-SMC is better)", lambda b: [
        estimate(row["name"], row, "ece", theirs(row), int(row["method"] in ASKED)) for row in rows(b)],
        "ECE of the other method minus M-SMC's on {panel}, 95 % paired bootstrap; diamonds: the paper."),),
    claims=beyond_doubt,
)
