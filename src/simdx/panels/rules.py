"""Review rules: features of the case's own words that call for a person, however sure the answer.

A rule is a list of phrases, or a regular expression. Phrases match whole words, ignoring case and spacing.
Expressions come from a file that may not be ours, so RE2 runs them: its time grows with the length of the
text alone, whatever the expression. It has no back-references and no look-around; `\\w`, `\\d` and `\\b` know
ASCII letters only (`\\pL` is any letter).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from simdx.types import ReviewRule

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
