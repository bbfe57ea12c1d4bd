"""D-SMC and the amortised network on every panel, all in bits: total = H(E θ), aleatoric = E H(θ), epistemic = total −
aleatoric. The paper gives one row a model on its case reports; here the same rows stand beside those of the correct,
the wrong and the out-of-class cases, because that is what the split is for: it should tell them apart. An absolute
tolerance taken from the bank itself (no case involved) is shown as the remedy for what a fixed share of prior mass
cannot do, with the accuracy it costs."""

from collections.abc import Iterator
from typing import Any

from paper.cells import method_name
from paper.measures import simplex
from paper.sentences import BITS, ambiguity
from paper.spec import Artefact, Block, Table, as_one, by_panel, estimate, estimates, figure, keys, metrics, nested
from paper.theirs import beside

HEADS = BITS | {"differential_entropy": "differential entropy of the fit", "alpha0": "α₀"}


def everyone(b: Block) -> Iterator[dict[str, Any]]:
    """Ours, and where the paper has them its own figures in a row below."""
    for row in nested(b):
        yield row | {"whose": "ours"}
        if beside(b.artefact, "alpha0", row["panel"], row["method"]):
            yield row | {"whose": "paper"}


def outcomes(b: Block) -> list[dict[str, Any]]:
    return [row | {"cases": group, "n": parts["total_bits"]["n"], **parts}
            for row in nested(b) for group, parts in row["found"]["spread"].items() if group != "all"]


def uses(b: Block) -> Iterator[dict[str, Any]]:
    for row in nested(b):
        for finds in ("wrong", "out of class"):
            cells, auroc = {part: f"{finds}: {part}" for part in BITS}, row["found"]["auroc"]
            yield row | {"finds": finds} | {part: figure(auroc, name, 2) if name in auroc else "no cases"
                                            for part, name in cells.items()}


ARTEFACT = Artefact(
    "Uncertainty split into ambiguity and doubt: medians and quartiles, by outcome (table S1)", 310,
    simplex.uncertainty_decomposition, each=as_one, claims=ambiguity, claims_each=by_panel,
    tables=(
        Table("All cases: median [quartiles]; the paper's: mean of its six models' medians [their range]", everyone,
              (*keys("panel | method=name | whose"), *metrics(HEADS, at="found.spread.all.", below=True)),
              "Entropies in bits; the fit of D-SMC is by the moments of all components (the paper's by the first), so "
              "the two α₀ are not the same quantity."),
        Table("By outcome: median [quartiles]", outcomes,
              (*keys("panel | method=name | cases | N=n"), *metrics(BITS, paper=False, at=""))),
        Table("What each part tells: AUROC of wrong against correct cases, and of out-of-class against the panel's",
              uses, keys(f"panel | method=name | finds | {' | '.join(f'{BITS[part]}={part}' for part in BITS)}"),
              "One half is chance; below it the signal points the wrong way. 95 % bootstrap. The paper gives no such "
              "figures."),
    ),
    drawings=(estimates("Epistemic bits by outcome, {panel}", "epistemic bits (median and quartiles)", lambda b: [
        estimate(f"{method_name(method)}: {group}", parts, "epistemic_bits", style=style)
        for style, (method, one) in enumerate(b.d.items()) for group, parts in one["spread"].items() if group != "all"],
        "{panel}: epistemic bits of correct, wrong and out-of-class cases, median and quartiles. A useful signal would "
        "lie further right for wrong and out-of-class cases.", each=by_panel),),
)
