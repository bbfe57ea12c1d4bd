"""The paper's Figure 2b (its SD, one model), here on every panel: the error rate among the most certain
cases, by predictive entropy. A score that ranks well gives a curve that only rises."""

from collections.abc import Iterator
from typing import Any

from paper.answers import ASKED, M_SMC, RECIPE, theirs_name
from paper.cells import several
from paper.measures import errors
from paper.spec import Artefact, Block, Column, Drawing, Table, keys, named
from simdx.report.plots import Series, line_plot

SHOWN_AT = (0.2, 0.5, 0.8, 1.0)


def rows(b: Block) -> list[dict[str, Any]]:
    return [row | {"method": theirs_name(row["method"])} for row in named(b.d, "name")]


def drawn(b: Block) -> str:
    series = [Series(name, curve["coverage"], curve["risk"]) for name, curve in b.d.items()]
    axes = ("coverage (most certain first)", "error rate")
    return line_plot(f"Risk–coverage on {b.panel}", *axes, series, x=(0.0, 1.0))


def claims(b: Block) -> Iterator[str]:
    m, recipe = (b.d[name]["risk_at"] for name in (M_SMC, RECIPE))
    yield (f"{b.panel}: keeping the most certain 80 % lowers M-SMC's error rate from {m['100%']:.3f} to "
           f"{m['80%']:.3f}, the recipe's from {recipe['100%']:.3f} to {recipe['80%']:.3f}.")
    for own in (name for name in b.d if name.startswith(f"{M_SMC}, ")):
        model = own.split(", ")[1]
        asked = {n: row for n, row in b.d.items() if row["method"] in ASKED and n.endswith(f"{model})")}
        parts = [f"{n} {row['risk_at']['80%']:.3f} (rises {row['rises']:.2f})" for n, row in asked.items()]
        if parts:
            yield (f"{b.panel}, {model}: at 80 % coverage M-SMC over its own bank errs in "
                   f"{b.d[own]['risk_at']['80%']:.3f} (its curve rises with rank correlation {b.d[own]['rises']:.2f}), "
                   f"asked {several(parts)}.")


ARTEFACT = Artefact(
    "Risk–coverage curves (figure 2b)", 50, lambda context: errors.curves(context, SHOWN_AT),
    tables=(
        Table("{panel}: error rate among the most certain cases", rows,
              (*keys("method=name | n"),
               *(Column(f"risk at {c:.0%}", f"risk_at.{c:.0%}") for c in SHOWN_AT),
               Column("at 80 %", None, "risk_at_80"), Column("at 100 %", None, "risk_at_100"),
               Column("rises", "rises", digits=2)),
              "rises: rank correlation of risk with coverage above 10 %; 1 is a curve that only rises."),
    ),
    drawings=(Drawing(drawn, "Error rate against coverage on {panel}, by entropy."),),
    claims=claims,
)
