"""Reading a text: spans for display, stated and denied parts for methods, and its language."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import NamedTuple

from simdx.reading.assertion import marks_of
from simdx.reading.events import ASSERTIONS, NEGATED, PRESENT
from simdx.reading.marks import Mark
from simdx.reading.normal import normal_in


class Span(NamedTuple):
    """A stretch of the text with one assertion; the trigger is empty if a section or nothing gave it."""

    start: int
    end: int
    text: str
    assertion: str
    section: str | None
    trigger: str


@dataclass
class Reading:
    """A text, the stretches that are not stated as present, and the starts of its sections."""

    text: str
    marks: list[Mark]
    sections: list[tuple[int, str]]

    @cached_property
    def normal(self) -> list[tuple[int, int]]:
        """The stretches that are called normal."""
        return normal_in(self.text)

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The whole text without its triggers, in order."""
        out: list[Span] = []
        parts: list[tuple[tuple[int, int], Mark | str | None]] = [(mark[:2], mark) for mark in self.marks]
        parts += dict.fromkeys(((mark.trigger_start, mark.trigger_end), None) for mark in self.marks)
        parts += [(place, NORMAL) for place in _beside(self.normal, [place for place, _ in parts], self.text)]
        at = 0
        for (start, end), mark in sorted(parts, key=lambda part: part[0]):
            self._add(out, at, start, None)
            if mark is not None:
                self._add(out, max(start, at), end, mark)
            at = max(at, end)
        self._add(out, at, len(self.text), None)
        return tuple(out)

    def _add(self, out: list[Span], start: int, end: int, mark: Mark | str | None) -> None:
        said = self.text[start:end]
        if not any(map(str.isalnum, said)):
            return
        start += len(said) - len(said.lstrip(_EDGES))
        said = said.strip(_EDGES)
        place = bisect(self.sections, start, key=itemgetter(0))
        section = self.sections[place - 1][1] if place else None
        if isinstance(mark, Mark):
            meant, trigger = ASSERTIONS[mark.assertion], self.text[mark.trigger_start : mark.trigger_end]
        else:
            meant, trigger = mark or ASSERTIONS[PRESENT], ""
        out.append(Span(start, start + len(said), said, meant, section, trigger))

    def assertion(self, start: int, end: int) -> str:
        """The assertion of a finding at this place: the strongest of its parts."""
        over = [mark.assertion for mark in self.marks if mark.start < end and mark.end > start]
        if not over and any(first < end and last > start for first, last in self.normal):
            return NORMAL
        return ASSERTIONS[max(over, default=PRESENT)]


NORMAL = "normal"
_EDGES = " \t\r\n.,;:"


def _beside(
    places: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]], text: str
) -> list[tuple[int, int]]:
    """The stretches that overlap none of the others."""
    taken = bytearray(len(text))
    for start, end in others:
        taken[start:end] = bytes([1]) * (end - start)
    return [(start, end) for start, end in places if not any(taken[start:end])]


def read(text: str) -> Reading:
    """The assertion of each part of a text."""
    return Reading(text, *marks_of(text))


# It begins where a sentence may, so that each letter is looked at once.
_PAIR = re.compile(r"(?<![^.?!\n])([^.?!\n]*)\?([^.?!\n]*)(?:[.!]|$)", re.MULTILINE)
# "Fever? no cough? yes": an answer and the next question.
_RUN_ON = re.compile(
    r"(\?[ \t]*(?:yes|no|y|n)),?[ \t]+(?=[^.?!,\n]{1,60}\?[ \t]*(?:yes|no|y|n)\b)", re.IGNORECASE
)
_IS_CHECKLIST = re.compile(r"\?[ \t]*(?:yes|no|y|n)\b", re.IGNORECASE)
_NO = frozenset({"no", "n", "none", "nowhere", "never", "not at all"})
_YES = frozenset({"yes", "y"})
_OPENING = re.compile(
    r"^\s*(?:do|does|did|have|has|had|are|is|were|was|can|could|how|what|where|which)\b"
    r"(?:\s+(?:you|your|the|it|have|had|been|feel|noticed|experiencing|an?|any|ever|currently|recently)\b)*\s*",
    re.IGNORECASE,
)


def is_checklist(text: str) -> bool:
    """Is a text a list of questions and answers?"""
    return _IS_CHECKLIST.search(text) is not None


def _stated(pair: re.Match[str], denied: list[str]) -> str:
    answer = pair[2].strip()
    stated = _OPENING.sub("", pair[1]).strip()
    if answer.lower() in _NO:
        denied.append(stated)
        return " "
    return f" {stated}. " if answer.lower() in _YES else f" {stated} {answer}. "


# --------------------------------------------------------------------------- as methods read

PLAIN, LIGHT, CUT, DENIED, FOUND, HEAVY = "plain", "light", "cut", "denied", "found", "heavy"
WAYS = (PLAIN, LIGHT, CUT, DENIED, FOUND, HEAVY)  # in this order: compiled panels keep the number
LEAST_DENIED = 0.15  # `light` cuts denied words if they are at least this share
LEAST_NOT_FOUND = 0.25  # `heavy` acts as `found` if that leaves out at least this share of words


# A batch reads each of its texts several times, in two ways: part of a batch must fit.
_REMEMBERED = 1024


@lru_cache(maxsize=_REMEMBERED)
def _denials(text: str) -> tuple[Mark, ...]:
    return tuple(mark for mark in marks_of(text, denied_alone=True)[0] if mark.assertion == NEGATED)


@lru_cache(maxsize=_REMEMBERED)
def as_read(text: str, way: str = PLAIN) -> tuple[str, str]:
    """The text that a method uses as stated, and the text that it uses as denied.

    plain   everything counts as stated; questions of a checklist become statements, and questions answered
            with no are left out
    light   as plain, but as cut if LEAST_DENIED or more of the text is denied
    cut     denied findings are left out
    denied  denied findings become separate words (`masked`)
    found   denied findings, and what is called normal, are left out
    heavy   as plain, but as found if `found` leaves out LEAST_NOT_FOUND or more of the text
    """
    said = text
    denied: list[str] = []
    if is_checklist(text):
        said = _PAIR.sub(lambda pair: _stated(pair, denied), _RUN_ON.sub(r"\1. ", text))
    if way == PLAIN:
        return said, ""
    cuts = []
    for mark in _denials(said):
        cuts.append((min(mark.start, mark.trigger_start), max(mark.end, mark.trigger_end)))
        denied.append(said[mark.start : mark.end])
    if way in (FOUND, HEAVY) and (normal := normal_in(said)):
        cuts = sorted([*cuts, *normal])
    if not cuts and said == text:
        return text, ""
    rest = _without(said, cuts)
    if not any(map(str.isalpha, rest)):
        return text, ""  # nothing else is left to classify
    if way == LIGHT and len(" ".join(denied).split()) < LEAST_DENIED * len(said.split()):
        return said, ""
    if way == HEAVY and 1 - len(rest.split()) / len(said.split()) < LEAST_NOT_FOUND:
        return said, ""
    return rest, ". ".join(denied) if way == DENIED else ""


def _without(text: str, cuts: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in cuts:
        kept.append(text[at : max(at, start)])
        at = max(at, end)
    return " ".join([*kept, text[at:]])


def not_present(text: str, way: str) -> tuple[tuple[int, int, str], ...]:
    """Start, end and assertion of stretches not stated as present; none if everything counts as stated."""
    if way == PLAIN:
        return ()
    marks = [(mark.start, mark.end, ASSERTIONS[mark.assertion]) for mark in marks_of(text)[0]]
    normal = normal_in(text) if way in (FOUND, HEAVY) else []
    marks += [(*place, NORMAL) for place in _beside(normal, (mark[:2] for mark in marks), text)]
    return tuple(sorted(marks))


_END = re.compile(r"(?<=[.!?;])[\"')\]]*\s+(?=\S)|\n+")
_FEWEST_WORDS = 3


def split_sentences(text: str) -> list[str]:
    """Sentences in order; a fragment of one or two words stays with the sentence before it."""
    out: list[list[str]] = []
    for piece in filter(None, map(str.strip, _END.split(text))):
        if out and len(piece.split()) < _FEWEST_WORDS:
            out[-1].append(piece)
        else:
            out.append([piece])
    return [" ".join(pieces) for pieces in out]


_NOT_OWN = ("negated", "family")
_NOT_NOW = (*_NOT_OWN, "past", "hypothetical")


def states_own(sentence: str) -> bool:
    """Whether a sentence states a finding of its patient, beyond denied, normal or relatives' findings."""
    rest = _less(sentence, _NOT_OWN)
    return rest == sentence or says_something(rest)


def stated_now(text: str) -> str:
    """The text without findings that are denied, past, conditional, normal or another person's."""
    return _less(as_read(text)[0], _NOT_NOW)


def says_something(text: str) -> bool:
    """Whether enough words of a text are left to classify it."""
    return len(re.findall(r"\w+", text)) >= _FEWEST_WORDS


def _less(text: str, assertions: Sequence[str]) -> str:
    """The text without normal findings and those with one of these assertions."""
    reading = read(text)
    cuts = [
        (min(mark.start, mark.trigger_start), max(mark.end, mark.trigger_end))
        for mark in reading.marks
        if ASSERTIONS[mark.assertion] in assertions
    ]
    cuts = sorted([*cuts, *reading.normal])
    return _without(text, cuts) if cuts else text


def sentence_at(text: str, sentences: Sequence[str], place: int) -> str:
    """The sentence, among those from `split_sentences`, that holds this position."""
    at = 0
    for sentence in sentences:
        at = max(text.find(sentence.split()[0], at), at) + len(sentence)
        if place < at:
            return sentence
    return sentences[-1]


_ENDING = re.compile(r"(?<=\w{3})(ing|ed|es|s)$")
_MOST_LETTERS = 5000  # cached characters: enough for any language, far fewer than Unicode has
_MOST_STEMS = 50_000  # some megabytes


class _Letters(dict[int, str]):
    """A character by its code: itself where it is a letter, else a space. ASCII text passes at C's speed."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        found = letter if letter.isalnum() and not letter.isdecimal() else " "
        if len(self) < _MOST_LETTERS:
            self[code] = found
        return found


class _Stems(dict[str, str]):
    """A word's stem; cached, because words repeat."""

    def __missing__(self, word: str) -> str:
        stem = _ENDING.sub("", word)
        if len(self) < _MOST_STEMS:
            self[word] = stem
        return stem


_LETTERS, _STEMS = _Letters(), _Stems()


def words(text: str) -> list[str]:
    """The words of a text in small letters; every other character separates them."""
    return text.lower().translate(_LETTERS).split()


def stems(text: str) -> set[str]:
    """The words of a text without endings of number and tense."""
    return {_STEMS[word] for word in words(text) if len(word) > 2}


_MASK = {ord(letter): 0x1D68A + i for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}


def masked(words: list[str]) -> list[str]:
    """Denied words in a separate alphabet: a denied fever matches other denied fevers, not a fever."""
    return [word.translate(_MASK) for word in words]


# --------------------------------------------------------------------------- language
#
# Whether a text is in English, the language that banks and embedders cover, decided by its commonest words.

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
LOOKED_AT = 600  # characters

_ENGLISH_WORDS = """
    the of and to is was with that my for it on are this have has had been not but she his her at from which
    by be they you when after since because no yes does do did there their very feel feels any all can would
    about what some also pain left right days day history patient denies noted normal without i a in want need
"""
# Common words, and words with which patients begin, in German, French, Spanish, Italian, Portuguese, Dutch,
# the Nordic languages, Polish, Turkish, Finnish, Czech and some more; none is also an English word.
_OTHER_WORDS = """
    der das und ist nicht ich ein eine einen seit mit habe haben auf bei dem den von zum zur im sich auch nach
    le les des du et est une un je dans depuis pas avec aux ai mais elle nous cette qui
    el los las y una que por tengo hace desde del muy pero sin esta mucha mucho
    il di che sono ho mi della nel anche molto giorni
    os um uma com dor sem tem não são há estou
    de het een ik heb heeft van mijn niet sinds zijn voor maar naar
    och att det som har inte jag ett men ikke jeg og har med til er
    na się jest od nie ma jsem že je se mám
    ve bir var için bu çok ben
    ja ei oli olen minulla ovat
    este sunt pentru și és hogy nem nije već saya dengan tidak sejak kwa mga
    kopfschmerzen bauchschmerzen schmerzen fieber husten douleur douleurs fièvre toux dolore febbre tosse
    fiebre febre pijn koorts hoest feber hoste gorączkę kaszel ból dureri sakit demam
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHER = frozenset(_OTHER_WORDS.split())


def is_english(text: str) -> bool:
    """Whether the text is English; a text of names and numbers alone counts as English."""
    seen = text[:LOOKED_AT].lower()
    words = _WORD.findall(seen)
    english = sum(map(_ENGLISH.__contains__, words))
    other = sum(map(_OTHER.__contains__, words))
    foreign_letters = 0 if seen.isascii() else sum(not word.isascii() for word in words)
    return other <= english and (foreign_letters <= english or foreign_letters < len(words) / 6)
