"""The particle samplers run eight populations with early stopping off, as the paper's trace does, on all
of each panel's cases instead of three asthma cases. For D-SMC the cap is printed beside the mass on the
true label: t halvings of a flat Dirichlet prior cannot give any label more, however clear the case. What
the particles answer in the end is compared with the closed form, and the worked example is one packaged
vignette: the correctly answered one of median entropy, named by its id."""

from collections.abc import Iterator
from typing import Any

from paper.cells import METHODS, NONE
from paper.measures import sampler
from paper.measures.sampler import DEFAULT, POPULATIONS, STOP
from paper.spec import Artefact, Block, Column, Drawing, Found, Said, Table, figure, keys
from paper.theirs import Quote, data_of_panel, grouped
from simdx.abc.second_order import concentration_cap
from simdx.report.plots import Series, line_plot


def by_panel(found: Found) -> Iterator[Block]:
    for panel, two in found["data"]["panels"].items():
        yield Block(panel, two, found["n"])


def by_method(found: Found) -> Iterator[Block]:
    for b in by_panel(found):
        for method, one in b.d.items():
            yield Block(b.panel, one | {"method": METHODS[method]}, found["n"])


def by_example(found: Found) -> Iterator[Block]:
    if found["data"]["example"] is not None:
        yield Block(sampler.EXAMPLE_PANEL, found["data"]["example"], found["n"])


def panels_and_example(found: Found) -> Iterator[Block]:
    yield from by_panel(found)
    yield from by_example(found)


def of_paper(panel: str, place: str = "Table S10", method: str = "D-SMC") -> dict[int, dict[str, Quote]]:
    """The paper's rows by population counted from one, as ours are; it traces D-SMC alone."""
    found = grouped("smc-dynamics", data=data_of_panel(panel), method="D-SMC", place=place)
    return {int(t or 0) + 1: q for (_, t), q in found.items()} if method == "D-SMC" else {}


def steps(b: Block) -> list[dict[str, Any]]:
    paper = of_paper(b.panel, method=b.d["method"])
    return [step | {"paper": paper.get(step["population"], {})} for step in b.d["steps"]]


def example_steps(b: Block) -> list[dict[str, Any]]:
    paper = of_paper("case-reports", "Table S11")
    return [step | {"paper": paper.get(step["population"], {})} for step in b.d["steps"]]


def own(name: str, head: str, digits: int = 3, paper: int | None = None) -> Column:
    """Ours, with the paper's beside it in so many digits."""
    return Column(head, lambda r: NONE if r[name] is None else figure(r, name, digits),
                  None if paper is None else lambda r: r["paper"].get(name), paper_head="paper",
                  paper_digits=paper)


def theirs(name: str, head: str, digits: int) -> Column:
    return Column("", None, lambda r: r["paper"].get(name), digits, f"paper: {head}")


OURS = (*keys("population"), own("epsilon", "ε"), own("acceptance", "acceptance"),
        own("simulations", "simulations", 0), own("ess", "ESS", 0), own("entropy_bits", "entropy", 2),
        own("p_true", "mass on the true label", 2), own("cap", "cap", 2))
THEIRS = (theirs("epsilon", "ε", 3), theirs("acceptance", "acceptance", 3), theirs("simulations", "simulations", 0),
          theirs("entropy_bits", "entropy", 2), theirs("p_true", "true label", 2))
EXAMPLE = (*keys("population"), own("p_label", "mass on the true label", 2, 2),
           own("entropy_bits", "entropy", 2, 2), own("epsilon", "ε", 3, 2), own("acceptance", "acceptance"),
           own("ess", "ESS", 0))


def drawn(b: Block) -> str:
    series = []
    for method, one in b.d.items():
        x, y = ([float(s[name]) for s in one["steps"]] for name in ("population", "p_true"))
        around = [s["p_true_ci"] for s in one["steps"]]
        series.append(Series(METHODS[method], x, y, marks=True, intervals=around))
    caps = [s["cap"] for s in b.d["d-smc"]["steps"]]
    series.append(Series("cap of D-SMC", [float(t + 1) for t in range(len(caps))], caps))
    if paper := of_paper(b.panel):
        values = [row["p_true"].value for row in paper.values()]
        series.append(Series("the paper's D-SMC", [float(t) for t in paper], values, marks=True))
    ticks = [(float(t), str(t)) for t in range(1, POPULATIONS + 1)]
    axes = (f"Mass on the true label by population, {b.panel}", "population", "mass on the true label")
    return line_plot(*axes, series, x=(1.0, float(POPULATIONS)), y=(0.0, 1.0), x_ticks=ticks)


def claims(b: Block) -> Iterator[Said | str]:
    if "steps" in b.d:  # the worked example
        first, last = b.d["steps"][0], b.d["steps"][-1]
        yield (f"Worked example {b.d['id']}: from {first['p_label']:.2f} and {first['entropy_bits']:.2f} bits after "
               f"the first population to {last['p_label']:.2f} and {last['entropy_bits']:.2f} bits after "
               f"{last['population']}, as ε falls from {first['epsilon']:.2f} to {last['epsilon']:.2f}.")
        return
    d, m = (b.d[method]["steps"] for method in ("d-smc", "m-smc"))
    first, fifth, last = d[0], d[min(DEFAULT, len(d)) - 1], d[-1]
    rises = bool(first["p_true_ci"] and last["p_true_ci"] and last["p_true_ci"][0] > first["p_true_ci"][1])
    line = (f"{b.panel}: {'refinement does work' if rises else 'refinement moves little here'}: "
            f"D-SMC's mass on the true label rises from {first['p_true']:.2f} to {fifth['p_true']:.2f} by "
            f"population {fifth['population']} and {last['p_true']:.2f} by {last['population']}, under caps of "
            f"{fifth['cap']:.2f} and {last['cap']:.2f}; M-SMC's from {m[0]['p_true']:.2f} to "
            f"{m[-1]['p_true']:.2f}")
    if paper := of_paper(b.panel):
        top, reach = (max(row["p_true"].value for row in paper.values()),
                      concentration_cap(b.d["d-smc"]["labels"], POPULATIONS))
        line += (f"; the paper's {top:.2f} lies above the cap of {reach:.2f} that eight halvings "
                 "leave: its “adaptive” tolerances need not be medians")
    yield Said(line + ".", rises)
    before, later = (sum(s["simulations"] for s in some) for some in (d[:DEFAULT], d[DEFAULT:]))
    if later and before:
        gain = last["p_true"] - fifth["p_true"]
        verdict = "no gain" if gain < 0.01 else "a gain"
        yield Said(f"{b.panel}: populations after the fifth cost {later / before:.1f} times the simulations of the "
                   f"first five and move D-SMC's mass on the true label by {gain:+.2f}: {verdict}.", gain < 0.01)
    ends, apart = ([b.d[x][name] for x in ("m-smc", "d-smc")]
                   for name in ("stopped_by_default", "distance_to_closed_form"))
    yield (f"{b.panel}: the rule that the paper recommends (stop below acceptance {STOP}) would end M-SMC by "
           f"population {DEFAULT} on "
           f"{ends[0]:.0%} and D-SMC on {ends[1]:.0%} of the cases; run to the end, 100 particles lie "
           f"{apart[0]:.3f} and {apart[1]:.3f} in total variation from the closed forms, which need none.")


def note(b: Block) -> str:
    paper = of_paper(b.panel, method=b.d["method"])
    return "The paper counts its populations from nought; here they are counted from one." if paper else ""


ARTEFACT = Artefact(
    "SMC dynamics, population by population, and a worked example (tables S10 and S11)", 380, sampler.dynamics,
    each=by_method, claims_each=panels_and_example,
    tables=(
        Table("{panel}, {method}: means over {n} cases, 100 particles", steps,
              lambda b: (*OURS, *(THEIRS if note(b) else ())), note),
        Table("Worked example: vignette {id} ({label}), D-SMC", example_steps, EXAMPLE,
              "Ours has three labels, the paper's asthma case seven: its entropy starts from 2.81 bits, ours "
              "from 1.58.", by_example),
    ),
    drawings=(Drawing("dynamics-{panel}", drawn,
                      lambda b: (f"{b.panel}: mean mass on the true label as the tolerance tightens, 95 % "
                                 f"bootstrap over {b.d['d-smc']['n']} cases, and the most D-SMC can give to any "
                                 "label after that many halvings."), by_panel),),
    claims=claims,
)
