"""The decision policy: every number and rule that turns an answer into an action, in one readable file.

A policy is YAML (or JSON) of numbers and rules; it holds no case text. It says where its thresholds come
from (round figures, simulated text, or a labelled file with a stated risk) and which bank, embedder and
method they were found for. `simdx policy tune` writes one, `simdx policy show` explains it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from simdx.decide.alarm import Null
from simdx.decide.evidence import AcceptEvidence
from simdx.errors import BadInput
from simdx.panels.schema import ReviewRuleFile
from simdx.rows import read_mapping
from simdx.types import NONE_OF_THESE, Panel, content_hash

# Part of a kept policy's address: another number where the same texts lead to other thresholds than before.
TUNING = 5
# Held-out texts below which a bank cannot say where limits lie: of fewer than 100 answers the 99 % quantile
# is the most extreme one, whatever it happens to be.
LEAST_HELD_OUT = 100
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=True)
Share = Annotated[float, Field(ge=0, le=1)]
Bits = Annotated[float, Field(ge=0, le=64)]


@dataclass(frozen=True, config=_STRICT)
class Thresholds:
    """Beyond which an answer is not simply accepted. None switches a threshold off."""

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
    """A guaranteed entropy threshold: null when nothing could be promised."""

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

    @field_validator("utility")
    @classmethod
    def _a_choice(cls, value: dict[str, dict[str, float]] | None) -> dict[str, dict[str, float]] | None:
        if value is not None and len(value) < 2:
            raise ValueError("a utility matrix needs at least two possible decisions")
        return value

    @model_validator(mode="after")
    def _rows_alike(self) -> Policy:
        rows = list((self.utility or {}).values())
        if any(set(row) != set(rows[0]) for row in rows):
            raise ValueError("every row of the utility matrix must name the same labels")
        return self

    def fits(self, fingerprint: Mapping[str, str]) -> bool:
        """Were the thresholds found for this bank, embedder and method?"""
        return dict(self.origin.made_for) == dict(fingerprint)

    @property
    def limits(self) -> str:
        """Identity of all that decides whether an answer is accepted; review rules only ever forbid it."""
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
    """Plain data that `check_policy` takes for the same policy."""
    data = asdict(policy) | {"review_rules": [rule.model_dump() for rule in policy.review_rules]}
    return json.loads(json.dumps(data, allow_nan=False))


def policy_text(policy: Policy) -> str:
    """The file `read_policy` reads back as the same policy."""
    import yaml

    return yaml.safe_dump(policy_data(policy), sort_keys=False, allow_unicode=True, width=110)


def _check_labels(policy: Policy, panel: Panel, where: str) -> None:
    names = set(panel.names)
    if policy.panel and policy.panel != panel.name:
        raise BadInput(f"policy {where} is for panel '{policy.panel}', not '{panel.name}'")
    sets = policy.conformal
    if sets is not None and any(set(part) != names for part in (sets.largest, sets.scores or sets.largest)):
        raise BadInput(f"policy {where}: its conformal thresholds are not for the labels of '{panel.name}'")
    if policy.utility is not None:
        for decision, row in policy.utility.items():
            if decision not in names | {"test", "review"}:
                raise BadInput(
                    f"policy {where}: utility row '{decision[:80]}' is neither a label, 'test' nor 'review'"
                )
            if not names <= set(row) <= names | {NONE_OF_THESE}:
                raise BadInput(
                    f"policy {where}: utility row '{decision[:80]}' must give a number for every label "
                    f"(and may for '{NONE_OF_THESE}')"
                )


# --------------------------------------------------------------------------- in plain words


def policy_words(policy: Policy) -> Iterator[str]:
    """One line a rule: what `simdx policy show` prints."""
    yield f"policy for {policy.panel or 'any panel'}, thresholds from {_source(policy)}"
    yield from _thresholds(policy)
    r, c = policy.risk, policy.conformal
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


def too_few(policy: Policy) -> str | None:
    """Why a policy tuned on a bank holds round figures all the same; None for every other policy."""
    origin = policy.origin
    if origin.source != "round figures" or not origin.made_for:
        return None
    few = f"tuning needs {LEAST_HELD_OUT} held-out texts of the bank, and there are {origin.n}"
    return few if origin.refuted else f"{few}, so 'accept' guarantees no error rate"


def _source(policy: Policy) -> str:
    origin = policy.origin
    if origin.source == "round figures":
        few = too_few(policy)
        return "round figures" + (f": {few}" if few else "")
    risk = "" if origin.risk is None else f", at most {origin.risk:.0%} errors"
    return f"{origin.n} {'simulated texts' if origin.source == 'simulated text' else 'labelled cases'}{risk}"


def _thresholds(policy: Policy) -> Iterator[str]:
    t, auroc = policy.thresholds, policy.origin.auroc

    def known(name: str) -> str:
        value = auroc.get(name)
        return "" if value is None else f" (AUROC for errors {value:.2f})"

    if t.out_of_class is not None:
        yield f"  review  if the probability of none of these is at least {t.out_of_class:g}"
    if t.typicality is not None:
        yield f"  review  if typicality is below {t.typicality:g}"
    if t.alarm:
        yield "  review  if independent views support the answer less than usual for a correct answer"
    if t.epistemic_bits is not None:
        yield f"  review  if epistemic uncertainty exceeds {t.epistemic_bits:g} bits{known('epistemic_bits')}"
    elif "epistemic_bits" in auroc:
        yield f"  epistemic bits are not used: they do not predict errors here{known('epistemic_bits')}"
    if policy.utility is not None:
        return
    if t.must_not_miss is not None:
        yield f"  test    if a must-not-miss label that does not lead has at least {t.must_not_miss:g}"
    if t.confident is not None:
        yield f"  test    if the leading label has less than {t.confident:g}"
    if policy.origin.refuted:
        yield "  test    always: too many confident answers to the bank's own texts were wrong"
    elif t.entropy_bits is not None:
        yield f"  test    if entropy exceeds {t.entropy_bits:g} bits{known('entropy_bits')}"
    if t.aleatoric_bits is not None:
        yield f"  test    if aleatoric uncertainty exceeds {t.aleatoric_bits:g} bits{known('aleatoric_bits')}"
