"""D-SMC on the panel with three labels. A picture needs single cases; which ones is decided by a rule, not by eye: of
the correct, the wrong and the out-of-class cases, the one whose entropy is the median of its group. What the picture
suggests is then measured on all cases: how far the posterior's mean lies from the middle of the triangle, and how
widely the accepted draws spread around that mean."""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from paper.intervals import excludes
from paper.measures import simplex
from paper.spec import Artefact, Block, Drawing, Table, as_one, figure, keys, metrics, named
from simdx.report.plots import ternary_grid

PAPER = {
    "out of class": "The paper's out-of-class case lies nearer the middle than a correct one",
    "wrong": "The paper's wrong case concentrates on a wrong region, no less than a correct one",
}
HEADS = {"top": "top probability", "from_middle": "distance of the mean from the middle"}
HEADS |= {"spread": "spread of the draws"}


def drawn(b: Block) -> str:
    triangles = [(one["heading"], np.array(one["draws"]), one["mean"]) for one in b.d["triangles"]]
    return ternary_grid("D-SMC posteriors on the simplex", triangles, b.d["labels"])


def caption(b: Block) -> str:
    chosen = "; ".join(f"{name} {one['id']}" for name, one in b.d["examples"].items())
    return (f"D-SMC on {b.d['panel']}: {simplex.SHOWN} accepted draws each and their mean (larger dot). Each case is "
            f"the one of median entropy in its group, so none was picked by eye: {chosen}.")


def claims(b: Block) -> Iterator[str]:
    groups = b.d["groups"]
    middle = {name: one["from_middle"]["median"] for name, one in groups.items()}
    for name, gap in b.d["gaps"].items():
        nearer = excludes(gap["ci"]) and gap["value"] > 0
        same = "the same holds for the whole group", "the whole group does not bear that out"
        yield (f"{PAPER[name]}; here {name} cases lie {middle[name]:.2f} from the middle against "
               f"{middle['correct']:.2f} for correct ones (difference {figure(b.d['gaps'], name, 2)}): "
               f"{same[nearer != (name == 'out of class')]}.")
    if "out of class" in groups and groups["correct"]["n"]:
        ratio = groups["out of class"]["spread"]["median"] / groups["correct"]["spread"]["median"]
        yield (f"The draws of out-of-class cases spread {ratio:.2f} times as widely as those of correct ones: a fixed "
               "share of prior mass is accepted whatever the case, so the picture's width says where on the simplex "
               "the answer lies, not how well the case is known.")


ARTEFACT = Artefact(
    "Posteriors on the simplex: prior, a correct, a wrong and an out-of-class case (figure 2a)", 250,
    simplex.ternary, each=as_one,
    tables=(Table("Where the posteriors lie (medians over cases, 95 % bootstrap)",
                  lambda b: named(b.d["groups"], "cases"), (*keys("cases | N=n"), *metrics(HEADS, paper=False, at="")),
                  f"A corner lies {sqrt(2 / 3):.3f} from the middle. The paper shows four pictures and gives no "
                  "numbers."),),
    drawings=(Drawing(drawn, caption),),
    claims=claims,
)
