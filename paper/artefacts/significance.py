"""The paper's Table S2: the baseline's ECE minus M-SMC's on the same cases, 10,000 paired resamples, and a
regression with the model as random intercept. Beside the ways of asking stand the embedding baselines,
which need no model. With too few models the regression is refused rather than fitted."""

from collections.abc import Iterator
from typing import Any

from paper.answers import ASKED, M_SMC
from paper.cells import counted, number
from paper.measures import errors
from paper.spec import Artefact, Block, Column, Drawing, Said, Table, keys, named
from paper.theirs import Quote, beside, data_of_panel, quote
from simdx.report.plots import Estimate, interval_plot

NAME = "significance"
HEADS = {"ece": "Δ ECE", "error_auroc": "Δ error AUROC", "e_aurc": "Δ E-AURC", "accuracy": "Δ accuracy"}


def rows(b: Block) -> list[dict[str, Any]]:
    found = [row | {"first": row["name"].split(" (")[0]} for row in named(b.d["differences"], "name")]
    return [row | {"panel": b.panel, "method": row["first"] if row["first"] in ASKED else None} for row in found]


def theirs(row: dict[str, Any]) -> Quote | None:
    return beside(NAME, "delta_ece", row["panel"], row["method"], each=True)


def column(metric: str) -> Column:
    def cell(row: dict[str, Any]) -> str:
        d = row[metric]
        if d["difference"] is None or d["ci"][0] is None:
            return number(d["difference"])
        p = "" if d["p_value"] is None else f", p {d['p_value']:.2g}"
        return "{:+.3f} [{:+.3f}, {:+.3f}]".format(d["difference"], *d["ci"]) + p

    paper = theirs if metric == "ece" else None
    return Column(HEADS[metric], cell, paper, paper_head="Δ ECE, paper (mean, least–most)")


def fits(b: Block) -> Iterator[dict[str, Any]]:
    paper = quote(NAME, "delta_ece", data=data_of_panel(b.panel), method="ML")
    for name, fit in b.d["regressions"].items():
        row = {"regression": name, "models": fit["models"], "paper": "–"}
        if fit["reason"] is not None:
            yield row | {"effect": f"refused: {fit['reason']}"}
        for method, e in fit["effects"].items():
            span = "{:+.3f} [{:+.3f}, {:+.3f}]".format(e["estimate"], *e["ci"])
            effect = f"{method} − {fit['reference']}: {span}, p {e['p_value']:.2g}"
            same = method == M_SMC and fit["reference"] == "ML" and paper is not None
            ends = (-paper.value, -(paper.high or 0), -(paper.low or 0)) if same and paper else ()
            # Theirs is the other way round.
            yield row | {"effect": effect} | ({"paper": "{:+.3f} [{:+.3f}, {:+.3f}]".format(*ends)} if ends else {})


def drawn(b: Block) -> str:
    shown = []
    for row in rows(b):
        paper, d = theirs(row), row["ece"]
        value, (low, high) = None if paper is None else paper.value, d["ci"]
        shown.append(Estimate(row["name"], d["difference"], low, high, value, int(row["method"] in ASKED)))
    return interval_plot(f"Difference of ECE on {b.panel}", "Δ ECE (right of zero: M-SMC is better)", shown)


def claims(b: Block) -> Iterator[Said | str]:
    for title, asking in (("asking", True), ("other inference", False)):
        chosen = [row for row in rows(b) if (row["method"] is not None) == asking]
        if not chosen:
            yield f"{b.panel}: no record of {title} is at hand."
            continue
        better = sum((row["ece"]["ci"][0] or 0) > 0 for row in chosen)
        # A low ECE is cheap for whoever answers at chance with even odds: the accuracy stands beside it.
        worse = [f"{row['name'].split(' − ')[0]} (accuracy {row['accuracy']['difference'] or 0:+.2f})"
                 for row in chosen if row["ece"]["ci"][1] is not None and row["ece"]["ci"][1] < 0]
        yield Said(f"{b.panel}: M-SMC's ECE is lower than that of {title} beyond doubt in "
                   f"{counted(better, len(chosen), 'comparisons')}"
                   + (f", and higher beyond doubt against {', '.join(worse)}" if worse else "")
                   + (" (the paper: 24 of 24 on MultiCaRe)." if asking else "."),
                   better == len(chosen) if asking else None)
    for name, fit in b.d["regressions"].items():
        if fit["reason"]:
            yield f"{b.panel}: the regression '{name}' is refused: {fit['reason']}."


ARTEFACT = Artefact(
    "Significance: paired bootstrap and mixed effects (table S2)", 315,
    lambda context: errors.significance(context, tuple(HEADS)),
    tables=(
        Table("{panel}: paired bootstrap over cases", rows, (*keys("compared=name"), *map(column, HEADS)),
              "Other method minus M-SMC on the same cases; a positive Δ ECE or Δ E-AURC favours M-SMC. p "
              "two-sided."),
        Table("{panel}: mixed-effects regression of ECE", fits, keys("regression | groups=models | effect | paper")),
    ),
    drawings=(Drawing("delta-ece-{panel}", drawn,
                      "ECE of the other method minus M-SMC's on {panel}, 95 % paired bootstrap; diamonds: the "
                      "paper."),),
    claims=claims,
)
