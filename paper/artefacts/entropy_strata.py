"""The paper's Table S6 (its SD, one model), here on every panel: below .5 bits, from .5 to 1.5, and above."""

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from typing import Any

from paper.answers import theirs_name
from paper.cells import NONE, number
from paper.measures import errors
from paper.measures.errors import BANDS
from paper.spec import Artefact, Block, Column, Table, keys
from paper.theirs import Quote, beside


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for name, bands in b.d.items():
        for band, (low, high) in BANDS.items():
            reach = f"{low:g} to {high:g}" if isfinite(high) else f"from {low:g}"
            yield {"name": name, "band": band, "certainty": f"{band} ({reach} bits)", **bands[band]}


def theirs(quantity: str) -> Any:
    def found(row: dict[str, Any]) -> Quote | None:
        method = theirs_name(row["name"])
        own = beside("entropy-strata", quantity, row["panel"], method, setting=row["band"])
        return own if method else None

    return found


def claims(b: Block) -> Iterator[str]:
    for name, bands in b.d.items():
        known = [(band, bands[band]["accuracy"]) for band in BANDS if bands[band]["n"] >= 10]
        if len(known) > 1:
            falls = all(one[1] >= other[1] for one, other in pairwise(known))
            words = ", ".join(f"{value:.2f} where certainty is {band}" for band, value in known)
            end = "it falls with entropy." if falls else "no order."
            yield f"{b.panel}, {name}: accuracy {words}: {end}"


ARTEFACT = Artefact(
    "Accuracy by band of entropy (table S6)", 330, errors.strata,
    tables=(
        Table("{panel}: accuracy by band of entropy", rows,
              (*keys("method=name | certainty | n"),
               Column("share", lambda r: f"{r['share']:.1%}", theirs("share"), shown=lambda q: f"{q.value:.1%}"),
               Column("accuracy", lambda r: number(r["accuracy"], r["ci"]) if r["n"] else NONE,
                      theirs("accuracy")),
               Column("entropy, bits", lambda r: f"{r['entropy_bits']:.2f}" if r["n"] else NONE)),
              "Wilson intervals."),
    ),
    claims=claims,
)
