"""Red flags: findings that point to a condition that must not be missed, found in a text by their wordings.

`data/red_flags.txt` lists each red flag with its ways, the patterns of its wordings, and describes their
syntax. Most texts state no red flag, so an index maps each word to the parts of ways that it can match. The
pattern of a way is searched only in a text that has words for all its parts.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple, TypeVar

from simdx.reading import Reading, read, words
from simdx.reading.events import small
from simdx.types import content_hash

_BETWEEN = r"[^\w.!?;\n]+"  # two words of one sentence
_CLOSE = r"[^\w.!?;\n,:()]+"  # and of one phrase
_WORD = r"\w++(?:'\w++)*+"  # whole: one that could end early takes a hostile text's length to some power
_GAPS = {  # words that may stand between
    "~": rf"(?:{_BETWEEN}|(?:{_CLOSE}{_WORD}){{1,4}}{_CLOSE})",
    "~~": rf"(?:{_BETWEEN}{_WORD}){{0,10}}{_BETWEEN}",
}
Place = TypeVar("Place", bound=tuple[int, ...])
_MOST_WORDS = 50_000  # cached words: some megabytes


class RedFlag(NamedTuple):
    name: str
    of: tuple[str, ...]  # conditions to which it points
    also: tuple[str, ...]  # others that explain it
    ways: tuple[str, ...]


@cache
def red_flags() -> tuple[RedFlag, ...]:
    found = []
    for name, body in re.findall(r"^([^#\s][^=\n]*)\n((?: .+\n)+)", _source(), re.M):
        said = dict(re.findall(r"^ {4}(\w+) +(.*(?:\n {10}.*)*)", body, re.M))
        lists = [said.get(key, "").split(";") for key in ("of", "also", "said")]
        found.append(RedFlag(name, *(tuple(" ".join(one.split()) for one in some if one) for some in lists)))
    return tuple(found)


@cache
def red_flags_version() -> str:
    """Identity of the file of red flags; comments do not count."""
    return content_hash(re.sub(r"^#.*\n", "", _source(), flags=re.M))[:16]


def found_in(text: str) -> Iterator[tuple[int, int, RedFlag]]:
    """Start, end and red flag of each that a text states as a present finding of its patient."""
    parts_of, ways = _index()
    parts = set[int]().union(*map(parts_of.__getitem__, words(text)))
    likely = [way for part in parts for way in ways.get(part, ()) if way[1] <= parts]
    if not likely:
        return
    low, reading, seen = small(text), None, set[int]()
    for number, _, way in likely:
        for match in () if number in seen else _compiled(way).finditer(low):
            reading = reading or read(text)
            if _is_present(reading, *match.span()):
                seen.add(number)
                yield *match.span(), red_flags()[number]
                break


def _is_present(reading: Reading, start: int, end: int) -> bool:
    """A denial inside the finding is part of it: "cannot pass urine"."""
    for mark in _meeting(reading.marks, start, end):
        own = start <= mark.trigger_start < mark.trigger_end <= end
        if mark.assertion and not own:
            return False
    return not any(_meeting(reading.normal, start, end))


def _meeting(places: Sequence[Place], start: int, end: int) -> Iterator[Place]:
    """Those of places in order and apart, each beginning with its start and end, that meet a stretch."""
    first = bisect(places, start, key=itemgetter(1))
    return takewhile(lambda place: place[0] < end, map(places.__getitem__, range(first, len(places))))


class _PartsOf(dict[str, tuple[int, ...]]):
    """The parts of ways that a word can match; cached, because words repeat."""

    def __init__(self, known: dict[str, list[int]]) -> None:
        self.known = known  # by whole words, and by beginnings with a star
        self.longest = max(map(len, known), default=0)  # a word may be a megabyte long

    def __missing__(self, word: str) -> tuple[int, ...]:
        lengths = range(min(len(word), self.longest) + 1)
        as_said = (word, *(f"{word[:n]}*" for n in lengths))
        found = tuple(part for said in as_said for part in self.known.get(said, ()))
        if len(self) < _MOST_WORDS:
            self[word] = found
        return found


@cache
def _index() -> tuple[_PartsOf, dict[int, list[tuple[int, frozenset[int], str]]]]:
    """A map from words to the parts that they can match, and a map from each way's rarest part to the way:
    the number of its red flag, all its parts, and its pattern."""
    numbers: dict[str, int] = {}
    ways: dict[int, list[tuple[int, frozenset[int], str]]] = {}
    for i, flag in enumerate(red_flags()):
        for said in flag.ways:
            left, both, right = said.partition(" & ")
            for way in (f"{left} ~ {right}", f"{right} ~ {left}") if both else (said,):
                parts = [part for part in way.split() if part not in _GAPS]
                needs = [numbers.setdefault(part, len(numbers)) for part in parts]
                rare = max(parts, key=lambda part: min(map(len, _words_of(part))))
                ways.setdefault(numbers[rare], []).append((i, frozenset(needs), way))
    known: dict[str, list[int]] = {}
    for part, number in numbers.items():
        for word in _words_of(part):  # "can't" is read as "can" and "t"
            known.setdefault(re.split("['_]", word)[0], []).append(number)
    return _PartsOf(known), ways


@cache
def _words_of(part: str) -> list[str]:
    return [word for one in part.split("|") for word in _classes().get(one, one).split("|")]


@cache
def _classes() -> dict[str, str]:
    return dict(re.findall(r"^([A-Z]+) = (.*)$", _source(), re.M))


@cache
def _compiled(way: str) -> re.Pattern[str]:
    pattern, between = "", ""
    for part in way.split():
        escaped = (re.escape(word).replace(r"\*", r"\w*") for word in _words_of(part))
        either = "|".join(word.replace("_", _BETWEEN) for word in escaped)
        pattern += "" if part in _GAPS else f"{between}(?:{either})"
        between = _GAPS.get(part, _BETWEEN)
    return re.compile(rf"\b{pattern}\b")


@cache
def _source() -> str:
    return (files("simdx.library") / "data" / "red_flags.txt").read_text(encoding="utf-8")
