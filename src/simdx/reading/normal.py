"""Stretches of a text that call something normal: "Heart size is within normal limits", "Lungs clear".

A normal result is not a finding. A film report calls each organ normal, and "the heart is normal in size"
must not count for an enlarged heart.
"""

from __future__ import annotations

import re

from simdx.reading.events import small

# A text without any of these words is not searched.
_WORDS = ("normal", "unremarkable", "clear", "intact", "midline", "wnl")
_SIDE = (
    r"(?:size|shape|contours?|calib(?:er|re)|configuration|appearance|alignment|position|limits|"
    r"echogenicity|echotexture|attenuation|signal|density|thickness|morphology)"
)
_NORMAL = re.compile(
    r"\b(?:within\s+normal\s+(?:limits|range)|normal|unremarkable|clear|intact|midline|wnl)\b"
    rf"(?:\s+bilaterally|\s+(?:in\s+)?(?:overall\s+)?{_SIDE}(?:(?:,|,?\s+and|\s+or)\s+{_SIDE})*)?"
)
_SOFT = r"(?:soft|non[- ]?tender|(?:non|not)-?\s?(?:distended|swollen))"
_NORMAL_OR_SOFT = re.compile(rf"{_NORMAL.pattern}|\b(?:{_SOFT}(?:,|,?\s+and)?\s+)*{_SOFT}\b")
# A soft belly is normal, a soft lump is a lump.
_SOFT_WHERE = re.compile(
    r"\b(?:abdo|abdomen|belly|tummy|stomach|calf|calves|spine|c-spine|neck|back|uterus|testes|hips?|"
    r"joints?|thighs?|limbs?|compartments?)\b"
)
_SOFT_LUMP = re.compile(r"\b(?:mass|lump|swelling|nodes?|nodule|lesion|cyst|rash|area|in|on|of|with|it)\b")
# Before the word: a verb, or directly the words that are called normal ("Heart size normal.").
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|appears?|remains?|looks?|seems?)"
    r"(?:\s+(?:also|all|both|otherwise|grossly|essentially|completely|bilaterally|overall|stable,?|and))*"
    r"(?:\s+of)?\s+$"
)
_NO_VERB = re.compile(r"(?:\s(?:grossly|otherwise))?\s$")
_UNLIKE = re.compile(
    r"\b(?:of|to|than|not|as|no|from|near|almost|nearly|twice|times|half|above|below|over|under|beyond)\s+$"
)
# Or the word comes first: "Normal heart size and contour".
_LEADS = re.compile(r"(?:^|[.;:,\n]\s*|\b(?:with|shows?|demonstrates?|has)\s)$")
_LED = re.compile(
    r"\s+(?!saline|pressure|variant|delivery)[^.,;:\n]{1,80}?(?=[.,;:\n]|$|\s(?:with|but|without|except|"
    r"(?:other|apart|aside)\s+(?:than|from))\b)"
)
# "Hearing is normal on the right", "sodium normal at 138"; but "is that normal at 28 weeks?"
_PLACE = r"on\s+(?:the\s+)?(?:right|left|both)\b|at\s+\d+\b(?!\s*(?:weeks?|months?|years?)\b)"
_STOP = re.compile(
    rf"\s*(?:[.;)\n]|,|$|{_PLACE}|(?:today|on\s+(?:repeat|testing|admission)|in\s+(?:both|either|all))\b)"
)
_STOP_OR_AND = re.compile(
    rf"\s*(?:[.,;:)\n]|$|{_PLACE}|(?:and|but|with|without|for|except|although|however|yet|"
    r"according|today|throughout|again|so|per)\b)",
    re.IGNORECASE,
)
_BOUNDARY = re.compile(
    r"[.;:!?](?=\s)|\n|,(?=\s)|\b(?:but|with|without|however|although|while|which|except)\b", re.IGNORECASE
)
_BACK = 60  # characters searched for a verb
_SUBJECT = 160  # characters searched for its subject
_MOST_WORDS = 10
_LISTED_WORDS = 3  # in each part of a list: "heart, mediastinum, and hila are normal"


def normal_in(text: str) -> list[tuple[int, int]]:
    """Start and end of each stretch that calls something normal, sorted and without overlaps."""
    out: list[tuple[int, int]] = []
    low = small(text)
    pattern = _NORMAL_OR_SOFT if "tender" in low else _NORMAL  # the former takes longer
    for word in _WORDS:
        if word in low:
            break
    else:
        if pattern is _NORMAL:
            return out
    done = 0
    for found in pattern.finditer(low):
        at, end = found.span()
        if at < done:
            continue
        before = low[max(done, at - _BACK) : at]
        if (led := _LED.match(low, end)) and low[at] in "nu" and _LEADS.search(before):
            start, end = at, led.end()
        elif (verb := _VERB.search(before)) and _STOP_OR_AND.match(low, end):
            start = _subject(low, done, at - len(before) + verb.start())
        elif (gap := _NO_VERB.search(before)) and not _UNLIKE.search(before) and _STOP.match(low, end):
            start = _subject(low, done, at - len(before) + gap.start())
        else:
            continue
        if start >= 0 and low.startswith(("soft", "non", "not"), at):
            said = low[start:at]
            if not _SOFT_WHERE.search(said) or _SOFT_LUMP.search(said) or "non" not in found[0]:
                start = -1
        if start >= 0:
            out.append((start, end))
            done = end
    return out


def _subject(low: str, since: int, until: int) -> int:
    """Where the words that are called normal begin; -1 if there are none or too many."""
    since = max(since, until - _SUBJECT)
    bounds = [since, *(bound.end() for bound in _BOUNDARY.finditer(low, since, until))]
    start = bounds.pop()
    words = low[start:until].split()
    if not 0 < len(words) <= _MOST_WORDS:
        return -1
    listed = "and" in words
    while (
        listed and bounds and low[start - 1] == "," and len(low[bounds[-1] : start].split()) <= _LISTED_WORDS
    ):
        start = bounds.pop()
    return start
