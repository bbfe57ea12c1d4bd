"""What a panel file may say. Untrusted YAML comes in here and leaves as `types.Panel`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from simdx.types import NONE_OF_THESE, Example, Label, Panel, ReviewRule

Register = Literal["clinician", "patient", "case-report", "plain", "general"]
# Stripped as Python strips, which is how labels of data files are: pydantic leaves some separators on.
Phrase = Annotated[
    str,
    BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value),
    StringConstraints(min_length=1, max_length=2000),
]

Prose = Annotated[str, AfterValidator(str.strip)]


def _as_text(value: object) -> object:
    """Clinicians write codes as bare numbers; YAML then reads an integer."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Code = Annotated[Phrase, BeforeValidator(_as_text)]


def _look(name: str) -> str:
    """What a reader sees of a name: one spelling of each character, no invisible ones, no case."""
    seen = unicodedata.normalize("NFKC", name).casefold()
    shown = (c for c in unicodedata.normalize("NFKC", seen) if unicodedata.category(c) not in ("Cf", "Cc"))
    return " ".join("".join(c for c in shown if c not in _IGNORED).split())


_IGNORED = {"\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", *map(chr, range(0xFE00, 0xFE10))}


class LabelFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Phrase
    aliases: tuple[Phrase, ...] = ()
    description: Prose = ""
    icd10: tuple[Code, ...] = ()
    snomed: tuple[Code, ...] = ()
    must_not_miss: bool = False


class ReviewRuleFile(BaseModel):
    """Phrases, or a regular expression that RE2 takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Phrase
    phrases: tuple[Phrase, ...] = ()
    pattern: str | None = None
    reason: Prose = ""

    @model_validator(mode="after")
    def _something_safe_to_look_for(self) -> ReviewRuleFile:
        if not self.phrases and not self.pattern:
            raise ValueError(f"review rule '{self.name}' has neither phrases nor a pattern")
        if self.pattern is not None and (problem := pattern_problem(self.pattern)):
            raise ValueError(f"the pattern of review rule '{self.name}' {problem}")
        return self

    def to_rule(self) -> ReviewRule:
        return ReviewRule(**self.model_dump())


class ExampleFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: Annotated[Phrase, StringConstraints(max_length=80)]
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]


class PanelFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Phrase | None = None
    title: Prose = ""
    description: Prose = ""
    register_: Register = Field("clinician", alias="register")
    embedder: Phrase = "wordllama"
    labels: tuple[LabelFile, ...]
    facets: dict[Phrase, tuple[Code, ...]] = {}
    banks: tuple[Phrase, ...] = ()
    # banks by other simulators or instructions: asked by the shared-bias alarm only, never by the answer
    witnesses: tuple[Phrase, ...] = ()
    review_rules: tuple[ReviewRuleFile, ...] = ()
    background: Phrase | None = None
    # which of the banks stand against the background when none of these is weighed; all, if none is named
    against_background: tuple[Phrase, ...] = ()
    # prior probability of another condition than the labels; that of every panel, if none is given
    none_of_these_prior: float | None = Field(default=None, gt=0, lt=1)
    # other conditions that must be thought of: a background without them is refused
    ask_about: tuple[Phrase, ...] = ()
    # whether the library's other conditions stand against the labels, beside the panel's own background
    world: bool = True
    notice: Prose = ""
    # invented texts to try the panel with; no part of the classification problem and of no hash
    examples: tuple[ExampleFile, ...] = ()

    @field_validator("labels", mode="before")
    @classmethod
    def _plain_strings_are_names(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"name": item} if isinstance(item, str) else item for item in value]

    @model_validator(mode="after")
    def _labels_are_a_choice(self) -> PanelFile:
        names = [label.name for label in self.labels]
        if len(names) < 2:
            one = f", and '{names[0][:80]}' is one: name each separately" if names and "," in names[0] else ""
            raise ValueError(f"a panel needs at least two labels{one}")
        seen: dict[str, str] = {}
        for name in names:
            look = _look(name)
            if look == NONE_OF_THESE:
                raise ValueError(f"'{name}' is an outcome of every panel already: leave it out")
            if look in seen and seen[look].casefold() == name.casefold():
                raise ValueError(f"label '{name}' occurs more than once")
            if look in seen:
                other = ascii(seen[look])
                raise ValueError(f"labels {other} and {name!a} look alike: give one another name")
            seen[look] = name
        return self

    @model_validator(mode="after")
    def _what_is_said_of_the_background_holds(self) -> PanelFile:
        if self.none_of_these_prior is not None and self.background is None:
            raise ValueError("none_of_these_prior is given, but there is no background")
        if self.against_background and self.background is None:
            raise ValueError("against_background names banks, but the panel has no background")
        for name in self.against_background:
            if name not in self.banks:
                raise ValueError(f"against_background names '{name}', which is not among the banks")
        return self

    def to_panel(self, default_name: str) -> Panel:
        same = ("title", "description", "embedder", "notice", "ask_about", "world")
        return Panel(
            name=self.name or default_name,
            register=self.register_,
            facets=dict(self.facets),
            **{name: getattr(self, name) for name in same},
            review_rules=tuple(rule.to_rule() for rule in self.review_rules),
            examples=tuple(Example(**example.model_dump()) for example in self.examples),
            labels=tuple(Label(**label.model_dump()) for label in self.labels),
        )


# --------------------------------------------------------------------------- review rules
#
# Features of the case's own words that call for a person, however sure the answer: a list of phrases, or a
# regular expression. Phrases match whole words, ignoring case and spacing. Expressions come from a file that
# may not be ours, so RE2 runs them: its time grows with the length of the text alone, whatever the
# expression. It has no back-references and no look-around; `\w`, `\d` and `\b` know ASCII letters only (`\pL`
# is any letter).


LONGEST_PATTERN = 200
LARGEST_PROGRAM = 800  # instructions of RE2; a step through the text may visit each
SCANNED = 200_000  # characters of a case that rules read


def pattern_problem(pattern: str) -> str | None:
    """Why a regular expression is refused, or None when it may be used."""
    if len(pattern) > LONGEST_PATTERN:
        return f"is over {LONGEST_PATTERN} characters"
    import re2

    try:
        if _expression(pattern).programsize > LARGEST_PROGRAM:
            return "is too large: make its repeats shorter"
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0].decode("utf-8", "replace") if isinstance(error, re2.error) else "malformed"
        return f"is not a regular expression that RE2 takes ({said})"
    return None


def matching(rules: Sequence[ReviewRule], text: str) -> list[ReviewRule]:
    """The rules a case's text meets, in their order."""
    if not rules:
        return []
    flat = " ".join(text[:SCANNED].split()).casefold().encode("utf-8", "replace").decode("utf-8")
    return [rule for rule in rules if _meets(rule, flat)]


def _meets(rule: ReviewRule, flat: str) -> bool:
    if any(_phrase(phrase).search(flat) for phrase in rule.phrases):
        return True
    return rule.pattern is not None and _expression(rule.pattern).search(flat) is not None


@lru_cache(maxsize=512)
def _phrase(phrase: str) -> re.Pattern[str]:
    words = r"\s".join(re.escape(word) for word in phrase.casefold().split())
    return re.compile(rf"(?<!\w){words}(?!\w)")


@lru_cache(maxsize=128)
def _expression(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive, options.log_errors, options.max_mem = False, False, 1 << 20
    return re2.compile(pattern, options)
