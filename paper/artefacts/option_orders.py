"""No table of the paper: what the order of the options does to its ML, which asks in one. A model is asked the same
question with the list in each of its rotations; every label stands once at every place."""

from collections.abc import Iterator
from typing import Any

from paper.measures import ablations
from paper.spec import Artefact, Block, Table, keys, metrics, of_rows

HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE", "error_auroc": "error AUROC"}


def rows(b: Block) -> list[dict[str, Any]]:
    return [{"order": name, "scores": scores} for name, scores in b.d["rows"].items()]


def claims(b: Block) -> Iterator[str]:
    *alone, every = (scores["accuracy"] for scores in b.d["rows"].values())
    yield (f"{b.panel}: another order of the options changes the answer of {b.d['simulator']} on "
           f"{b.d['order_changes_answer']:.0%} of the cases; one order alone is right in {min(alone):.3f} to "
           f"{max(alone):.3f}, the mean over all in {every:.3f}.")


ARTEFACT = Artefact(
    "What the order of the options does to model logits (no table of the paper)", 435,
    lambda context: ablations.orders(context, tuple(HEADS)), each=of_rows(apart=True),
    tables=(Table("{panel}, {simulator}", rows, (*keys("options=order"), *metrics(HEADS, paper=False)),
                  "Order 1 is the list as the panel has it: the rows named ML elsewhere. All orders: the mean of "
                  "the probabilities, named “ML, all orders” elsewhere. 95 % bootstrap over cases."),),
    claims=claims,
)
