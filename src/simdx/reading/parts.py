"""Whether a part of a list continues a denial, or states a present finding.

"No fever, chills, cough" denies three findings; "no fever, cough for 3 days" and "no ketones, glucose 18"
deny one. Reports close a denied list with an "or". Notes and patients often continue an absent finding
with a present one, so a comma alone is weak evidence for a list. The content of the part decides.
"""

from __future__ import annotations

import re

from simdx.reading.events import (
    AND,
    ASKING,
    CLAUSE_VERBS,
    COMMA,
    FINDING_ENDINGS,
    FINDINGS,
    FROM,
    LISTED,
    OPENERS,
    OR,
    REPORTED,
    STARTERS,
    STATES,
    SUBJECTS,
    TAILS,
    TO,
    WITH,
    WORD,
    Event,
)

# "18", "x3", "3/7", "39.5", "4cm", "2+"; but not "S3" or "L5", which name things.
_QUANTITY = re.compile(r"\bx\s?\d|(?<![\w'-])[~<>]?\d[\d./]*(?:[+%]|[a-z]{0,5}\b)")
_LASTS = re.compile(r"\bfor (?:about )?(?:\w+ )?(?:hour|day|night|week|month|year|age)s?\b")
# A time or a size that applies to the whole list: "no vomiting, diarrhoea in the past 24 hours".
_THROUGHOUT = re.compile(r"\b(?:past|last|within|previous|greater|larger)\b")
# A body site suggests a present finding: "bruising over the temple", "rash on both arms".
_PLACED = re.compile(
    r" (?:over|around|along|under|(?:on|in|at|to|of)(?: (?:the|his|her|my))? (?:left|right|both|l|r|lt|rt))\b"
)


NONE = frozenset[int]()
SAID = re.compile(r"[^\s,;.:()]+")  # a word as it stands in a text
_NEAR = 500  # characters searched for a bracket
_MOST_QUERIED = 6  # words of a finding with a question mark behind it
_NO_FINDING = ASKING | STARTERS | SUBJECTS  # a question with one of these is not about a finding


def closed_lists(
    low: str, events: list[Event], kinds: list[str], end: int
) -> tuple[frozenset[int], frozenset[int]]:
    """The commas of lists that an "or" closes, "no fever, chills or cough"; and of those that an "and" does,
    behind a comma or where a verb follows: "no fever, chills and cough were reported"."""
    joining = AND in kinds
    if COMMA not in kinds or not (joining or OR in kinds or any(event[WORD] == "nor" for event in events)):
        return NONE, NONE
    by_or, by_and = set[int](), set[int]()
    reported = joining and not REPORTED.isdisjoint(low[events[-1][TO] : end].split()[-1:])
    reached = joined = False
    for j in range(len(kinds) - 1, -1, -1):
        listing = kinds[j] in (COMMA, AND, WITH)
        reached = kinds[j] == OR or events[j][WORD] == "nor" or (reached and listing)
        joined = listing and (joined or (kinds[j] == AND and (reported or _listing(low, events[j]))))
        if reached:
            by_or.add(j)
        if joined:
            by_and.add(j)
    return frozenset(by_or), frozenset(by_and)


def _listing(low: str, event: Event) -> bool:
    """Whether an "and" after a comma continues a list, not a narrative: "rash, hives, and wheeze"."""
    following = low[event[TO] : event[TO] + 12].split()[:1]
    return low.startswith(", ", event[FROM] - 2) and STARTERS.isdisjoint(following)


def is_finding(word: str) -> bool:
    """Is it a word for a finding?"""
    return word in FINDINGS or word.endswith(FINDING_ENDINGS)


def is_clause(words: list[str]) -> bool:
    """Is there a verb that makes the words a separate clause? "Rashes were seen" is none."""
    return not CLAUSE_VERBS.isdisjoint(words) and any(
        word in CLAUSE_VERBS and (i + 1 == len(words) or words[i + 1] not in REPORTED)
        for i, word in enumerate(words)
    )


def is_there(said: str, words: list[str]) -> bool:
    """Whether a part states a present finding: by a quantity, a duration, a state, a verb or a side."""
    return (
        words[-1] in STATES
        or (words[0] in STATES and (len(words) == 1 or words[1] in TAILS or words[1] == "for"))
        or words[0] in ("present", "new")
        or is_clause(words)
        or (_QUANTITY.search(said) is not None and _THROUGHOUT.search(said) is None)
        or (" for " in said and _LASTS.search(said) is not None)
        or _PLACED.search(said) is not None
    )


def is_listed(words: list[str]) -> bool:
    """Whether a part looks like another finding of a list: its head names a finding."""
    if words[-1] in REPORTED and words[-2:-1] in (["was"], ["were"]):  # "no rash, bruises were seen"
        words = words[:-2] or words
    head = words[0]
    for word in words[1:]:
        if word in TAILS:
            break
        head = word
    said = (head, head.removesuffix("s"), *head.split("/"))
    return not LISTED.isdisjoint(said) or any(map(is_finding, said))


def is_graded(words: list[str]) -> bool:
    """Whether a part begins with a degree or a measure, which absent findings seldom have."""
    return len(words) > 1 and words[0] in OPENERS


def describes(words: list[str]) -> bool:
    """Whether words are adjectives alone, which share a noun: "no severe, constant pain"."""
    return all(word in OPENERS or word in STATES for word in words)


def queried(low: str, start: int, end: int) -> int:
    """Where a finding with a question mark begins ("fell, wrist fracture?"); the end if there is none."""
    begin = max(start, low.rfind(",", start, end) + 1)
    words = low[begin:end].split()
    if not 0 < len(words) <= _MOST_QUERIED or not _NO_FINDING.isdisjoint(words) or is_clause(words):
        return end
    asks = begin > start and not ASKING.isdisjoint(low[start:begin].split(None, 1)[:1])  # "Is it X, Y, or Z?"
    return end if asks or not words[-1].isalpha() else begin


def one_finding(low: str, begin: int, stop: int) -> int:
    """Where the first finding ends, in text without punctuation."""
    count = 0  # two words, or one that is known to be a finding
    tail = False  # "in stool"
    for word in SAID.finditer(low, begin, stop):
        said = word[0]
        if said in TAILS:
            tail = True
        elif tail:
            tail = said in ("the", "a", "his", "her", "left", "right", "l", "r")
            count = 2
        elif count >= 2:
            return word.start()
        else:
            count += 2 if is_finding(said) else 1
    return stop


def findings_alone(low: str, begin: int, stop: int) -> bool:
    """Whether findings alone stand before an "or": "no fever chills or cough"."""
    return all(is_finding(word) for word in low[begin:stop].split())


def new_clause(low: str, begin: int, stop: int) -> int:
    """Where "has" opens a clause in text without punctuation: "denies chest pain has cough"."""
    has = low.find(" has ", begin, stop)
    before = low[begin:has].split() if has > 0 else []
    return has if before and before[-1] not in STARTERS else stop


def in_brackets(low: str, begin: int, place: int) -> bool:
    """Whether a bracket that opened behind the first place is still open at the second."""
    begin = max(begin, place - _NEAR)
    return low.rfind("(", begin, place) > low.rfind(")", begin, place)


def first_verb(low: str, begin: int, stop: int) -> int:
    """Where the findings of another person end: at a verb."""
    return next((word.start() for word in SAID.finditer(low, begin, stop) if word[0] in CLAUSE_VERBS), stop)


def after_words(low: str, begin: int, stop: int, many: int) -> int:
    """Where so many words end."""
    return next((word.end() for i, word in enumerate(SAID.finditer(low, begin, stop), 1) if i == many), stop)
