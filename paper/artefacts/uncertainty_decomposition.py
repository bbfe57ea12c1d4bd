"""D-SMC and the amortised network on every panel, all in bits: total = H(E θ), aleatoric = E H(θ),
epistemic = total − aleatoric. The paper gives one row a model on its case reports; here the same rows
stand beside those of the correct, the wrong and the out-of-class cases, because that is what the split is
for: it should tell them apart. An absolute tolerance taken from the bank itself (no case involved) is
shown as the remedy for what a fixed share of prior mass cannot do, with the accuracy it costs."""

from collections.abc import Iterator
from typing import Any

from paper.cells import METHODS, doubts, number, quartiles, quoted, several
from paper.measures import simplex
from paper.measures.simplex import ABSOLUTE, FIXED, PARTS
from paper.spec import Artefact, Block, Column, Drawing, Said, Table, as_one, by_panel, keys
from paper.theirs import beside
from simdx.report.plots import Estimate, interval_plot

HEADS = dict(zip(PARTS, ("total", "aleatoric", "epistemic", "differential entropy of the fit", "α₀"), strict=True))
SPLIT = PARTS[:3]
CLAIMS = {
    "out of class": "epistemic uncertainty is meant to rise on atypical text",
    "wrong": "epistemic uncertainty is meant to mark unreliable answers",
}


def name_of(method: str) -> str:
    return METHODS.get(method, method.replace("d-smc", "D-SMC"))


def each(b: Block) -> Iterator[dict[str, Any]]:
    for panel, found in b.d.items():
        for method, one in found.items():
            yield {"panel": panel, "method": name_of(method), **one}


def quotes(row: dict[str, Any]) -> dict[str, Any]:
    name = "uncertainty-decomposition"
    return {part: beside(name, part, row["panel"], row["method"], each=True) for part in PARTS}


def everyone(b: Block) -> Iterator[dict[str, Any]]:
    """Ours, and where the paper has them its own figures in a row below."""
    for row in each(b):
        yield row | {"whose": "ours"} | {p: quartiles(row["spread"]["all"][p]) for p in PARTS}
        if any(paper := quotes(row).values()):
            yield row | {"whose": "paper"} | dict(zip(PARTS, map(quoted, paper), strict=True))


def outcomes(b: Block) -> Iterator[dict[str, Any]]:
    for row in each(b):
        for group, parts in row["spread"].items():
            if group != "all":
                yield row | {"cases": group, "n": parts["total_bits"]["n"], **parts}


def uses(b: Block) -> Iterator[dict[str, Any]]:
    for row in each(b):
        for finds in ("wrong", "out of class"):
            found = {part: row["auroc"].get(f"{finds}: {part}") for part in SPLIT}
            yield row | {"finds": finds} | {
                part: number(one["value"], one["ci"], 2) if one else "no cases" for part, one in found.items()}


def note(b: Block) -> str:
    said = doubts(q for row in each(b) for q in quotes(row).values())
    return ("Entropies in bits; the fit of D-SMC is by the moments of all components (the paper's by the first), "
            f"so the two α₀ are not the same quantity. {said}")


def drawn(b: Block) -> str:
    rows = [Estimate(f"{name_of(method)}: {group}", s["median"], s["q1"], s["q3"], style=i)
            for i, (method, one) in enumerate(b.d.items())
            for group, parts in one["spread"].items() if group != "all" and (s := parts["epistemic_bits"])]
    return interval_plot(f"Epistemic bits by outcome, {b.panel}", "epistemic bits (median and quartiles)", rows)


def claims(b: Block) -> Iterator[Said]:
    def median(method: str, part: str) -> float:
        return float(b.d[method]["spread"]["all"][part]["median"])

    sharper = [HEADS[part] for part in SPLIT[:2] if median(FIXED, part) < median("abi", part)]
    times = median(FIXED, "epistemic_bits") / median("abi", "epistemic_bits")
    share = median("abi", "alpha0") / median(FIXED, "alpha0")
    moral = (" A network trained on D-SMC's own spread is thus not over-concentrated; the paper's objective is what "
             "does that (see the network's fidelity).")
    yield Said(f"{b.panel}: the paper finds D-SMC lower in total and aleatoric bits and with two to three times the "
               "epistemic bits of its network. Here D-SMC is lower in "
               f"{several(sharper) if sharper else 'neither'} and has {times:.2f} times the epistemic bits; the "
               f"network's α₀ is {share:.2f} times D-SMC's." + (moral if 0.5 < share < 2 else ""),
               len(sharper) == 2 and 2 <= times <= 3)
    for against, meant in CLAIMS.items():
        first, other = (b.d[m]["auroc"].get(f"{against}: epistemic_bits") for m in (FIXED, ABSOLUTE))
        if first is None or first["value"] is None:
            continue
        chance = bool(first["ci"]) and first["ci"][0] <= 0.5
        words = f"{b.panel}: {meant}; D-SMC's finds {against} cases with AUROC "
        words += number(first["value"], first["ci"], 2) + (", no better than chance" if chance else "")
        if other is not None and other["value"] is not None:
            words += (f", and with an absolute tolerance {number(other['value'], other['ci'], 2)} (accuracy "
                      f"{b.d[ABSOLUTE]['accuracy']:.2f} instead of {b.d[FIXED]['accuracy']:.2f})")
        yield Said(words + ".", not chance)


def parts(names: tuple[str, ...]) -> list[Column]:
    return [column for name in names for column in keys(f"{HEADS[name]}={name}")]


ARTEFACT = Artefact(
    "Uncertainty split into ambiguity and doubt: medians and quartiles, by outcome (table S1)", 310,
    simplex.uncertainty_decomposition, each=as_one, claims_each=by_panel,
    tables=(
        Table("All cases: median [quartiles]; the paper's: mean of its six models' medians [their range]", everyone,
              (*keys("panel | method | whose"), *parts(PARTS)), note),
        Table("By outcome: median [quartiles]", outcomes,
              (*keys("panel | method | cases | N=n"), *(Column(HEADS[p], p) for p in SPLIT))),
        Table("What each part tells: AUROC of wrong against correct cases, and of out-of-class against the panel's",
              uses, (*keys("panel | method | finds"), *parts(SPLIT)),
              "One half is chance; below it the signal points the wrong way. 95 % bootstrap. The paper gives no "
              "such figures."),
    ),
    drawings=(Drawing("epistemic-{panel}", drawn,
                      "{panel}: epistemic bits of correct, wrong and out-of-class cases, median and quartiles. A "
                      "useful signal would lie further right for wrong and out-of-class cases.", by_panel),),
    claims=claims,
)
