"""Accepting needs evidence: labelled cases of the labels, and labelled cases of none of them.

A list of labels is never all that a text can be about. So a panel accepts an answer only where labelled cases
have shown two things: that accepted answers are right, and that at most `MOST_OUTSIDE` of cases of no label
would be accepted (the upper end of a one-sided 95 % Clopper–Pearson interval, so that 59 cases without one
accepted are enough, and 59 are needed). Else the strongest action is `likely`.

The record belongs to one bank, embedder, method, recipe and policy (`made_for`), and counts for nothing else.
`simdx policy tune --data … --ood …` writes it into the policy file. Packaged panels have theirs in
`data/evidence.json`, written by `benchmarks/packaged.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic.dataclasses import dataclass

from simdx.disk import seal_holds, sealed
from simdx.types import Mask

LEAST_INSIDE = 20
LEAST_OUTSIDE = 59  # of which none may be accepted; more, where some are
MOST_OUTSIDE = 0.05
MOST_WRONG = 0.05
LEVEL = 0.95
GIVE = "'simdx policy tune --data … --ood …'"
UNTESTED = f"no labelled outside cases; give 60 with {GIVE}"
OTHER = f"labelled cases were tried with another bank, embedder, method or policy; repeat {GIVE}"
FILE = "evidence.json"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AcceptEvidence:
    source: str  # whose cases
    inside: NonNegativeInt  # cases of the labels
    accepted: NonNegativeInt  # of them, were the evidence enough
    wrong: NonNegativeInt  # of those accepted
    outside: NonNegativeInt  # cases of no label
    outside_accepted: NonNegativeInt
    upper: Annotated[float, Field(ge=0, le=1)]  # share of outside cases that may be accepted, at most
    made_for: dict[str, str]

    @classmethod
    def counted(
        cls, accepted: Mask, wrong: Mask, outside: Mask, made_for: Mapping[str, str], source: str
    ) -> AcceptEvidence:
        """From which cases pass every limit, and which of those of the labels are answered wrongly."""
        n, k = len(outside), int(outside.sum())
        counts = len(accepted), int(accepted.sum()), int((accepted & wrong).sum()), n, k
        return cls(source, *counts, round(upper_end(k, n), 4), dict(made_for))

    def shortcomings(self) -> Iterator[str]:
        """What is missing for an answer to be accepted; nothing where the record is enough."""
        if self.inside < LEAST_INSIDE:
            yield f"only {self.inside} labelled cases of its labels, and it takes {LEAST_INSIDE}"
        elif not self.accepted:
            yield f"none of {self.inside} labelled cases of its labels passes every limit"
        elif self.wrong > MOST_WRONG * self.accepted:
            yield f"{self.wrong} of {self.accepted} labelled cases that pass every limit were wrong"
        if self.outside < LEAST_OUTSIDE:
            yield f"only {self.outside} labelled outside cases, and it takes 60; give more with {GIVE}"
        elif self.upper > MOST_OUTSIDE:
            yield (
                f"{self.outside_accepted} of {self.outside} labelled outside cases would be accepted: that "
                f"may be {100 * self.upper:.1f} % of such, and {100 * MOST_OUTSIDE:.0f} % are allowed"
            )

    def sentence(self) -> str:
        return (
            f"{self.source}: {self.accepted} of {self.inside} cases of the labels accepted, {self.wrong} of "
            f"them wrong, and {self.outside_accepted} of {self.outside} outside cases (at most "
            f"{100 * self.upper:.1f} % of such)"
        )


def upper_end(k: int, n: int) -> float:
    """Of the share that k of n show: one-sided Clopper–Pearson."""
    from scipy.stats import beta  # slow to import, and an answer does not need it

    return 1.0 if k >= n else float(beta.ppf(LEVEL, k + 1, n - k))


def file_text(records: Sequence[AcceptEvidence]) -> str:
    return json.dumps(sealed({"evidence": [asdict(one) for one in records]}), indent=1) + "\n"


def packaged(made_for: Mapping[str, str]) -> AcceptEvidence | None:
    """The shipped record that was made for exactly this."""
    return next((one for one in packaged_records() if one.made_for == dict(made_for)), None)


@cache
def packaged_records() -> tuple[AcceptEvidence, ...]:
    data = json.loads(files("simdx.decide").joinpath("data", FILE).read_text(encoding="utf-8"))
    found = data["evidence"] if seal_holds(data) else ()
    return TypeAdapter(tuple[AcceptEvidence, ...]).validate_python(found)
