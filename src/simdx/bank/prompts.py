"""The words a simulator is asked in, per register. Changing any of them changes every content address.

Two voices. The full one gives the condition's name (not to be repeated), its features and every facet,
which a capable model can follow. The short one is for models of a few hundred million parameters, which
blurt out a name they were told to keep, imitate long instructions instead of following them, and wander:
it keeps the name back, asks for one thing, and puts the first words in the model's mouth, with one of the
label's features among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simdx.bank.scrub import name_pattern
from simdx.types import Label

MAX_TOKENS = {"clinician": 160, "case-report": 420, "patient": 90, "plain": 120, "general": 120}


@dataclass(frozen=True, slots=True)
class Wording:
    """What is asked, and how the text shall begin."""

    prompt: str
    opening: str


# --------------------------------------------------------------------------- the full voice

_TASK = {
    "clinician": "Write {style} about {who} seen in {setting}.",
    "case-report": "Write {style}, as in a medical journal, about {who} seen in {setting}.",
    "patient": "You are {who} telling a doctor what is wrong with you. Use {style}.",
    "plain": "Describe the complaints of {who} in {style}.",
    "general": "Write a message in {style}, as somebody would who has this at heart.",
}
_DEFAULTS = {
    "clinician": {"style": "a short clinic note", "who": "a patient", "setting": "a clinic"},
    "case-report": {"style": "a case description", "who": "a patient", "setting": "a hospital"},
    "patient": {"style": "everyday words", "who": "a patient"},
    "plain": {"style": "short sentences", "who": "a patient"},
    "general": {"style": "everyday words"},
}
_LENGTH = {
    "clinician": "Write four or five sentences in one paragraph: complaint, history, examination.",
    "case-report": (
        "Write eight to ten sentences in one paragraph: complaint, history, examination, tests with values, "
        "treatment and how it ended."
    ),
    "patient": "Write two or three sentences in the first person about what you feel and since when.",
    "plain": "Write three or four sentences in one paragraph.",
    "general": "Write three or four sentences in one paragraph.",
}
_SAY_NOT = "Do not name the disease; give no diagnosis, no heading, no list and no advice."
_SAY_NOT_GENERAL = "Do not name the subject; give no heading, no list and no advice."
# Facets a sentence below speaks of; a panel's own facets are listed as they are.
_SPOKEN = ("style", "who", "setting", "duration", "severity", "course", "focus")


def full_wording(register: str, label: Label, facets: Mapping[str, str]) -> Wording:
    """The request for one description of a label, for a model that can follow instructions."""
    features = label.description.strip().rstrip(".")
    topic = _topic(register, label.name)
    return _full(register, f"{topic} It means: {features}." if features else topic, facets)


def background_wording(register: str, condition: str, facets: Mapping[str, str]) -> Wording:
    """The request for one description of a condition outside the panel."""
    return _full(register, _topic(register, condition), facets)


def _topic(register: str, name: str) -> str:
    noun = "The subject" if register == "general" else "The condition behind it"
    return f"{noun}, which you must not name, is {name}."


def _full(register: str, topic: str, facets: Mapping[str, str]) -> Wording:
    sentences = [_TASK[register].format(**{**_DEFAULTS[register], **facets}), topic]
    if "course" in facets:
        shown = "example" if register == "general" else "presentation"
        sentences.append(f"The {shown} is {facets['course']}.")
    if "severity" in facets:
        sentences.append(f"It is {facets['severity']}.")
    if "duration" in facets:
        sentences.append(f"It has been there {facets['duration']}.")
    if "focus" in facets:
        sentences.append(f"Say most about {facets['focus']}.")
    fitting = "subject" if register == "general" else "condition"
    sentences += [f"If it fits the {fitting}, {k}: {v}." for k, v in facets.items() if k not in _SPOKEN]
    sentences += [_LENGTH[register], _SAY_NOT_GENERAL if register == "general" else _SAY_NOT]
    opening = _capital(facets["who"]) if register in ("clinician", "case-report") and "who" in facets else ""
    return Wording(" ".join(sentences), opening)


# --------------------------------------------------------------------------- the short voice

_SHORT = {
    "clinician": "Write a doctor's note of four short sentences about a patient with this problem: {topic}.",
    "case-report": "Write a medical case report in one paragraph about a patient with this problem: {topic}.",
    "patient": "Write what a patient tells the doctor, in the first person, in three short sentences. "
    "The patient has: {topic}.",
    "plain": "Describe in four short sentences what a person with this problem feels: {topic}.",
    "general": "Write a message of three short sentences about this: {topic}.",
}
_SHORT_OPENING = {
    "clinician": "{Who} has had {feature} {duration}. The examination shows",
    "case-report": "{Who} presented with {feature}, which had been there {duration}. The examination showed",
    "patient": "{Duration} I have had {feature}",
    "plain": "{Duration} there has been {feature}",
    "general": "{Duration} {feature}",
}


def short_wording(register: str, label: Label, facets: Mapping[str, str]) -> Wording:
    """The request for one description of a label, for a small model."""
    return _short(register, label.description.strip().rstrip(".") or label.name, facets)


def short_background_wording(register: str, condition: str, facets: Mapping[str, str]) -> Wording:
    return _short(register, condition, {k: v for k, v in facets.items() if k != "feature"})


def _short(register: str, topic: str, facets: Mapping[str, str]) -> Wording:
    prompt = _SHORT[register].format(topic=topic[:1].lower() + topic[1:])
    if "feature" not in facets:
        if register == "general":
            return Wording(prompt, "")
        opening = "I have" if register == "patient" else "The patient has"
        if "who" in facets and register != "patient":
            opening = f"{_capital(facets['who'])} has"
        return Wording(prompt, opening)
    duration, who = facets.get("duration", "for some time"), facets.get("who", "a patient")
    opening = _SHORT_OPENING[register].format(
        Who=_capital(who), feature=facets["feature"], duration=duration, Duration=_capital(duration)
    )
    return Wording(prompt, opening)


_DANGLING = re.compile(
    r"(?:usually|often|mostly|sometimes|worse|over|with|without|in|on|at|to|by|behind|after|that|which|retained|found)\b"
    r"|(?:a|an|the|new) \w+$|(?:any|its|floor|changing) |weeks to|.* behind it$"
)


def features_of(label: Label) -> tuple[str, ...]:
    """The label's description cut into single findings, to be given out one per request.

    Pieces that name the label or cannot follow "has had" (such as "worse at night") are left out.
    """
    names = name_pattern((label.name, *label.aliases))
    parts = re.split(r"[:;,.()]|\bor\b|\band\b", label.description)
    tidy = [re.sub(r"\s+", " ", part).strip() for part in parts]
    lowered = (part[:1].lower() + part[1:] for part in tidy)
    return tuple(
        part
        for part in lowered
        if 2 <= len(part.split()) <= 9 and not _DANGLING.match(part) and not (names and names.search(part))
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
