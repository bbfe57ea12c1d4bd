"""Whether a text is in the language that banks and embedders cover, told by its commonest words."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
ENOUGH_WORDS = 6  # fewer say nothing of a language
LEAST_SHARE = 0.08  # of function words in English; terse notes have about .15, other languages below .05

# Function words that are rare in other languages that use the Latin alphabet, and words of triage notes.
_WORDS_OF_ENGLISH = """
    the of and to is was with that my for it on are this have has had been not but she his her at from which
    by be they you when after since because no yes does do did there their very feel feels any all can would
    about what some also pain left right days day history patient pt denies noted normal without neck head
    hand foot finger knee ankle fell hit old year states went while where will your how who
"""
_ENGLISH = frozenset(_WORDS_OF_ENGLISH.split())


def is_english(text: str) -> bool:
    """Whether the text reads as English; a text of few words is taken for it where most of them are ASCII."""
    words = _WORDS.findall(text[:600].lower())
    if not words:
        return True
    latin = sum(word.isascii() for word in words) / len(words)
    if len(words) < ENOUGH_WORDS:
        return latin > 0.5
    known = sum(word in _ENGLISH for word in words) / len(words)
    return known >= LEAST_SHARE and latin > 0.8
