"""Question-and-answer text as statements.

A symptom checker's history is a list such as "Do you have a cough? Yes. Have you travelled? No." Read as
plain text, a question that was answered with no is evidence for what it asks about, and the wording of the
questions dilutes the rest. So a question answered with yes is read as a statement, one answered with no is
left out, and any other answer is kept behind its question. Text without such pairs is returned unchanged.
"""

import re

_PAIR = re.compile(r"([^.?!\n]*)\?[ \t]*([^.?!\n]*)(?:[.!]|$)", re.MULTILINE)
_IS_CHECKLIST = re.compile(r"\?[ \t]*(?:yes|no|y|n)\b", re.IGNORECASE)
_NO = frozenset({"no", "n", "none", "nowhere", "never", "not at all"})
_YES = frozenset({"yes", "y"})
_OPENING = re.compile(
    r"^\s*(?:do|does|did|have|has|had|are|is|were|was|can|could|how|what|where|which)\b"
    r"(?:\s+(?:you|your|the|it|have|had|been|feel|noticed|experiencing|an?|any|ever|currently|recently)\b)*\s*",
    re.IGNORECASE,
)


def as_statements(text: str) -> str:
    """What a text states, where it is a list of questions and answers; else the text itself."""
    return _PAIR.sub(_stated, text) if _IS_CHECKLIST.search(text) else text


def _stated(pair: re.Match[str]) -> str:
    answer = pair[2].strip()
    if answer.lower() in _NO:
        return " "
    stated = _OPENING.sub("", pair[1]).strip()
    return f" {stated}. " if answer.lower() in _YES else f" {stated} {answer}. "
