"""The paper compares a commercial embedding with five open ones on its oral benchmark. Here: every embedder that is
installed on this machine, none of which sends a text anywhere. One whose weights are not here is named and left out;
nothing is downloaded by an experiment."""

from collections.abc import Iterator
from typing import Any

from paper.cells import METHODS, NONE, ours
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Table, estimate, estimates, figure, keys, within
from paper.theirs import data_of_panel, quotes

PAPER_NAMES = {"minilm": "all-MiniLM-L6-v2"}
COMPARED = ("m-smc", "auto")
HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy"}


def rows(b: Block) -> Iterator[dict[str, Any]]:
    """Ours, then the paper's embeddings that are not at hand."""
    for method in (METHODS[m] for m in COMPARED):
        for name, width in b.whole["dimensions"].items():
            if scores := b.d.get(f"{method}, {name}"):
                setting = PAPER_NAMES.get(name) if method == "M-SMC" else None
                yield {"by": method, "name": name, "setting": setting, "dimensions": width, "scores": scores}
    for setting in dict.fromkeys(q.setting for q in quotes(b.artefact, data=data_of_panel(b.panel))):
        if setting not in PAPER_NAMES.values():
            wide = b.paper("dimensions", setting=setting)
            yield {"by": "M-SMC", "name": setting, "setting": setting,
                   "dimensions": NONE if wide is None else f"{wide.value:.0f}"}


def metric(name: str, head: str) -> Column:
    return Column(head, lambda r: figure(r, f"scores.{name}") if "scores" in r else "not at hand", name,
                  paper_head="paper")


def claims(b: Block) -> Iterator[str]:
    for method in (METHODS[m] for m in COMPARED):
        found = {name: b.d.get(f"{method}, {name}") for name in b.whole["dimensions"]}
        if by := {name: scores["accuracy"] for name, scores in found.items() if scores}:
            best, worst = max(by, key=lambda n: by[n]), min(by, key=lambda n: by[n])
            yield (f"{b.panel}, {method}: the choice of embedding moves accuracy from {by[worst]:.3f} ({worst}) to "
                   f"{by[best]:.3f} ({best}).")
    mine, paper = b.d.get("M-SMC, minilm"), b.paper("accuracy", setting=PAPER_NAMES["minilm"])
    if mine is not None and paper is not None:
        yield (f"{b.panel}: with the same small encoder the paper reports {paper.value:.3f} and calls it the price of "
               f"a local pipeline; here it gives {ours(mine, 'accuracy')} with M-SMC.")


ARTEFACT = Artefact(
    "Which embedding? M-SMC and the shipped recipe in every embedding at hand (table S15)", 420,
    ablations.embedding_ablation, each=within("scores"),
    tables=(Table("{panel}", rows,
                  (*keys("method=by | embedding=name | dimensions"), *(metric(*one) for one in HEADS.items())),
                  "95 % bootstrap over cases. The paper's rows are M-SMC with Mistral's simulations."),),
    drawings=(estimates("Accuracy by embedding, {panel}", "accuracy", lambda b: [
        estimate(name, one, "accuracy", style=int(not name.startswith("M-SMC"))) for name, one in b.d.items()],
        "{panel}: accuracy with each embedding, 95 % bootstrap; M-SMC and the shipped recipe.", x=(0.0, 1.0)),),
    claims=claims,
)
