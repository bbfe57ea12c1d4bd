"""The words of `triggers.txt`, and the places of a sentence that matter: triggers, conjunctions and stops."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

PRESENT, PAST, POSSIBLE, NEGATED, HYPOTHETICAL, FAMILY = range(
    6
)  # of overlapping scopes the larger number wins
ASSERTIONS = ("present", "past", "possible", "negated", "hypothetical", "family")


class Rule(NamedTuple):
    """The kind of a phrase, the assertion it gives, and the pattern after its first word."""

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
FREE_OF = _set("FREE_OF")
FINDING_ENDINGS = tuple(sorted(_set("FINDING_ENDINGS")))
TAILS = _set("TAILS")
LISTED = _set("LISTED")
OPENERS = _set("OPENERS")
CLOSING = _set("CLOSING") | REPORTED
STATES = _set("STATES")
ARTICLES = _set("ARTICLES")
CONTINUING = _set("CONTINUING")
FILLERS = _set("FILLERS")
SUBJECTS = _set("SUBJECTS")
ANNOUNCING = _set("ANNOUNCING")
DOUBTED = tuple(sorted(_set("DOUBTED")))
STRONG_ENDS = _set("STRONG_ENDS")
NUMBERS = _set("NUMBERS")
ONE_BY_ONE = _set("NOTS") | {"without", "w/o"}  # they deny the next finding; a list only if it is clearly one
EVERYDAY = _set("EVERYDAY")
KEYS = _set("KEYS")
ASKING = _set("ASKING")

# What an event is: the kinds of `triggers.txt`, and punctuation.
BEFORE, BEHIND, EITHER, NARROW, SINGLE = "before", "behind", "either", "narrow", "single"
NOTHING, HERE = "nothing", "here"
END, AND, OR, WITH = "end", "and", "or", "with"
COMMA, COLON = "comma", "colon"
TRIGGERS = frozenset({BEFORE, NARROW, SINGLE, BEHIND, EITHER})


# An event of a sentence: its start and end, its kind, the assertion it gives, and its first word. A plain
# tuple takes a tenth of the time of a named one.
Event = tuple[int, int, str, int, str]
FROM: Final = 0
TO: Final = 1
WHAT: Final = 2
MEANT: Final = 3
WORD: Final = 4

_SIGNS = ",:(?=+-"


def _tree(words: list[str]) -> str:
    """A regular expression for any of the words that reads each letter once."""
    branches: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        if word:
            branches[word[0]].append(word[1:])
    if not branches:
        return ""
    inner = "|".join(re.escape(first) + _tree(rest) for first, rest in sorted(branches.items()))
    return f"(?:{inner}){'?' if '' in words else ''}"


# Both begin with a class of characters, which the engine finds without trying each position. The character
# before a phrase may be a sign.
_SCAN = re.compile(rf"[^a-z0-9_](?<!\w)(?:{_tree(sorted(RULES))}(?!\w)|(?<=[{_SIGNS}])(?<!\S[+-]))")
_STOP = re.compile(r"[.?!;\n](?:(?<=\n)|(?=[\s)\"'”]|$))")
# A question of a checklist and its answer; also "fever: no", "fever - no" and "fever (no)".
ANSWER = re.compile(
    r"(?:\?|:|=|\s-|\()\s*(?:(?P<no>no|none|n|nil|absent|negative|denied|never|nowhere|"
    r"not (?:at all|present|seen|found|noted|reported)|none known)|"
    r"(?:yes|y|present|positive))\b\)?(?=\s*(?:[.,;)|\n]|/\s|$)|"
    r"(?<=\? [ny])\s[^.?\n]{1,60}\?|"
    r"(?:(?<=\? no)|(?<=\? yes))\s[^.?\n]{1,60}\?\s*(?:yes|no)\b|(?<=: yes)\s[\w ]{1,60}:)"
)
_MINUS = re.compile(r"\s*(?:-|neg)(?:ve)?(?=\s*(?:[.,;)|/\n]|$))")  # an answer behind a colon
_ENDED = re.compile(r"\s*(?:[,;.)|\n]|/\s|$)")
_MINUS_LIST = re.compile(r"\s[+-](?:ve)?\s*(?:[,;]|/\s)")
_SIGN_LAST = re.compile(r"[^.;\n]{0,200}\([+-]\)\s*(?:[.;\n]|$)")  # each sign stands behind its finding
_NO = re.compile(r"[:(=-]\s*(?:n|nil|nowhere)\b")  # those among them that are no triggers
# A sentence without these words states present findings; a sentence without the others denies nothing.
TELLING = frozenset(
    form
    for word, rules in RULES.items()
    if any(rule.what in TRIGGERS for rule in rules) and word not in EVERYDAY
    for form in (word, f"{word}'s", f"{word}.")
) | frozenset(KEYS)
DENYING = frozenset(
    form
    for word, rules in RULES.items()
    for rule in rules
    if rule.assertion == NEGATED
    and not (word in EVERYDAY and "not" in rule.rest)  # "not" is among them itself
    for form in ((key for key in KEYS if key in rule.rest) if word in EVERYDAY else (word, f"{word}."))
)
_PLUS = re.compile(r"(?:^|\s)\+[a-z]")  # beside it, a minus denies
_FIRST = re.compile(r"\s*([a-z]+)")
_YEAR = re.compile(r"in (?:19|20)\d\d")
_LONGEST = 2 + max(map(len, RULES))  # a first word, and what shows that it ends
_ONE_WORD = {word: rules[0] for word, rules in RULES.items() if not rules[0].rest}
_compiled: dict[str, Callable[..., re.Match[str] | None]] = {}  # filled when a first word is first met


def small(text: str) -> str:
    """The text in small letters, of the same length."""
    low = text.lower().replace("’", "'")
    if len(low) != len(text):  # a letter such as İ has a small form of two characters
        low = "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("’", "'")
    return low


def sentences(text: str, low: str) -> Iterator[tuple[int, int, int, str]]:
    """Start and end of each sentence, the start of the next, and its end: a stop, or `no` or `yes`."""
    start = 0
    for stop in _STOP.finditer(low):
        at, end = stop.span()
        if at < start:
            continue
        sign = low[at]
        if sign == "\n":
            following = text[end : end + 1]
            if following.isalpha() and not following.isupper():
                continue  # a line that was wrapped
        elif sign == "?":
            answer = ANSWER.match(low, at)
            if answer:
                end = answer.end()
                sign = "no" if answer["no"] else "yes"
            elif not low[at - 1 : at].strip() and _is_query(low, start, at):
                continue
        yield start, at, end, sign
        start = end
    if start < len(low):
        yield start, len(low), len(low), ""


def _is_query(low: str, start: int, at: int) -> bool:
    """Whether a question mark applies to the words after it, as in "pain of the hip ? fracture"."""
    following = _FIRST.match(low, at + 1)
    asked = _FIRST.match(low, start)
    return following is not None and following[1] not in STARTERS and not (asked and asked[1] in ASKING)


@cache
def _spaces(signs: str) -> bytes:
    return bytes.maketrans(signs.encode(), b" " * len(signs))


def _spaced(text: str, signs: str) -> str:
    """The text with a space for each of the signs. Bytes are translated many times faster than letters."""
    if text.isascii():
        return text.encode().translate(_spaces(signs)).decode()
    for sign in signs:
        text = text.replace(sign, " ")
    return text


@cache
def _with_sign(words: frozenset[str]) -> list[str]:
    return [word for word in words if "-" in word or "/" in word]


def tells(part: str, words: frozenset[str], joined: str = "") -> bool:
    """True if a part of a text has one of the words, or a sign that may say as much.

    `joined`: signs between which a word is looked for too, as in "PMH:asthma" or "SHx/FHx".
    """
    apart = _spaced(part, f',()"{joined}').replace(" '", " ")
    return (
        not words.isdisjoint(apart.split())
        or (
            joined != ""
            and any(map(part.__contains__, _with_sign(words)))
            and not words.isdisjoint(_spaced(part, ',()"').replace(" '", " ").split())
        )
        or "?" in part
        or " -" in part
        or "(-" in part
        or "-free" in part
        or "=n" in part
        or (":" in part and _NO.search(part) is not None)
        or ((" in " in part or part.startswith("in ")) and _YEAR.search(part) is not None)
    )


def events_of(low: str, start: int, end: int) -> list[Event]:
    """The events of a sentence, in order."""
    found: list[Event] = []
    done = start
    places = _SCAN.finditer(low, max(0, start - 1), end)
    if not start and (
        first := _SCAN.match(f" {low[:_LONGEST]}")
    ):  # nothing stands before a text's first word
        done = _phrase(low, 0, first[0][1:], end, found)
    for place in places:
        at, seen = place.start(), place[0]
        if at >= done:
            if seen[0] == ",":
                done = at + 1
                if not (low[done : done + 1].isdigit() and low[at - 1].isdigit()):  # "5,000"
                    found.append((at, done, COMMA, PRESENT, ","))
            elif seen[0] in _SIGNS:
                done = _sign(seen[0], low, at, at + 1, found)
        if len(seen) > 1 and at + 1 >= done:
            done = _phrase(low, at + 1, seen[1:], end, found)
    return found


def _phrase(low: str, at: int, word: str, end: int, found: list[Event]) -> int:
    """Adds the event of the phrase that begins with this word, if there is one; returns its end."""
    done = at + len(word)
    rule = _ONE_WORD.get(word)
    if rule is None:
        phrase = (_compiled.get(word) or _compile(word))(low, done, end)
        if phrase is None:
            return done
        rule, done = RULES[word][(phrase.lastindex or 1) - 1], phrase.end()
    found.append((at, done, rule.what, rule.assertion, word))
    return done


def _compile(word: str) -> Callable[..., re.Match[str] | None]:
    """A pattern for the rest of a phrase after its first word, with one group for each rule."""
    rests = "|".join(f"((?:{rule.rest})(?!\\w))" for rule in RULES[word])
    match = _compiled[word] = re.compile(rests).match
    return match


def _denies(low: str, at: int) -> bool:
    """Whether a minus denies what follows: beside a plus, or as in "cough, - fever"."""
    if low[at + 1 : at + 2] == " ":
        return low.endswith(", ", 0, at) and low[at + 2 : at + 3].isalpha()
    return low[at + 1 : at + 2].isalpha() and _PLUS.search(low, max(0, at - 99), at + 99) is not None


def _sign(sign: str, low: str, at: int, stop: int, found: list[Event]) -> int:
    """Adds the event of a sign, if it has one; returns its end."""
    behind = False
    if sign == "(" and low[at + 1 : at + 3] in ("-)", "+)"):
        sign, stop = low[at + 1], at + 3
        behind = _ENDED.match(low, stop) is not None or _SIGN_LAST.match(low, stop) is not None
    elif sign in "+-":
        if low[at - 1 : at].strip():
            return stop
        if low.startswith("ve", stop) and not low[stop + 2 : stop + 3].isalpha():
            stop += 2
            behind = sign == "-" and _ENDED.match(low, stop) is not None
        elif sign == "-" and _ENDED.match(low, stop) and _MINUS_LIST.search(low, max(0, at - 99), at + 99):
            behind = True
        elif sign == "-" and not _denies(low, at):
            if not low[stop : stop + 1].isspace():
                return stop
            sign = " -"
    if sign == "-":
        found.append((at, stop, BEHIND if behind else NARROW, NEGATED, sign))
    elif sign == "+":
        found.append((at, stop, NOTHING if behind else HERE, PRESENT, sign))
    elif sign == "?":
        if (asked := low[stop : stop + 2].lstrip()[:1]).isalpha() or asked == "#":
            found.append((at, stop, BEFORE, POSSIBLE, sign))
    else:
        answer = ANSWER.match(low, at - (sign == " -"))
        if answer:
            no = answer["no"] is not None
            stop = answer.end()
            found.append((at, stop, BEHIND if no else NOTHING, NEGATED if no else PRESENT, sign))
        elif sign in ":=" and (minus := _MINUS.match(low, stop)):
            stop = minus.end()
            found.append((at, stop, BEHIND, NEGATED, sign))
        elif sign == ":":
            found.append((at, stop, COLON, PRESENT, sign))
        elif sign == " -":
            found.append((at, stop, END, PRESENT, sign))
    return stop
