"""The particle samplers run eight populations with early stopping off, as the paper's trace does, on all of each
panel's cases instead of three asthma cases. For D-SMC the cap is printed beside the mass on the true label: t halvings
of a flat Dirichlet prior cannot give any label more, however clear the case. The particles' last answer is compared
with the closed form; the worked example is the correctly answered packaged vignette of median entropy."""

from typing import Any

from paper.cells import NONE
from paper.measures import sampler
from paper.sentences import refinement
from paper.spec import Artefact, Block, Column, Table, alone, keys, lines, methods, metrics, over, their_line, within
from simdx.report.plots import Series

DIGITS = {"simulations": 0, "ess": 0, "entropy_bits": 2, "p_true": 2}
HEADS = {"epsilon": "ε", "acceptance": "acceptance", "simulations": "simulations", "ess": "ESS"}
HEADS |= {"entropy_bits": "entropy", "p_true": "mass on the true label"}
OURS = (*keys("population"), *metrics(HEADS, digits=DIGITS, paper=False, at=""),
        Column("cap", lambda row: NONE if row["cap"] is None else f"{row['cap']:.2f}"))
THEIRS = [Column("", None, name, DIGITS.get(name, 3), f"paper: {head.removeprefix('mass on the ')}")
          for name, head in HEADS.items() if name != "ess"]
EXAMPLE = (*keys("population"), *metrics({"p_label": "mass on the true label", "entropy_bits": "entropy"}, digits=2,
                                         paper_head="paper", at=""),
           Column("ε", "epsilon", "epsilon", 3, "paper", paper_digits=2),
           *metrics({"acceptance": "acceptance", "ess": "ESS"}, digits=DIGITS, paper=False, at=""))
panels, example = within("panels"), alone("example", "case-reports", method="D-SMC, one case")


def steps(b: Block) -> list[dict[str, Any]]:
    """The paper counts its populations from nought."""
    return [step | {"method": b.d["method"], "setting": str(step["population"] - 1)} for step in b.d["steps"]]


def note(b: Block) -> str:
    traced = b.paper("p_true", b.d["method"], "0")
    return "The paper counts its populations from nought; here they are counted from one." if traced else ""


def drawn(b: Block) -> list[Series]:
    own = over({method: one["steps"] for method, one in b.d.items()}, lambda s: float(s["population"]), "p_true")
    caps = Series("cap of D-SMC", own[0].x, [s["cap"] for s in b.d["d-smc"]["steps"]])
    return [*own, caps, *their_line(b, "the paper's D-SMC", "p_true", lambda t: t + 1)]


ARTEFACT = Artefact(
    "SMC dynamics, population by population, and a worked example (tables S10 and S11)", 380, sampler.dynamics,
    each=methods("panels"), claims=refinement, claims_each=lambda found: (*panels(found), *example(found)),
    tables=(Table("{panel}, {method}: means over {n} cases, 100 particles", steps,
                  lambda b: (*OURS, *(THEIRS if note(b) else ())), note),
            Table("Worked example: vignette {id} ({label}), D-SMC", steps, EXAMPLE, "Ours has three labels, the "
                  "paper's asthma case seven: its entropy starts from 2.81 bits, ours from 1.58.", example)),
    drawings=(lines("Mass on the true label by population, {panel}", ("population", "mass on the true label"), drawn,
                    {float(t): str(t) for t in range(1, sampler.POPULATIONS + 1)}, "{panel}: mean mass on the true "
                    "label as the tolerance tightens, 95 % bootstrap over {d-smc[n]} cases, and the most D-SMC can "
                    "give to any label after that many halvings.", each=panels),),
)
