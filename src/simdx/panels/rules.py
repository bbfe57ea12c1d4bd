"""Review rules: features of the case's own words that call for a person, however sure the answer.

A rule is a list of phrases, or a regular expression of a safe subset. Phrases match whole words, ignoring
case and spacing. Expressions come from a file that may not be ours, so those that could run for minutes are
refused before they ever meet a text: no repeat or alternative inside a repeat, no back-reference, no
look-around, at most one open-ended repeat, and a bounded number of ways to match. They are run over
overlapping windows of the text, so even an open-ended repeat ends with its window.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from simdx.types import ReviewRule

LONGEST_PATTERN = 200
MOST_WAYS = 5_000
WINDOW, OVERLAP = 400, 100
SCANNED = 200_000  # characters of a case that rules read
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_REFUSED = {
    codes.GROUPREF: "a back-reference",
    codes.GROUPREF_EXISTS: "a conditional group",
    codes.ASSERT: "a look-around",
    codes.ASSERT_NOT: "a look-around",
}


def pattern_problem(pattern: str) -> str | None:
    """Why a regular expression is refused, or None when it is safe."""
    if len(pattern) > LONGEST_PATTERN:
        return f"is over {LONGEST_PATTERN} characters"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what is only warned of today will mean something else tomorrow
            tree = parser.parse(pattern, re.IGNORECASE)
            re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"is not a regular expression ({getattr(error, 'msg', 'malformed')})"
    ways, open_ended = 1, 0
    for kind, argument, depth in _walk(tree, 0):
        if kind in _REFUSED:
            return f"uses {_REFUSED[kind]}"
        if depth and kind in _REPEATS:
            return "has a repeat inside a repeat"
        if depth and kind is codes.BRANCH:
            return "has an alternative inside a repeat"
        if kind in _REPEATS:
            low, high = int(argument[0]), int(argument[1])
            open_ended += argument[1] is codes.MAXREPEAT
            ways *= max(1, min(high, WINDOW) - low + 1)
    if open_ended > 1:
        return "has more than one open-ended repeat (* or +): bound the others, as in {0,20}"
    if ways > MOST_WAYS:
        return "can match in too many ways: make its repeats shorter"
    return None


def _walk(tree: Any, depth: int) -> Iterator[tuple[Any, Any, int]]:
    """Every node of a parsed expression with the number of repeats around it."""
    for kind, argument in tree:
        yield kind, argument, depth
        for part in _parts(argument):
            yield from _walk(part, depth + (kind in _REPEATS))


def _parts(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from _parts(item)


def matching(rules: Sequence[ReviewRule], text: str) -> list[ReviewRule]:
    """The rules a case's text meets, in their order."""
    if not rules:
        return []
    flat = " ".join(text[:SCANNED].split()).casefold()
    return [rule for rule in rules if _meets(rule, flat)]


def _meets(rule: ReviewRule, flat: str) -> bool:
    if any(_phrase(phrase).search(flat) for phrase in rule.phrases):
        return True
    if rule.pattern is None:
        return False
    expression = _expression(rule.pattern)
    step = WINDOW - OVERLAP
    return any(expression.search(flat[i : i + WINDOW]) for i in range(0, max(len(flat) - OVERLAP, 1), step))


@lru_cache(maxsize=512)
def _phrase(phrase: str) -> re.Pattern[str]:
    words = r"\s".join(re.escape(word) for word in phrase.casefold().split())
    return re.compile(rf"(?<!\w){words}(?!\w)")


@lru_cache(maxsize=128)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
