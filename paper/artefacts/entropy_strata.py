"""The paper's Table S6 (its SD, one model), here on every panel: below .5 bits, from .5 to 1.5, and above."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from paper.answers import theirs_name
from paper.cells import NONE, dagger, number
from paper.measures import errors
from paper.measures.errors import BANDS
from paper.spec import Artefact, Block, Column, Said, Table, keys
from paper.theirs import Quote, beside


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for name, bands in b.d.items():
        for band, (low, high) in BANDS.items():
            reach = f"{low:g} to {high:g}" if np.isfinite(high) else f"from {low:g}"
            about = {"panel": b.panel, "name": name, "method": theirs_name(name), "setting": band}
            yield about | {"certainty": f"{band} ({reach} bits)", **bands[band]}


def theirs(quantity: str) -> Any:
    def found(row: dict[str, Any]) -> Quote | None:
        return beside("entropy-strata", quantity, row["panel"], row["method"], setting=row["setting"])

    return lambda row: None if row["method"] is None else found(row)


def accuracy(row: dict[str, Any]) -> str:
    return number(row["accuracy"], row["ci"]) if row["n"] else NONE


def claims(b: Block) -> Iterator[Said]:
    for name, bands in b.d.items():
        known = [(band, bands[band]["accuracy"]) for band in BANDS if bands[band]["n"] >= 10]
        if len(known) > 1:
            falls = all(one[1] >= other[1] for one, other in pairwise(known))
            words = ", ".join(f"{value:.2f} where certainty is {band}" for band, value in known)
            end = "it falls with entropy." if falls else "no order."
            yield Said(f"{b.panel}, {name}: accuracy {words}: {end}", falls)


ARTEFACT = Artefact(
    title="Accuracy by band of entropy (table S6)",
    order=330,
    measure=errors.strata,
    tables=(
        Table(
            "{panel}: accuracy by band of entropy",
            rows,
            (
                *keys("method=name | certainty | n"),
                Column(
                    "share", lambda row: f"{row['share']:.1%}", theirs("share"),
                    shown=lambda q: NONE if q is None else f"{q.value:.1%}{dagger(q)}",
                ),
                Column("accuracy", accuracy, theirs("accuracy")),
                Column("entropy, bits", lambda row: f"{row['entropy_bits']:.2f}" if row["n"] else NONE),
            ),
            "Wilson intervals.",
        ),
    ),
    claims=claims,
)  # fmt: skip
