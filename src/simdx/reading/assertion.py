"""How each finding of a text is meant: present, negated, possible, hypothetical, past, or of another person.

One regular expression finds the places where a trigger, a conjunction or a stop may stand; most words are
never looked at. A trigger gives its assertion to the words before or behind it, up to what ends its scope: a
stop, a contrasting conjunction, a new trigger, another clause, or a number of words. The algorithm is that of
NegEx and ConText (`triggers.txt` has the references); the additions are lists, checklists, sections and
unpunctuated text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from simdx.reading.triggers import (
    ARTICLES,
    CLAUSE_VERBS,
    FILLERS,
    FINDING_ENDINGS,
    FINDINGS,
    HYPOTHETICAL,
    NEGATED,
    NUMBERS,
    PAST,
    POSSIBLE,
    PRESENT,
    REPORTED,
    RULES,
    SECTIONS,
    STARTERS,
    STRONG_ENDS,
    TAILS,
    Rule,
)

# What an event is: the kinds of `triggers.txt`, and punctuation.
BEFORE, BEHIND, EITHER, NARROW, NOTHING, HERE = "before", "behind", "either", "narrow", "nothing", "here"
END, AND, OR, WITH = "end", "and", "or", "with"
COMMA, COLON, STOP = "comma", "colon", "stop"

MOST_WORDS = 10  # of one finding behind a trigger
MOST_WORDS_LISTED = 6  # of a further finding of the list


class Event(NamedTuple):
    """A place that matters: a trigger, a conjunction or a stop."""

    start: int
    end: int
    what: str
    assertion: int
    word: str


class Mark(NamedTuple):
    """A stretch of text with its assertion, and the trigger that gave it."""

    start: int
    end: int
    assertion: int
    trigger_start: int
    trigger_end: int
    section: str | None


_TRIGGERS = frozenset({BEFORE, NARROW, BEHIND, EITHER})
_ANSWER = re.compile(
    r"(?:\?|:|=|\s-|\()\s*"
    r"(?:(?P<no>no|none|n|nil|absent|negative|never|nowhere|not at all|none known)|"
    r"(?:yes|y|present|positive))\b\)?"
    r"(?=\s*(?:[.,;)\n]|$))"
)
_WORD = re.compile(r"[^\s,;.:()]+")
_ONSET = re.compile(
    r"\b(?:start\w*|began|begin\w*|onset|since|noti\w+|appear\w*|develop\w*|fell|injur\w*|hit|cut|for the|"
    r"over the|came|been|first|got|worse\w*|ongoing|return\w*|present\w*|past|within|during)\b"
)
_OVER = re.compile(r"\b(?:had|was|were|went|treated|underwent)\b")


def _tree(words: list[str]) -> str:
    """A regular expression for any of the words that looks at each letter once."""
    branches: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        if word:
            branches[word[0]].append(word[1:])
    if not branches:
        return ""
    inner = "|".join(re.escape(first) + _tree(rest) for first, rest in sorted(branches.items()))
    return f"(?:{inner}){'?' if '' in words else ''}"


_SCAN = re.compile(
    rf"(?<![\w'])(?:{_tree(sorted(RULES))})(?!\w)"
    r"|\([-+]\)|(?<!\w)[-+]ve\b|\?(?=\w)|[.?!;](?=\s|$|[)\"'”])|[\n,:(]| -(?=\s)"
)
_compiled: dict[str, re.Pattern[str]] = {}  # compiled when a word is first met


def _phrase(word: str, low: str, end: int) -> tuple[Rule, int] | None:
    """The rule and the end of the phrase that a first word opens, where it opens one."""
    pattern = _compiled.get(word)
    if pattern is None:
        rests = "|".join(f"((?:{rule.rest})(?!\\w))" for rule in RULES[word])
        pattern = _compiled[word] = re.compile(rests)
    match = pattern.match(low, end)
    return (RULES[word][(match.lastindex or 1) - 1], match.end()) if match else None


def events_of(text: str) -> tuple[str, list[Event]]:
    """The text in small letters of the same length, and the places that matter."""
    low = text.lower().replace("’", "'")
    if len(low) != len(text):  # a letter such as İ has a small form of two characters
        low = "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("’", "'")
    found: list[Event] = []
    done = 0
    for match in _SCAN.finditer(low):
        start, end = match.span()
        if start < done:
            continue
        word = match[0]
        if word in RULES:
            phrase = _phrase(word, low, end)
            if phrase is not None:
                rule, done = phrase
                found.append(Event(start, done, rule.what, rule.assertion, word))
        elif word == ",":
            found.append(Event(start, end, COMMA, 0, word))
        elif word == "\n":
            following = text[end : end + 1]
            if not following or following.isupper() or not following.isalpha():
                found.append(Event(start, end, STOP, 0, word))
        elif word in ".!;":
            found.append(Event(start, end, STOP, 0, word))
        else:
            done = _mark_of_punctuation(word, low, start, end, found)
    return low, found


def _mark_of_punctuation(word: str, low: str, start: int, end: int, found: list[Event]) -> int:
    answer = _ANSWER.match(low, start) if word in ("?", ":", "(", " -") else None
    if answer:
        no = answer["no"] is not None
        found.append(Event(start, answer.end(), BEHIND if no else NOTHING, NEGATED if no else PRESENT, word))
        if word != "(":
            found.append(Event(answer.end(), answer.end(), STOP, 0, ""))
        return answer.end()
    if word in ("(-)", "-ve"):
        found.append(Event(start, end, NARROW, NEGATED, word))
    elif word in ("(+)", "+ve"):
        found.append(Event(start, end, HERE, PRESENT, word))
    elif word == "?" and low[end : end + 1].isalpha():
        found.append(Event(start, end, BEFORE, POSSIBLE, word))
    elif word == "?":
        found.append(Event(start, end, STOP, 0, word))
    elif word == ":":
        found.append(Event(start, end, COLON, 0, word))
    elif word == " -":
        found.append(Event(start, end, END, 0, word))
    return end


def marks_of(text: str) -> list[Mark]:
    """Every stretch that is not plainly present, in order, without overlaps."""
    low, events = events_of(text)
    reader = _Reader(low, events)
    return _without_overlaps(reader.read())


class _Reader:
    """Reads one text, sentence by sentence."""

    def __init__(self, low: str, events: list[Event]) -> None:
        self.low, self.events = low, events
        self.marks: list[Mark] = []
        self.section: str | None = None
        self.meant = PRESENT  # by default, in this section
        self.since = 0  # where that default began

    def read(self) -> list[Mark]:
        first, start = 0, 0
        for i, event in enumerate(self.events):
            if event.what == STOP:
                if i > first:
                    self._sentence(first, i, start, event.start)
                first, start = i + 1, event.end
        if len(self.events) > first:
            self._sentence(first, len(self.events), start, len(self.low))
        self._leave(len(self.low), None, PRESENT)
        return self.marks

    def _leave(self, at: int, section: str | None, meant: int, since: int | None = None) -> None:
        """End the section here; what it said by default becomes a mark."""
        if self.meant and at > self.since:
            self.marks.append(Mark(self.since, at, self.meant, self.since, self.since, self.section))
        self.section, self.meant, self.since = section, meant, at if since is None else since

    def _sentence(self, first: int, last: int, start: int, end: int) -> None:
        events = self.events
        i = first
        while i < last:
            what = events[i].what
            if what == COLON:
                name = self.low[start : events[i].start].strip(" \t\n*#-.0123456789")
                known = SECTIONS.get(name)
                if known is not None:
                    self._leave(start, *known, since=events[i].end)
                    first, start = i + 1, events[i].end
                elif self.meant and name.count(" ") < 3:
                    self._leave(start, None, PRESENT)
            i += 1
        meant = 0  # of the trigger before, so that "denies history of" denies
        said = -1
        for i in range(first, last):
            event = events[i]
            what = event.what
            if what == HERE:
                if self.meant:
                    self._leave(event.start, self.section, PRESENT)
                meant = 0
                continue
            if what not in _TRIGGERS:
                continue
            assertion = event.assertion
            if meant and (event.start - said < 2 or FILLERS.issuperset(self.low[said : event.start].split())):
                assertion = max(assertion, meant)
            if what == BEHIND:
                self._backward(i, first, start, assertion)
                meant = 0
            elif what == EITHER:
                self._either(i, first, last, start, end, assertion)
                meant = 0
            else:
                stop = self._forward(i, first, last, end, assertion, what == NARROW or assertion == POSSIBLE)
                self._mark(event.end, stop, assertion, event)
                meant, said = assertion, event.end

    def _mark(self, start: int, end: int, assertion: int, trigger: Event) -> None:
        low = self.low
        while start < end and not low[start].isalnum():
            start += 1
        while start < end and low[end - 1] in " ,;:(\n\t":
            end -= 1
        if start < end:
            self.marks.append(Mark(start, end, assertion, trigger.start, trigger.end, self.section))

    # ----- behind a trigger

    def _forward(self, at: int, first: int, last: int, end: int, assertion: int, narrow: bool) -> int:
        events, low = self.events, self.low
        trigger = events[at]
        unpunctuated = end == len(low) or low[end] == "\n"
        if unpunctuated:
            unpunctuated = all(events[i].what != COMMA for i in range(first, last))
        begin = trigger.end
        chosen = listed = False
        for j in range(at + 1, last + 1):
            event = events[j] if j < last else None
            stop = event.start if event else end
            words = low[begin:stop].split()
            if listed and not chosen and (len(words) > MOST_WORDS_LISTED or _is_clause(words)):
                return begin
            if narrow and unpunctuated:
                cut = self._one_finding(begin, stop)
                if cut < stop:
                    return cut
            if len(words) > MOST_WORDS:
                return self._after_words(begin, MOST_WORDS)
            if event is None:
                return end
            what = event.what
            if what in (COMMA, AND):
                following = self._word_at(event.end)
                if (following in STARTERS and assertion != HYPOTHETICAL) or following in ("i", "my", "it"):
                    return stop
                if what == AND and chosen and assertion != HYPOTHETICAL:
                    return stop
                if what == COMMA and assertion == NEGATED:
                    if following == "and" and not listed:  # "no cough, and a bit of fever" is no list
                        return stop
                    if narrow and self._ends_at_comma(at, first, j, last, following):
                        return stop
                listed = True
            elif what == OR:
                chosen = listed = True
            elif what == WITH:
                if words and assertion != HYPOTHETICAL:
                    return stop
            elif what == END:
                subject = not words and event.word in ("i", "pt", "patient")
                if not subject and (assertion != HYPOTHETICAL or event.word in STRONG_ENDS):
                    return stop
            elif what == COLON:
                pass
            elif assertion > event.assertion and assertion >= HYPOTHETICAL and what != HERE:
                pass  # "if there is no improvement", "family history is negative for"
            else:
                return stop
            begin = event.end
        return end

    def _ends_at_comma(self, at: int, first: int, comma: int, last: int, following: str) -> bool:
        """Whether "no" speaks for the finding before the comma alone. An "or" further on says that it does
        not.

        It does where the writer repeats "no" for each finding, as in "no cough, no fever, runny nose", and
        where what follows has an article or a number of its own.
        """
        events = self.events
        if any(events[i].what == OR for i in range(comma, last)):
            return False
        repeated = any(events[i].what == NARROW for i in range(first, at))
        return repeated or following in ARTICLES or following[:1].isdigit()

    def _one_finding(self, begin: int, stop: int) -> int:
        """Where the first finding ends, in text without punctuation."""
        count = 0
        open_tail = 0
        for word in _WORD.finditer(self.low, begin, stop):
            if word[0] in TAILS:
                open_tail = 2
            elif open_tail:
                open_tail -= word[0] not in ("the", "a", "his", "her", "left", "right", "l", "r")
                count = max(count, 2)
                if open_tail == 1:
                    open_tail = 0
            elif count >= 2:
                return word.start()
            else:
                count += 2 if word[0] in FINDINGS or word[0].endswith(FINDING_ENDINGS) else 1
        return stop

    def _after_words(self, begin: int, most: int) -> int:
        for i, word in enumerate(_WORD.finditer(self.low, begin)):
            if i + 1 == most:
                return word.end()
        return len(self.low)

    def _word_at(self, place: int) -> str:
        word = _WORD.search(self.low, place, place + 30)
        return word[0] if word else ""

    # ----- before a trigger

    def _backward(self, at: int, first: int, start: int, assertion: int) -> None:
        self._mark(self._clause_start(at, first, start), self.events[at].start, assertion, self.events[at])

    def _clause_start(self, at: int, first: int, start: int) -> int:
        events = self.events
        trigger = events[at]
        said = self.low[trigger.start : trigger.end]
        plural = trigger.word in ("are", "were", "have", "all", "?") or " all " in said
        whole = plural
        for j in range(at - 1, first - 1, -1):
            event = events[j]
            if event.what == COMMA:
                if not whole:
                    return event.end
            elif event.what in (AND, OR):
                before = self.low[events[j - 1].end if j > first else start : event.start].split()
                if not plural and (not before or _is_clause(before)):  # "he was well, and fever was denied"
                    return event.end
                whole = True
            elif event.what not in (WITH, COLON):
                return event.end
        return start

    def _either(self, at: int, first: int, last: int, start: int, end: int, assertion: int) -> None:
        event = self.events[at]
        begin = self._clause_start(at, first, start)
        clause = self.low[begin : event.start]
        recent = event.word in ("last", "months") and not self.low[: event.end].endswith("year")
        leads = not clause.strip(" \t\n,") or all(
            word.isdigit() or word in NUMBERS for word in clause.split()
        )
        if assertion == PAST and not leads:
            if _ONSET.search(clause):
                return
            if recent and not _OVER.search(clause):
                return
        if assertion == PAST and leads and recent and " had " not in self.low[event.end : event.end + 20]:
            return
        if leads or assertion == POSSIBLE:
            self._mark(event.end, self._forward(at, first, last, end, assertion, False), assertion, event)
        if not leads:
            self._mark(begin, event.start, assertion, event)


def _is_clause(words: list[str]) -> bool:
    return any(
        word in CLAUSE_VERBS and (i + 1 == len(words) or words[i + 1] not in REPORTED)
        for i, word in enumerate(words)
    )


def _without_overlaps(marks: list[Mark]) -> list[Mark]:
    """Where two marks meet, the stronger assertion holds; `triggers.py` gives the order."""
    marks.sort()
    if all(one.end <= other.start for one, other in pairwise(marks)):
        return marks
    bounds = sorted({place for mark in marks for place in (mark.start, mark.end)})
    out: list[Mark] = []
    for start, end in pairwise(bounds):
        over = [mark for mark in marks if mark.start < end and mark.end > start]
        if not over:
            continue
        strongest = max(over, key=lambda mark: (mark.assertion, -mark.start))
        if out and out[-1].end == start and out[-1][2:] == strongest[2:]:
            out[-1] = out[-1]._replace(end=end)
        else:
            out.append(strongest._replace(start=start, end=end))
    return out
