"""The words of `triggers.txt`: rules, sections and sets of words."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

PRESENT, PAST, POSSIBLE, NEGATED, HYPOTHETICAL, FAMILY = range(6)  # where scopes meet, the larger one holds
ASSERTIONS = ("present", "past", "possible", "negated", "hypothetical", "family")


class Rule(NamedTuple):
    """What a phrase does, the assertion it gives, and its pattern behind the first word."""

    what: str
    assertion: int
    rest: str


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """Each line that begins at the margin, with the indented lines below it."""
    out: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(" "):
            out[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            out.append((line, []))
    return out


def _loaded() -> tuple[dict[str, list[Rule]], dict[str, tuple[str, int]], dict[str, str]]:
    """First word -> its rules; header -> section and assertion; name -> words."""
    rules: dict[str, list[Rule]] = {}
    sections: dict[str, tuple[str, int]] = {}
    names: dict[str, str] = {}
    for head, below in _blocks((files(__package__) / "triggers.txt").read_text(encoding="utf-8")):
        if head.endswith(" ="):
            name = head.removesuffix(" =")
            names[name] = ("" if below[0].startswith("(?:") else " ").join(below)
            if name == "RELATIVES":
                names["RELATIVE"] = "(?:" + "|".join(names[name].split()) + ")"
        elif head.startswith("section "):
            _, meant, section = head.rstrip(":").split(" ", 2)
            found = (section, ASSERTIONS.index(meant))
            sections |= {header.strip(): found for header in " ".join(below).split(",")}
        else:
            kind, _, first = head.partition(":")
            what, _, meant = kind.partition(" ")
            rest = "".join(below)
            for name, value in names.items():
                first = first.replace(f"{{{name}}}", value)
                rest = rest.replace(f"{{{name}}}", value)
            rule = Rule(what, ASSERTIONS.index(meant or "present"), rest.replace("_", r"\s+"))
            for word in first.split():
                rules.setdefault(word, []).append(rule)
    return rules, sections, names


RULES, SECTIONS, _NAMES = _loaded()


def _set(name: str) -> frozenset[str]:
    return frozenset(_NAMES[name].split())


STARTERS = _set("STARTERS")
CLAUSE_VERBS = _set("CLAUSE_VERBS")
REPORTED = _set("REPORTED")
FINDINGS = _set("FINDINGS")
FINDING_ENDINGS = tuple(sorted(_set("FINDING_ENDINGS")))
TAILS = _set("TAILS")
ARTICLES = _set("ARTICLES")
FILLERS = _set("FILLERS")
STRONG_ENDS = _set("STRONG_ENDS")
NUMBERS = _set("NUMBERS")
EVERYDAY = _set("EVERYDAY")
KEYS = _set("KEYS")
