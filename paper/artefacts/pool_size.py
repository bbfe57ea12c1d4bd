"""Pools are drawn at random from the packaged banks (both files together), several for each size, and from the banks
that models wrote where there are any (`{panel}-{model}`, and `{panel}-{model}-n1000` for one that was written for this
question alone). A bank cannot give more texts than it has: where a size asks for more, the pool is the whole bank, the
row says how many distinct texts there were, and nothing is repeated to fill it up."""

from collections.abc import Iterator
from math import log10
from typing import Any

from paper.cells import METHODS, number, ours
from paper.measures import ablations
from paper.sentences import pools
from paper.spec import Artefact, Block, Column, Table, keys, lines, marked, metrics, of_rows, their_line
from paper.world import REFERENCE
from simdx.report.plots import Series

SIZES, LARGEST, LARGEST_PANEL = (3, 10, 30, 50, 100, 500), 1000, "oral-lesions"  # the paper's panel
HEADS = {"macro_f1": "F1", "auroc": "AUROC", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy"}


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for row in b.d:
        texts = " to ".join(str(n) for n in dict.fromkeys(row["distinct"]))
        yield row | {"method": METHODS[row["method"]], "setting": str(row["size"]), "texts": texts}


def accuracy(row: dict[str, Any]) -> str:
    if row["pools"] == 1:
        return ours(row["first"], "accuracy")
    over = "({:.3f} to {:.3f} over {} pools)".format(*row["accuracy_range"], row["pools"])
    return f"{number(row['means']['accuracy'])} {over}"


def drawn(b: Block) -> list[Series]:
    found: dict[tuple[str, str], dict[float, tuple[Any, Any]]] = {}
    for row in b.d:  # rows beyond the bank's end are one
        at = found.setdefault((row["method"], row["bank"]), {})
        at[log10(row["distinct"][1])] = row["means"]["accuracy"], row["accuracy_range"]
    own = [marked(METHODS[method] + ("" if bank == REFERENCE else f", {bank}"), found[method, bank])
           for method, bank in sorted(found, key=lambda line: line[0])]
    return own + their_line(b, "the paper's D-SMC", "accuracy", log10)


ARTEFACT = Artefact(
    "How many simulations? Pools of 3, 50, 500 and, where there are so many, 1000 per label (table S18)", 450,
    lambda context: ablations.pool_size(context, SIZES, ("accuracy", *HEADS), LARGEST, LARGEST_PANEL),
    each=of_rows("rows"), claims=pools,
    tables=(Table("{panel}", rows,
                  (*keys("method | bank | asked for per label=size | distinct texts per label=texts"),
                   Column("accuracy", accuracy, "accuracy", paper_head="paper"),
                   *metrics(HEADS, paper_head="paper", paper_digits=2, at="means.")),
                  "Means over pools with the range of accuracy; one pool, with its 95 % bootstrap, where the pool is "
                  "the whole bank. Rows that ask for more than the bank has all hold the same texts."),),
    drawings=(lines("Accuracy by pool size, {panel}", ("distinct simulations per label", "accuracy"), drawn,
                    {log10(size): str(size) for size in (3, 10, 30, 100, 300, 1000)},
                    "{panel}: mean accuracy over random pools, bars from the worst to the best pool."),),
)
