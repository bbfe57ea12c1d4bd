"""Which simulated texts may enter a bank, and why the others may not.

The method learns from a bank's words. A text that names a label would teach the name; a refusal, a remark
about the task or a loop teaches nothing; a copy counts one text twice. Only white space, quotation marks and
a last sentence cut off by the token limit are corrected here: a text is usable, or it is rejected with a
reason and stored separately.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from simdx.types import Label, Panel

SHORTEST = {"patient": 8, "plain": 10, "general": 5, "clinician": 18, "case-report": 40}  # words
DUPLICATE_OVERLAP = 0.6  # Jaccard overlap of word triples at which two texts are one
REPEATED_SHARE = 0.25  # share of word triples that repeat an earlier one at which a text is a loop

_REFUSAL = re.compile(
    r"\b(i(?:'m| am) sorry,? (?:but|i)|i (?:cannot|can't|can not|am unable to|won't) "
    r"(?:help|assist|provide|write|comply|fulfil)|as an ai\b|ai (?:language )?(?:model|assistant)|"
    r"language model|"
    # A chatbot that speaks of itself; a person's text may well be about one, or be by an assistant.
    r"as an? (?:\w+ )?(?:chat ?bot|bot|llm)\b,? (?:i|my)\b|"
    r"as an? (?:(?:helpful|digital|online|automated) )?(?:virtual )?assistant,? i "
    r"(?:have no|am not able|(?:do not|don't|cannot|can't) (?:have|own|feel|experience|provide|generate))\b|"
    r"as an? (?:virtual|digital|automated) assistant\b|"
    r"\bi(?:'m| am) (?:just |only |merely )?an? (?:\w+ )?(?:chat ?bot|llm|virtual assistant|ai)\b)",
    re.I,
)
_META = re.compile(
    r"(^\s*(?:sure|certainly|of course|okay|here is|here's|here are|note:|title:|dear )|"
    r"\bas requested\b|\bhere(?:'s| is) (?:a|the|your|my)\b|"
    r"\bthe (?:following|above) (?:is|note|text|story|description|paragraph|example|sentence)|"
    r"\bthis (?:note|story|text|paragraph|description|narrative|scenario|sentence|example|prompt)\b|"
    r"\bin this (?:note|story|text|scenario|example|description)\b|\bthe prompt\b|\bword count\b|"
    r"\b(?:no|without a) heading|\bno advice\b|\bnot name the disease|\bmust not name\b|\bfirst person\b|"
    r"\bshort sentences\b|\[[a-z' ]+\]|<[a-z_|/]+>|^\s*#|\*\*|^\s*(?:[-*•]|\d+[.)])\s)",
    re.I | re.M,
)
_TELL_TALE = re.compile(
    r"(\b(?:is|was|been|being|were|am|are|got) (?:later |recently |then |finally |not )?diagnosed\b|"
    r"\bdiagnosed (?:with|as)\b|\b(?:the|a|his|her|my|final|confirmed) diagnosis (?:is|was|of)\b|"
    r"\bdiagnosis:|\b(?:condition|disease|disorder|syndrome|illness)[,]? (?:is )?(?:called|known as|named)\b|"
    r"\b(?:a|this|the) case of\b|\bsuffer(?:s|ed|ing)? from (?:a |an )?(?:rare |severe )?"
    r"(?:condition|disease|disorder)\b|\bmedical condition called\b)",
    re.I,
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by for from had has have he her his i in is it its me my no not of "
        "on or she so that the their there they this to was were when which who with without after over",
    )
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def tidy(text: str, finish_reason: str = "stop") -> str:
    """White space and quotation marks removed; a sentence the token limit cut off is dropped."""
    text = re.sub(r"[ \t]+", " ", unicodedata.normalize("NFC", text).strip())
    if len(text) > 1 and text[0] in "\"“'" and text[-1] in "\"”'":
        text = text[1:-1].strip()
    if finish_reason == "length":
        ends = [m.end() for m in re.finditer(r"[.!?][\"”']?(?=\s|$)", text)]
        text = text[: max(ends, default=0)].strip()
    return text


class Scrubber:
    """The checks of one text on its own, for texts of one label (or of a background condition)."""

    def __init__(
        self, names: Iterable[str], register: str, others: Iterable[str] = (), shortest: int | None = None
    ) -> None:
        self._shortest = SHORTEST.get(register, 10) if shortest is None else shortest
        self._names = name_pattern(names)
        self._others = name_pattern(others)

    @classmethod
    def for_topic(cls, panel: Panel, topic: str, shortest: int | None = None) -> Scrubber:
        """For texts of a label of the panel, or of a condition outside it; `shortest` is in words.

        The other labels are not to be named either, but for a name that the label's own description uses.
        A label that is not about illness may itself be called by the words of its description.
        """
        own = next((label for label in panel.labels if label.name == topic), Label(topic))
        called = (own.name, *own.aliases)
        said = ". ".join((*called, own.description))
        others = [name for name in all_names(panel) if not names_one_of([name], said)]
        mine = [n for n in called if panel.is_clinical or not names_one_of([n], own.description)]
        return cls(mine, panel.register, others, shortest)

    def reason(self, text: str) -> str | None:
        """Why a tidied text is not usable, or None. The first reason found is the one given."""
        words = _WORD.findall(text.lower())
        if not words:
            return "empty"
        if said := self.says(text):
            return said
        if len(words) < self._shortest:
            return "too short"
        triples = _triples(words)
        if 1 - len(set(triples)) / len(triples) > REPEATED_SHARE:
            return "repeats itself"
        # Running English prose has a third of its words from a short list; a tenth is too few for any.
        # A note of a dozen words may have none.
        if len(words) > 12 and sum(word in _COMMON for word in words) < 0.1 * len(words):
            return "not in English"
        return None

    def says(self, text: str) -> str | None:
        """What a text says that makes it not usable, however long it is."""
        if _REFUSAL.search(text):
            return "refusal"
        if _META.search(text):
            return "talks about the task"
        plain = _plain(text)
        if self._names is not None and self._names.search(plain):
            return "names its label"
        if self._others is not None and self._others.search(plain):
            return "names another label"
        if _TELL_TALE.search(text):
            return "tell-tale phrase"
        return None


class Duplicates:
    """Remembers texts and says whether a new one says the same again, by shared word triples."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._where: dict[tuple[str, ...], list[int]] = {}

    def seen(self, text: str) -> bool:
        """True for a near-duplicate of a remembered text; otherwise it is remembered."""
        triples = set(_triples(_WORD.findall(text.lower())))
        shared = Counter(other for triple in triples for other in self._where.get(triple, ()))
        for other, common in shared.items():
            if common >= DUPLICATE_OVERLAP * (len(triples) + self._sizes[other] - common):
                return True
        for triple in triples:
            self._where.setdefault(triple, []).append(len(self._sizes))
        self._sizes.append(len(triples))
        return False


def all_names(panel: Panel) -> list[str]:
    """What the labels of a panel are called, aliases with them."""
    return [name for label in panel.labels for name in (label.name, *label.aliases)]


def _plain(text: str) -> str:
    """Without accents, and with every kind of dash and white space as one blank."""
    text = unicodedata.normalize("NFKD", text)
    return re.sub(r"[\s\-‐‑–_]+", " ", "".join(c for c in text if not unicodedata.combining(c)))


def name_pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of the names in a text, however it is cased, hyphenated or put in the plural."""
    patterns = []
    for plain in filter(None, (_plain(name).strip() for name in names)):
        # An abbreviation such as TB is only itself in capitals; a word may take a plural.
        exact = plain.isupper() and len(plain) <= 5
        patterns.append(re.escape(plain) if exact else f"(?i:{re.escape(plain)}(?:s|es)?)")
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)") if patterns else None


def names_one_of(names: Iterable[str], text: str) -> bool:
    pattern = name_pattern(names)
    return pattern is not None and pattern.search(_plain(text)) is not None


def _triples(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(words, words[1:], words[2:], strict=False)) or [tuple(words)]
