"""Accepting needs evidence: labelled cases of the labels, and labelled cases of none of them.

A list of labels is never all that a text can be about. So a panel accepts an answer only where labelled cases
have shown two things: that accepted answers are right, and that at most `MOST_OUTSIDE` of cases of no label
would be accepted (the upper end of a one-sided 95 % Clopper–Pearson interval, so that 59 cases without one
accepted are enough, and 59 are needed). Else the strongest action is `likely`.

Where too many outside cases pass every check, the record sets a limit: an answer is accepted only where none
of these has less than that probability. The limit is chosen on the outside cases, so each fifth of them is
counted under the limit of the other four. It is drawn for `AIM` of what would be allowed, because the count
may be worse.

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
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic.dataclasses import dataclass

from simdx.disk import seal_holds, sealed
from simdx.types import Float, Mask

LEAST_INSIDE = 20
LEAST_OUTSIDE = 59  # of which none may be accepted; more, where some are
MOST_OUTSIDE = 0.05
MOST_WRONG = 0.05
LEVEL = 0.95
AIM = 2 / 3  # of the outside cases that may pass, those that a limit is drawn for
FOLDS = 5
GIVE = "'simdx policy tune --data … --ood …'"
UNTESTED = f"no labelled outside cases; give 60 with {GIVE}"
OTHER = f"labelled cases were tried with another bank, embedder, method or policy; repeat {GIVE}"
FILE = "evidence.json"


class Tried(NamedTuple):
    """Cases under every check on the answer itself."""

    passed: Mask  # (n,)
    none: Float | None  # (n,) probabilities of none of these; None: not weighed

    @property
    def passes(self) -> int:
        return int(self.passed.sum())

    def at(self, rows: Mask) -> Tried:
        return Tried(self.passed[rows], None if self.none is None else self.none[rows])

    def limit(self) -> float | None:
        """The probability of none of these below which few enough of these outside cases pass; None where few
        enough pass anyway, or nothing can be limited."""
        most = most_allowed(len(self.passed))
        if self.none is None or most < 0 or self.passes <= most:
            return None
        return float(np.sort(self.none[self.passed])[int(AIM * most)])

    def under(self, limit: float | None) -> Mask:
        """(n,) those that pass with less than this probability of none of these."""
        return self.passed if limit is None or self.none is None else self.passed & (self.none < limit)

    def passed_under_others(self) -> int:
        """How many pass where each fifth is under the limit of the others."""
        fold = np.arange(len(self.passed)) % FOLDS
        return sum(int(self.at(fold == f).under(self.at(fold != f).limit()).sum()) for f in range(FOLDS))


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
    # Accepted answers give none of these less than this; None: no limit is needed.
    none_limit: Annotated[float, Field(ge=0, le=1)] | None = None

    @classmethod
    def counted(
        cls, inside: Tried, wrong: Mask, outside: Tried, made_for: Mapping[str, str], source: str
    ) -> AcceptEvidence:
        """From which cases pass every check, and which of those of the labels are answered wrongly."""
        limit = outside.limit()
        accepted = inside.under(limit)
        n, k = len(outside.passed), outside.passed_under_others() if limit is not None else outside.passes
        counts = len(accepted), int(accepted.sum()), int((accepted & wrong).sum()), n, k
        return cls(source, *counts, round(upper_end(k, n), 4), dict(made_for), limit)

    def shortcomings(self) -> Iterator[str]:
        """What is missing for an answer to be accepted; nothing where the record is enough."""
        if self.inside < LEAST_INSIDE:
            yield f"only {self.inside} labelled cases of its labels; the minimum is {LEAST_INSIDE}"
        elif not self.accepted:
            yield f"none of {self.inside} labelled cases of its labels passes every limit"
        elif self.wrong > MOST_WRONG * self.accepted:
            yield f"{self.wrong} of {self.accepted} labelled cases that passed every check were wrong"
        if self.outside < LEAST_OUTSIDE:
            yield f"only {self.outside} labelled outside cases; the minimum is 60; give more with {GIVE}"
        elif self.upper > MOST_OUTSIDE:
            yield (
                f"{self.outside_accepted} of {self.outside} labelled outside cases would be accepted: that "
                f"may be {100 * self.upper:.1f} % of such cases, and the limit is {100 * MOST_OUTSIDE:.0f} %"
            )

    def sentence(self) -> str:
        limit = (
            "" if self.none_limit is None else f", where none of these has less than {self.none_limit:.2g}"
        )
        return (
            f"{self.source}: {self.accepted} of {self.inside} cases of the labels accepted, {self.wrong} of "
            f"them wrong, and {self.outside_accepted} of {self.outside} outside cases (at most "
            f"{100 * self.upper:.1f} % of such){limit}"
        )

    def beyond(self, none: float | None) -> str | None:
        """Why an answer is not accepted that gives none of these this probability."""
        if self.none_limit is None or none is None or none < self.none_limit:
            return None
        return (
            f"none of these has {100 * none:.2g} %, and the labelled outside cases support accepting "
            f"below {100 * self.none_limit:.2g} %"
        )


def upper_end(k: int, n: int) -> float:
    """Of the share that k of n show: one-sided Clopper–Pearson."""
    from scipy.stats import beta  # slow to import, and an answer does not need it

    return 1.0 if k >= n else float(beta.ppf(LEVEL, k + 1, n - k))


def most_allowed(n: int) -> int:
    """Of n outside cases, how many may pass; −1 where n are too few."""
    return next(k for k in range(n + 1) if upper_end(k, n) > MOST_OUTSIDE) - 1


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
