"""The particle samplers run eight populations with early stopping off, as the paper's trace does, on all
of each panel's cases instead of three asthma cases. For D-SMC the cap is printed beside the mass on the
true label: t halvings of a flat Dirichlet prior cannot give any label more, however clear the case. What
the particles answer in the end is compared with the closed form, and the worked example is one packaged
vignette: the correctly answered one of median entropy, named by its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paper.cells import METHODS, NONE, number
from paper.measures import sampler
from paper.measures.sampler import DEFAULT, POPULATIONS, STOP
from paper.spec import Artefact, Block, Column, Drawing, Found, Said, Table, key
from paper.theirs import Quote, data_of_panel, quotes
from simdx.abc.second_order import concentration_cap
from simdx.report.plots import Series, line_plot

NAME = "smc-dynamics"


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


def of_paper(panel: str, method: str, place: str) -> dict[int, dict[str, Quote]]:
    """The paper's rows by population counted from one, as ours are."""
    found: dict[int, dict[str, Quote]] = {}
    for q in quotes(NAME, data=data_of_panel(panel), method=method):
        if q.place.startswith(place):
            found.setdefault(int(q.setting or 0) + 1, {})[q.quantity] = q
    return found if method == "D-SMC" else {}


def steps(b: Block, place: str = "Table S10") -> Iterator[dict[str, Any]]:
    example = place != "Table S10"
    paper = of_paper("case-reports" if example else b.panel, "D-SMC" if example else b.d["method"], place)
    for step in b.d["steps"]:
        yield step | {"paper": paper.get(step["population"], {})}


def figure(name: str, head: str, digits: int = 3, ci: bool = False, paper: bool = False) -> Column:
    def cell(row: dict[str, Any]) -> str:
        return number(row[name], row[f"{name}_ci"] if ci else None, digits) if row[name] is not None else NONE

    return Column(
        head, cell, (lambda row: row["paper"].get(name)) if paper else None, min(digits, 3), "paper"
    )


OURS = (
    key("population", "population"),
    figure("epsilon", "ε"),
    figure("acceptance", "acceptance"),
    figure("simulations", "simulations", 0),
    figure("ess", "ESS", 0),
    figure("entropy_bits", "entropy", 2),
    figure("p_true", "mass on the true label", 2, ci=True),
    figure("cap", "cap", 2),
)
THEIRS = {"epsilon": ("ε", 3), "acceptance": ("acceptance", 3), "simulations": ("simulations", 0)}
THEIRS |= {"entropy_bits": ("entropy", 2), "p_true": ("true label", 2)}


def columns(b: Block) -> Sequence[Column]:
    if not of_paper(b.panel, b.d["method"], "Table S10"):
        return OURS
    return (*OURS, *(_theirs(name, *about) for name, about in THEIRS.items()))


def _theirs(name: str, head: str, digits: int) -> Column:
    return Column("", None, lambda row: row["paper"].get(name), digits, f"paper: {head}")


def drawn(b: Block) -> str:
    series = []
    for method, one in b.d.items():
        x, y = ([float(s[name]) for s in one["steps"]] for name in ("population", "p_true"))
        around = [s["p_true_ci"] for s in one["steps"]]
        series.append(Series(METHODS[method], x, y, marks=True, intervals=around))
    caps = [s["cap"] for s in b.d["d-smc"]["steps"]]
    series.append(Series("cap of D-SMC", [float(t + 1) for t in range(len(caps))], caps))
    paper = of_paper(b.panel, "D-SMC", "Table S10")
    if paper:
        values = [row["p_true"].value for row in paper.values()]
        series.append(Series("the paper's D-SMC", [float(t) for t in paper], values, marks=True))
    ticks = [(float(t), str(t)) for t in range(1, POPULATIONS + 1)]
    axes = (f"Mass on the true label by population, {b.panel}", "population", "mass on the true label")
    return line_plot(*axes, series, x=(1.0, float(POPULATIONS)), y=(0.0, 1.0), x_ticks=ticks)


def claims(b: Block) -> Iterator[Said | str]:
    if "steps" in b.d:  # the worked example
        first, last = b.d["steps"][0], b.d["steps"][-1]
        yield (
            f"Worked example {b.d['id']}: from {first['p_label']:.2f} and {first['entropy_bits']:.2f} bits "
            f"after the first population to {last['p_label']:.2f} and {last['entropy_bits']:.2f} bits after "
            f"{last['population']}, as ε falls from {first['epsilon']:.2f} to {last['epsilon']:.2f}."
        )
        return
    d, m = (b.d[method]["steps"] for method in ("d-smc", "m-smc"))
    first, fifth, last = d[0], d[min(DEFAULT, len(d)) - 1], d[-1]
    rises = bool(first["p_true_ci"] and last["p_true_ci"] and last["p_true_ci"][0] > first["p_true_ci"][1])
    line = (
        f"{b.panel}: {'refinement does work, as in the paper' if rises else 'refinement moves little here'}: "
        f"D-SMC's mass on the true label rises from {first['p_true']:.2f} to {fifth['p_true']:.2f} by "
        f"population {fifth['population']} and {last['p_true']:.2f} by {last['population']}, under caps of "
        f"{fifth['cap']:.2f} and {last['cap']:.2f}; M-SMC's from {m[0]['p_true']:.2f} to "
        f"{m[-1]['p_true']:.2f}"
    )
    paper = of_paper(b.panel, "D-SMC", "Table S10")
    if paper:
        top = max(row["p_true"].value for row in paper.values())
        reach = concentration_cap(b.d["d-smc"]["labels"], POPULATIONS)
        line += f"; the paper's {top:.2f} lies above the cap of {reach:.2f} that eight halvings leave"
    yield Said(line + ".", rises)
    before, later = (sum(s["simulations"] for s in some) for some in (d[:DEFAULT], d[DEFAULT:]))
    if later and before:
        gain = last["p_true"] - fifth["p_true"]
        verdict = "no gain, as the paper finds" if gain < 0.01 else "a gain the paper does not find"
        yield Said(
            f"{b.panel}: populations after the fifth cost {later / before:.1f} times the simulations of the "
            f"first five and move D-SMC's mass on the true label by {gain:+.2f}: {verdict}.",
            gain < 0.01,
        )
    ends, apart = (
        [b.d[x][name] for x in ("m-smc", "d-smc")]
        for name in ("stopped_by_default", "distance_to_closed_form")
    )
    yield (
        f"{b.panel}: the paper's rule (stop below acceptance {STOP}) would end M-SMC by population {DEFAULT} "
        f"on {ends[0]:.0%} and D-SMC on {ends[1]:.0%} of the cases; run to the end, 100 particles lie "
        f"{apart[0]:.3f} and {apart[1]:.3f} in total variation from the closed forms, which need none."
    )


def note(b: Block) -> str:
    paper = of_paper(b.panel, b.d["method"], "Table S10")
    return "The paper counts its populations from nought; here they are counted from one." if paper else ""


ARTEFACT = Artefact(
    title="SMC dynamics, population by population, and a worked example (tables S10 and S11)",
    order=380,
    measure=sampler.dynamics,
    each=by_method,
    claims_each=panels_and_example,
    tables=(
        Table("{panel}, {method}: means over {n} cases, 100 particles", steps, columns, note),
        Table(
            "Worked example: vignette {id} ({label}), D-SMC",
            lambda b: steps(b, "Table S11"),
            (
                key("population", "population"),
                figure("p_label", "mass on the true label", 2, paper=True),
                figure("entropy_bits", "entropy", 2, paper=True),
                Column(
                    "ε",
                    lambda row: number(row["epsilon"]),
                    lambda row: row["paper"].get("epsilon"),
                    2,
                    "paper",
                ),
                figure("acceptance", "acceptance"),
                figure("ess", "ESS", 0),
            ),
            "Ours has three labels, the paper's asthma case seven: its entropy starts from 2.81 bits, ours "
            "from 1.58.",
            by_example,
        ),
    ),
    drawings=(
        Drawing(
            "dynamics-{panel}",
            drawn,
            lambda b: (
                f"{b.panel}: mean mass on the true label as the tolerance tightens, 95 % bootstrap over "
                f"{b.d['d-smc']['n']} cases, and the most D-SMC can give to any label after that many "
                "halvings."
            ),
            by_panel,
        ),
    ),
    claims=claims,
)
