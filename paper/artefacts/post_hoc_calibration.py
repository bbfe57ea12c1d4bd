"""The paper's Table S19: temperature scaling mends the confidence of a fixed predictor and cannot mend its
answers. A fifth of the cases fits the temperature, the rest is scored; rows of one block share their
cases."""

from collections.abc import Iterator

from paper.answers import M_SMC
from paper.measures import scores
from paper.spec import Artefact, Block, Table, keys, metrics, named, temperature

HEADS = {"accuracy": "accuracy", "auroc": "class AUROC", "brier": "Brier", "ece": "ECE"}


def claims(b: Block) -> Iterator[str]:
    for block in b.d:
        by = {name: row["scores"] for name, row in block["rows"].items()}
        about = f"{b.panel}, {block['title']}"
        for name in (n for n in by if n in ("ML", M_SMC)):
            before, after = by[name], by[f"{name} + TS"]
            same = before["accuracy"] == after["accuracy"]
            yield (f"{about}: scaling moves {name}'s ECE from {before['ece']:.3f} to {after['ece']:.3f} and its "
                   f"accuracy from {before['accuracy']:.3f} to {after['accuracy']:.3f}"
                   + (", as it must stay." if same else " (ties broken by rounding)."))
        if "ML" in by:
            ml, m = by["ML + TS"]["accuracy"], by[M_SMC]["accuracy"]
            paper = [b.paper("accuracy", name) for name in (M_SMC, "ML + TS")]
            figures = " against ".join(f"{q.value:.3f}" for q in paper if q is not None)
            yield (f"{about}: M-SMC without labels is {'more' if m > ml else 'not more'} accurate than scaled logits "
                   f"({m:.3f} against {ml:.3f}{f'; the paper: {figures}' if figures else ''}).")
    if not any(block["asked"] for block in b.d):
        yield f"{b.panel}: no record of asking is at hand on enough cases; only inference is scaled."


ARTEFACT = Artefact(
    "Post-hoc calibration of a model's own confidence against inference (table S19)", 460,
    scores.post_hoc_calibration,
    tables=(
        Table("{panel}: before and after temperature scaling",
              lambda b: [row | {"models": block["title"], "n": row["scores"]["n"]}
                         for block in b.d for row in named(block["rows"])],
              (*keys("method | models | n"), temperature, *metrics(HEADS))),
    ),
    claims=claims,
)
