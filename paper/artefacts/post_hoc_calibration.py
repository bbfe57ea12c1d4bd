"""The paper's Table S19: temperature scaling mends the confidence of a fixed predictor and cannot mend its
answers. A fifth of the cases fits the temperature, the rest is scored; rows of one block share their
cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paper.answers import M_SMC
from paper.measures import scores
from paper.spec import Artefact, Block, Column, Said, Table, keys, metrics
from paper.theirs import beside

NAME = "post-hoc-calibration"
HEADS = {"accuracy": "accuracy", "auroc": "class AUROC", "brier": "Brier", "ece": "ECE"}


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for block in b.d:
        for name, row in block["rows"].items():
            about = {"panel": b.panel, "method": name, "models": block["title"], "n": row["scores"]["n"]}
            yield about | row


def claims(b: Block) -> Iterator[Said | str]:
    for block in b.d:
        by = {name: row["scores"] for name, row in block["rows"].items()}
        about = f"{b.panel}, {block['title']}"
        for name in (n for n in by if n in ("ML", M_SMC)):
            before, after = by[name], by[f"{name} + TS"]
            same = before["accuracy"] == after["accuracy"]
            yield Said(
                f"{about}: scaling moves {name}'s ECE from {before['ece']:.3f} to {after['ece']:.3f} and its "
                f"accuracy from {before['accuracy']:.3f} to {after['accuracy']:.3f}"
                + (", as it must stay." if same else " (ties broken by rounding)."),
                same,
            )
        if "ML" in by:
            ml, m = by["ML + TS"]["accuracy"], by[M_SMC]["accuracy"]
            paper = [beside(NAME, "accuracy", b.panel, name) for name in (M_SMC, "ML + TS")]
            figures = " against ".join(f"{q.value:.3f}" for q in paper if q is not None)
            yield Said(
                f"{about}: M-SMC without labels is {'more' if m > ml else 'not more'} accurate than scaled "
                f"logits ({m:.3f} against {ml:.3f}{f'; the paper: {figures}' if figures else ''}).",
                m > ml,
            )
    if not any(block["asked"] for block in b.d):
        yield f"{b.panel}: no record of asking is at hand on enough cases; only inference is scaled."


ARTEFACT = Artefact(
    title="Post-hoc calibration of a model's own confidence against inference (table S19)",
    order=460,
    measure=scores.post_hoc_calibration,
    tables=(
        Table(
            "{panel}: before and after temperature scaling",
            rows,
            (
                *keys("method | models | n"),
                Column("T", lambda row: "–" if row["temperature"] is None else f"{row['temperature']:.2f}"),
                *metrics(NAME, HEADS),
            ),
        ),
    ),
    claims=claims,
)  # fmt: skip
