"""The paper compares a commercial embedding with five open ones on its oral benchmark. Here: every
embedder that is installed on this machine, none of which sends a text anywhere. One whose weights are not
here is named and left out; nothing is downloaded by an experiment."""

from collections.abc import Iterator
from typing import Any

from paper.cells import METHODS, NONE, ours
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Drawing, Found, Table, beside_row, estimate, figure, keys
from paper.theirs import beside, data_of_panel, quotes
from simdx.report.plots import interval_plot

NAME = "embedding-ablation"
PAPER_NAMES = {"minilm": "all-MiniLM-L6-v2"}
COMPARED = ("m-smc", "auto")
HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy"}


def by_panel(found: Found) -> Iterator[Block]:
    for panel, scores in found["data"]["scores"].items():
        yield Block(panel, {"scores": scores, "dimensions": found["data"]["dimensions"]}, found["n"])


def rows(b: Block) -> Iterator[dict[str, Any]]:
    """Ours, then the paper's embeddings that are not at hand."""
    for method in COMPARED:
        for name, width in b.d["dimensions"].items():
            if scores := b.d["scores"].get(f"{METHODS[method]}, {name}"):
                setting = PAPER_NAMES.get(name) if method == "m-smc" else None
                yield {"by": METHODS[method], "name": name, "setting": setting, "dimensions": width,
                       "scores": scores}
    for setting in dict.fromkeys(q.setting for q in quotes(NAME, data=data_of_panel(b.panel))):
        if setting not in PAPER_NAMES.values():
            wide = beside(NAME, "dimensions", b.panel, setting=setting)
            yield {"by": "M-SMC", "name": setting, "setting": setting,
                   "dimensions": NONE if wide is None else f"{wide.value:.0f}"}


def metric(name: str, head: str) -> Column:
    return Column(head, lambda r: figure(r, f"scores.{name}") if "scores" in r else "not at hand", name,
                  paper_head="paper")


def drawn(b: Block) -> str:
    items = b.d["scores"].items()
    shown = [estimate(name, one, "accuracy", style=int(not name.startswith("M-SMC"))) for name, one in items]
    return interval_plot(f"Accuracy by embedding, {b.panel}", "accuracy", shown, x=(0.0, 1.0))


def claims(b: Block) -> Iterator[str]:
    for method in COMPARED:
        found = {name: b.d["scores"].get(f"{METHODS[method]}, {name}") for name in b.d["dimensions"]}
        by = {name: scores["accuracy"] for name, scores in found.items() if scores}
        if by:
            best, worst = max(by, key=lambda n: by[n]), min(by, key=lambda n: by[n])
            yield (f"{b.panel}, {METHODS[method]}: the choice of embedding moves accuracy from {by[worst]:.3f} "
                   f"({worst}) to {by[best]:.3f} ({best}).")
    mine = b.d["scores"].get("M-SMC, minilm")
    paper = beside_row(NAME, "accuracy", {"panel": b.panel, "setting": PAPER_NAMES["minilm"]})
    if mine is not None and paper is not None:
        yield (f"{b.panel}: with the same small encoder the paper reports {paper.value:.3f} and calls it the "
               f"price of a local pipeline; here it gives {ours(mine, 'accuracy')} with M-SMC.")


ARTEFACT = Artefact(
    "Which embedding? M-SMC and the shipped recipe in every embedding at hand (table S15)", 420,
    ablations.embedding_ablation, each=by_panel,
    tables=(
        Table("{panel}", rows,
              (*keys("method=by | embedding=name | dimensions"), *(metric(*one) for one in HEADS.items())),
              "95 % bootstrap over cases. The paper's rows are M-SMC with Mistral's simulations."),
    ),
    drawings=(Drawing("embeddings-{panel}", drawn, "{panel}: accuracy with each embedding, 95 % bootstrap; "
                      "M-SMC and the shipped recipe."),),
    claims=claims,
)
