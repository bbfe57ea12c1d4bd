"""The decision policy: every number and rule that turns an answer into an action, in one readable file.

A policy is YAML (or JSON) of numbers and rules; it holds no case text. It says where its thresholds come from
(round figures, simulated text, or a labelled file with a stated risk) and which bank, embedder and method
they were found for. `simdx policy tune` writes one, `simdx policy show` explains it.

Accepting needs evidence, because a text can be about something outside the list of labels. Labelled cases
must have shown that accepted answers are right, and that at most `MOST_OUTSIDE` of outside cases would be
accepted (the upper end of a one-sided 95 % Clopper–Pearson interval: at least 59 cases are needed, and 59 are
enough if none is accepted). Otherwise the strongest action is `likely`.

Where too many outside cases pass every check, the record sets a limit: an answer is accepted only where none
of these has less than that probability. The limit is chosen on the outside cases, so each fifth of them is
counted under the limit from the other four fifths. The limit aims at `AIM` of the allowed number, because
the count under the other limits may be higher. The record is valid for one bank, embedder, method, recipe
and policy (`made_for`) only. Those of packaged panels are in `data/evidence.json`, written by
`benchmarks/packaged.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import field as dataclass_field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass

from simdx.decide.alarm import Null
from simdx.disk import seal_holds
from simdx.errors import BadInput
from simdx.panels.schema import ReviewRuleFile
from simdx.rows import read_mapping
from simdx.types import NONE_OF_THESE, Float, Mask, Panel, content_hash

# Part of a cached policy's address; raised when the same texts lead to other thresholds than before.
TUNING = 5
# Held-out texts that setting limits needs: the 99 % quantile of fewer than 100 answers is the most extreme
# answer, whatever it is.
LEAST_HELD_OUT = 100
LEAST_INSIDE = 20
LEAST_OUTSIDE = 59  # if none of them is accepted; more are needed otherwise
MOST_OUTSIDE = 0.05
MOST_WRONG = 0.05
LEVEL = 0.95
AIM = 0.9  # a limit is set for this share of the outside cases that may pass
FOLDS = 5
GIVE = "'simdx policy tune --data … --ood …'"
UNTESTED = f"no labelled outside cases (texts of none of the labels); give 60 with {GIVE}"
OTHER = f"labelled cases were tried with another bank, embedder, method or policy; repeat {GIVE}"
FILE = "evidence.json"

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=True)
Share = Annotated[float, Field(ge=0, le=1)]
Bits = Annotated[float, Field(ge=0, le=64)]


def none_limit(tried: Float) -> float | None:
    """The limit on the probability of none of these at which few enough of these outside cases pass; None if
    few enough pass without a limit, or if no limit helps.

    `tried` is the probability of none of these for a case that passes every check on the answer itself (−∞
    if it is not estimated), and ∞ for any other case.
    """
    most, passed = most_allowed(len(tried)), np.sort(tried[tried < np.inf])
    if most < 0 or len(passed) <= most:
        return None
    limit = float(passed[int(AIM * most)])
    return None if limit < 0 else limit


@dataclass(frozen=True, config=_STRICT)
class AcceptEvidence:
    """What labelled cases showed of accepting."""

    source: str  # whose cases
    inside: NonNegativeInt  # cases of the labels
    accepted: NonNegativeInt  # of them, if the evidence is enough
    wrong: NonNegativeInt  # of those accepted
    outside: NonNegativeInt  # cases of no label
    outside_accepted: NonNegativeInt
    upper: Share  # upper end for the share of outside cases that are accepted
    made_for: dict[str, str]
    # An accepted answer has less than this for none of these; None: no limit is needed.
    none_limit: Share | None = None

    @classmethod
    def counted(
        cls, inside: Float, wrong: Mask, outside: Float, made_for: Mapping[str, str], source: str
    ) -> AcceptEvidence:
        """Counts of cases that pass every check (as in `none_limit`) and of wrong answers."""
        limit, n = none_limit(outside), len(outside)
        accepted, k = inside < (np.inf if limit is None else limit), int((outside < np.inf).sum())
        if limit is not None:  # each fifth under the limit of the others
            fold, k = np.arange(n) % FOLDS, 0
            for f in range(FOLDS):
                other = none_limit(outside[fold != f])
                k += int((outside[fold == f] < (np.inf if other is None else other)).sum())
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
        most = self.none_limit
        limit = "" if most is None else f", where none of these has less than {most:.2g}"
        return (
            f"{self.source}: {self.accepted} of {self.inside} cases of the labels accepted, {self.wrong} of "
            f"them wrong, and {self.outside_accepted} of {self.outside} outside cases (at most "
            f"{100 * self.upper:.1f} % of such){limit}"
        )

    def beyond(self, none: float | None) -> str | None:
        """Why an answer with this probability of none of these is not accepted; None if it may be."""
        if self.none_limit is None or none is None or none < self.none_limit:
            return None
        return (
            f"none of these has {100 * none:.2g} %, and the labelled outside cases support accepting "
            f"below {100 * self.none_limit:.2g} %"
        )


def upper_end(k: int, n: int) -> float:
    """Upper end of the one-sided Clopper–Pearson interval for k of n."""
    from scipy.stats import beta  # slow to import, and an answer does not need it

    return 1.0 if k >= n else float(beta.ppf(LEVEL, k + 1, n - k))


def most_allowed(n: int) -> int:
    """How many of n outside cases may pass; −1 if n is too small."""
    return next(k for k in range(n + 1) if upper_end(k, n) > MOST_OUTSIDE) - 1


@cache
def packaged_records() -> tuple[AcceptEvidence, ...]:
    data = json.loads(files("simdx.decide").joinpath("data", FILE).read_text(encoding="utf-8"))
    found = data["evidence"] if seal_holds(data) else ()
    return TypeAdapter(tuple[AcceptEvidence, ...]).validate_python(found)


# --------------------------------------------------------------------------- the policy


@dataclass(frozen=True, config=_STRICT)
class Thresholds:
    """Limits beyond which an answer is not accepted. None switches a limit off."""

    confident: Share | None = 0.75  # less mass on the leading label: test
    entropy_bits: Bits | None = None  # more: test
    aleatoric_bits: Bits | None = None  # more: test
    epistemic_bits: Bits | None = None  # more: review
    typicality: Share | None = 0.01  # less: review
    out_of_class: Share | None = 0.5  # at least: review
    must_not_miss: Share | None = 0.10  # at least, on a must-not-miss label that does not lead: test
    alarm: bool = True  # raised: review


@dataclass(frozen=True, config=_STRICT)
class AlarmFile:
    """The alarm's numbers: bandwidth of every view and the scores of correct simulated answers."""

    rate: Share
    bandwidths: dict[str, Annotated[float, Field(gt=0)]]
    nulls: Annotated[tuple[Null, ...], Field(min_length=1)]
    own: bool = True  # the score holds the answer's own log odds


@dataclass(frozen=True, config=_STRICT)
class ConformalFile:
    """Per label the largest score (one minus probability) inside the set; null: always inside."""

    kind: Literal["split", "class-conditional"]
    level: Share
    largest: dict[str, FiniteFloat | None]
    n: PositiveInt
    scores: dict[str, tuple[FiniteFloat, ...]] | None = None  # of each label: sets at another prior


@dataclass(frozen=True, config=_STRICT)
class RiskFile:
    """A guaranteed entropy threshold; null when nothing could be guaranteed."""

    target: Share
    confidence: Share
    entropy_bits: Bits | None
    n: PositiveInt
    accepted: int
    errors: int


@dataclass(frozen=True, config=_STRICT)
class Origin:
    """Where the thresholds come from, and what they were found for."""

    source: Literal["round figures", "simulated text", "labelled cases"] = "round figures"
    n: int = 0
    risk: Share | None = None
    made_for: dict[str, str] = dataclass_field(default_factory=dict)
    auroc: dict[str, float | None] = dataclass_field(default_factory=dict)  # of each kind of bits, for errors
    refuted: bool = False  # too many confident answers to the bank's own texts were wrong: always test


@dataclass(frozen=True, config=_STRICT)
class Policy:
    format: Literal[1] = 1
    panel: str = ""
    origin: Origin = dataclass_field(default_factory=Origin)
    thresholds: Thresholds = dataclass_field(default_factory=Thresholds)
    review_rules: tuple[ReviewRuleFile, ...] = ()
    utility: dict[str, dict[str, FiniteFloat]] | None = None
    alarm: AlarmFile | None = None
    conformal: ConformalFile | None = None
    risk: RiskFile | None = None
    evidence: AcceptEvidence | None = None  # what labelled cases showed of accepting under these limits

    @model_validator(mode="after")
    def _a_choice(self) -> Policy:
        rows = list((self.utility or {}).values())
        if len(rows) == 1 or self.utility == {}:
            raise ValueError("a utility matrix needs at least two possible decisions")
        if any(set(row) != set(rows[0]) for row in rows):
            raise ValueError("every row of the utility matrix must name the same labels")
        return self

    def fits(self, fingerprint: Mapping[str, str]) -> bool:
        """Were the thresholds found for this bank, embedder and method?"""
        return dict(self.origin.made_for) == dict(fingerprint)

    @property
    def limits(self) -> str:
        """Identity of everything that can permit acceptance; review rules can only forbid it."""
        data = policy_data(self)
        names = ("thresholds", "utility", "alarm", "conformal", "risk")
        return content_hash(json.dumps([data[name] for name in names], sort_keys=True))[:16]


def read_policy(path: str | Path, panel: Panel | None = None) -> Policy:
    """A policy file, checked; and checked against the panel's labels where one is given."""
    path = Path(path)
    data = read_mapping(path, "policy", "start it with 'thresholds:'")
    return check_policy(data, path.name, panel)


def check_policy(data: Any, where: str, panel: Panel | None = None) -> Policy:
    try:
        policy = TypeAdapter(Policy).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise BadInput(f"policy {where}: {place + ': ' if place else ''}{message}") from None
    if panel is not None:
        _check_labels(policy, panel, where)
    return policy


def policy_data(policy: Policy) -> Any:
    """Plain data from which `check_policy` makes the same policy."""
    data = asdict(policy) | {"review_rules": [rule.model_dump() for rule in policy.review_rules]}
    return json.loads(json.dumps(data, allow_nan=False))


def policy_text(policy: Policy) -> str:
    """The text of a file that `read_policy` reads back as the same policy."""
    import yaml

    return yaml.safe_dump(policy_data(policy), sort_keys=False, allow_unicode=True, width=110)


def _check_labels(policy: Policy, panel: Panel, where: str) -> None:
    names = set(panel.names)
    if policy.panel and policy.panel != panel.name:
        raise BadInput(f"policy {where} is for panel '{policy.panel}', not '{panel.name}'")
    sets = policy.conformal
    if sets is not None and any(set(part) != names for part in (sets.largest, sets.scores or sets.largest)):
        raise BadInput(f"policy {where}: its conformal thresholds are not for the labels of '{panel.name}'")
    for decision, row in (policy.utility or {}).items():
        place = f"policy {where}: utility row '{decision[:80]}'"
        if decision not in names | {"test", "review"}:
            raise BadInput(f"{place} is neither a label, 'test' nor 'review'")
        if not names <= set(row) <= names | {NONE_OF_THESE}:
            raise BadInput(f"{place} must give a number for every label (and may for '{NONE_OF_THESE}')")


# --------------------------------------------------------------------------- in plain words


def policy_words(policy: Policy) -> Iterator[str]:
    """The lines that `simdx policy show` prints, one for each rule."""
    t, r, c, origin = policy.thresholds, policy.risk, policy.conformal, policy.origin
    yield f"policy for {policy.panel or 'any panel'}, thresholds from {_source(policy)}"
    tells = {name: "" if v is None else f" (AUROC for errors {v:.2f})" for name, v in origin.auroc.items()}
    of_entropy, of_aleatoric, of_epistemic = (
        tells.get(f"{kind}_bits", "") for kind in ("entropy", "aleatoric", "epistemic")
    )
    limits = [
        (t.out_of_class, "review  if the probability of none of these is at least {:g}"),
        (
            t.typicality,
            "review  if under {:g} of all simulated texts are as unusual as the text (typicality)",
        ),
        (
            t.alarm or None,
            "review  if independent views support the answer less than usual for a correct one",
        ),
        (t.epistemic_bits, "review  if epistemic uncertainty exceeds {:g} bits" + of_epistemic),
    ]
    if policy.utility is None:
        limits += [
            (t.must_not_miss, "test    if a must-not-miss label that does not lead has at least {:g}"),
            (t.confident, "test    if the leading label has less than {:g}"),
            (None if origin.refuted else t.entropy_bits, "test    if entropy exceeds {:g} bits" + of_entropy),
            (t.aleatoric_bits, "test    if aleatoric uncertainty exceeds {:g} bits" + of_aleatoric),
        ]
    for limit, said in limits:
        if limit is not None:
            yield "  " + said.format(limit)
    if t.epistemic_bits is None and "epistemic_bits" in tells:
        yield f"  epistemic bits are not used: they do not predict errors here{of_epistemic}"
    if origin.refuted and policy.utility is None:
        yield "  test    always: too many confident answers to the bank's own texts were wrong"
    if r is not None and r.entropy_bits is None:
        yield f"  test    always: no threshold keeps errors under {r.target:.0%} on {r.n} cases"
    elif r is not None:
        yield (
            f"  test    if entropy exceeds {r.entropy_bits:.2f} bits: below it at most "
            f"{r.target:.0%} errors, with {r.confidence:.0%} confidence "
            f"({r.errors} of {r.accepted} accepted were wrong)"
        )
    if c is not None:
        yield (
            f"  test    if the {c.level:.0%} conformal set ({c.kind}, from {c.n} cases) does not hold "
            "exactly one label"
        )
    if policy.evidence is None:
        yield "  likely  is the strongest decision: no labelled inside and outside cases support 'accept'"
    else:
        yield f"  accept  on the evidence of {policy.evidence.sentence()}"
    for rule in policy.review_rules:
        yield f"  review  if the text matches the rule '{rule.name}'"
    if policy.utility is not None:
        yield "  utility matrix: the decision of largest expected utility replaces thresholds on the answer"
        for decision, row in policy.utility.items():
            yield f"    {decision}: " + ", ".join(f"{label} {value:g}" for label, value in row.items())


def _source(policy: Policy) -> str:
    origin = policy.origin
    if origin.source == "round figures":
        few = too_few(policy)
        return "round figures" + (f": {few}" if few else "")
    risk = "" if origin.risk is None else f", at most {origin.risk:.0%} errors"
    return f"{origin.n} {'simulated texts' if origin.source == 'simulated text' else 'labelled cases'}{risk}"


def too_few(policy: Policy) -> str | None:
    """Why a policy tuned on a bank still holds the default thresholds; None for every other policy."""
    origin = policy.origin
    if origin.source != "round figures" or not origin.made_for:
        return None
    few = f"tuning needs {LEAST_HELD_OUT} held-out texts of the bank, and there are {origin.n}"
    return few if origin.refuted else f"{few}, so 'accept' guarantees no error rate"
