"""The ways a condition presents, chosen per request so that a bank covers them.

Left alone, a language model describes the textbook case over and over. A facet is one way in which
presentations differ (who, how long, how severe, where seen, which finding, typical or not); every
request of a label draws one value of each. The draw is stratified: over any run of requests each value
of a facet comes up as often as its share says, in an order of its own per label, so that rare but
decisive features appear even in a small bank. It depends on the label and the index alone, never on
what was answered before.

Shares matter: a bank is a sample of what is seen, and one that gives every rarity an equal place is a
sample of something else. So the typical presentation keeps half of the requests.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from simdx.types import Panel, content_hash

Facets = Mapping[str, tuple[str, ...]]

# A value written twice has twice the share.
_WHO = (
    "a 4-year-old boy",
    "a 9-year-old girl",
    "a 17-year-old boy",
    "a 22-year-old woman",
    "a 28-year-old man",
    "a 33-year-old woman",
    "a 38-year-old man",
    "a 45-year-old woman",
    "a 49-year-old man",
    "a 54-year-old woman",
    "a 58-year-old man",
    "a 63-year-old woman",
    "a 67-year-old man",
    "a 72-year-old woman",
    "a 79-year-old man",
    "an 86-year-old woman",
)
_DURATION = (
    "since this morning",
    "for two days",
    "for about a week",
    "for two weeks",
    "for six weeks",
    "for three months",
    "for half a year",
    "for more than a year, on and off",
)
_SEVERITY = ("mild", "moderate", "moderate", "severe")
_COURSE = (
    "typical",
    "typical",
    "typical",
    "typical",
    "typical",
    "early, with few signs so far",
    "early, with few signs so far",
    "atypical, easily taken for something else",
    "atypical, easily taken for something else",
    "complicated or advanced",
)
_FOCUS = (
    "how it began",
    "what it feels like",
    "what can be seen",
    "what makes it better or worse",
    "how it changed over time",
    "what came along with it",
    "the effect on daily life",
    "what was tried against it",
)
_SETTING = {
    "clinician": ("a general practice", "a specialist clinic", "an emergency department", "a hospital ward"),
    "case-report": (
        "an emergency department",
        "an outpatient clinic",
        "an intensive care unit",
        "a surgical ward",
    ),
    "patient": ("at home", "at work", "while travelling", "during the night"),
    "plain": ("at home", "in a clinic", "in a hospital"),
}
_STYLE = {
    "clinician": (
        "a short clinic note",
        "a referral letter",
        "a note dictated in a hurry",
        "a careful narrative",
    ),
    "case-report": ("a concise case description", "a detailed case description"),
    "patient": (
        "everyday words",
        "everyday words",
        "short, blunt sentences",
        "worried and detailed",
        "matter-of-fact",
    ),
    "plain": ("short sentences", "a flowing paragraph"),
    "general": ("everyday words", "short, blunt sentences", "polite and detailed", "a hurry, with few words"),
}
# Texts that are not about illness have no patient, no severity, no duration and no place where one is seen.
_GENERAL_FOCUS = (
    "what happened",
    "how it began",
    "what was tried",
    "what is wanted now",
    "what it led to",
    "who else is concerned",
)
_GENERAL_COURSE = ("typical", "typical", "typical", "unusual, easily taken for something else")
_GENERAL_LENGTH = ("one short sentence", "one sentence", "two or three sentences", "four sentences")
# Where only the kind of text is known, nothing that makes texts differ is, but for how they begin.
_INITIALS = tuple("ABCDEFGHIKLMNOPRSTUVWY")


def generic_facets(panel: Panel) -> Facets:
    """The built-in list for a panel's register."""
    register = panel.register
    if register == "general" and panel.description:
        return {"course": _GENERAL_COURSE, "initial": _INITIALS}
    if register == "general":
        return {
            "course": _GENERAL_COURSE,
            "focus": _GENERAL_FOCUS,
            "style": _STYLE["general"],
            "length": _GENERAL_LENGTH,
        }
    return {
        "who": _WHO,
        "duration": _DURATION,
        "severity": _SEVERITY,
        "course": _COURSE,
        "focus": _FOCUS,
        "setting": _SETTING.get(register, _SETTING["plain"]),
        "style": _STYLE.get(register, _STYLE["plain"]),
    }


def facets_of(panel: Panel) -> Facets:
    """The generic list; a facet the panel names replaces its namesake or joins the others."""
    return {**generic_facets(panel), **{name: tuple(v) for name, v in panel.facets.items() if v}}


def choose(facets: Facets, stratum: str, index: int) -> dict[str, str]:
    """The values request `index` of a stratum (a label, or a background condition) draws."""
    return {name: _stratified(values, f"{stratum}\x1f{name}", index) for name, values in facets.items()}


def _stratified(values: tuple[str, ...], stream: str, index: int) -> str:
    """Every run of len(values) consecutive indices holds each value once, in its own shuffled order."""
    cycle, place = divmod(index, len(values))
    order = list(range(len(values)))
    random.Random(content_hash("facet", stream, str(cycle))).shuffle(order)
    return values[order[place]]
