"""How each finding of a text is meant: present, negated, possible, hypothetical, past, or of another person.

A trigger gives its assertion to the words before or after it, up to the end of its scope: a contrasting
conjunction, a new trigger, another clause, the end of the sentence, or a number of words. The algorithm is
that of NegEx and ConText (`triggers.txt` has the references); lists, checklists, sections and text without
punctuation are added.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left

from simdx.reading.events import (
    AND,
    ANNOUNCING,
    ANSWER,
    ARTICLES,
    BEHIND,
    CLAUSE_VERBS,
    CLOSING,
    COLON,
    COMMA,
    CONTINUING,
    DENYING,
    DOUBTED,
    EITHER,
    END,
    FAMILY,
    FILLERS,
    FREE_OF,
    FROM,
    HERE,
    HYPOTHETICAL,
    MEANT,
    NARROW,
    NEGATED,
    NUMBERS,
    ONE_BY_ONE,
    OR,
    PAST,
    POSSIBLE,
    PRESENT,
    SECTIONS,
    SINGLE,
    STARTERS,
    STRONG_ENDS,
    SUBJECTS,
    TAILS,
    TELLING,
    TO,
    TRIGGERS,
    WHAT,
    WITH,
    WORD,
    Event,
    events_of,
    sentences,
    small,
    tells,
)
from simdx.reading.marks import Mark, without_overlaps
from simdx.reading.parts import (
    after_words,
    closed_lists,
    describes,
    findings_alone,
    first_verb,
    in_brackets,
    is_clause,
    is_finding,
    is_graded,
    is_listed,
    is_there,
    new_clause,
    one_finding,
    queried,
)

MOST_WORDS = 10  # of one finding behind a trigger
MOST_WORDS_LISTED = 6  # of a further finding of the list
MOST_BEFORE_YEAR = 6  # "Colles fracture 2015"; a longer part tells when something began
# These doubt the next finding alone: "?PE, calf swelling", "poss stroke, slurred speech".
DOUBT_ONE = frozenset({"query", "?", "likely", "probable", "poss", "susp", "suspected"})

_ONSET = re.compile(
    r"\b(?:start\w*|began|begin\w*|onset|since|noti\w+|appear\w*|develop\w*|fell|injur\w*|hit|cut|for the|"
    r"over the|came|been|first|got|worse\w*|ongoing|return\w*|present\w*|past|within|during)\b"
)
# What follows the time of its own story: "in 2018 he developed a clot", "in 2022 and broke his arm".
_THEN = re.compile(r" (?:and|he|she|i|they) (?:\w+ed|broke|fell|took|came|went|lost|got|tore)\b")
_OVER = re.compile(r"\b(?:had|was|were|went|treated|underwent)\b")


def marks_of(text: str, denied_alone: bool = False) -> tuple[list[Mark], list[tuple[int, str]]]:
    """Every stretch not stated as present, sorted and without overlaps; and where each section begins.

    `denied_alone`: of sentences that may deny something, which takes less time.
    """
    low = small(text)
    words = DENYING if denied_alone else TELLING
    headed = not denied_alone and (":" in low or "\n" in low)
    if not headed and not tells(low, words, ".;!:-/"):
        return [], []
    marks: list[Mark] = []
    sections: list[tuple[int, str]] = []
    meant = since = 0  # the section's default assertion, and where the section began

    def leave(at: int) -> None:
        nonlocal meant
        if meant:
            _add(marks, low, since, at, meant, (since, since))
        meant = PRESENT

    for start, end, after, sign in sentences(text, low):
        if sign == "no":
            _add(marks, low, start, end, NEGATED, (end, after))
            continue
        if sign == "\n" and (name := low[start:end].strip()) in SECTIONS:  # a header on a line of its own
            leave(start)
            section, meant = SECTIONS[name]
            since = after
            sections.append((since, section))
            continue
        sentence, colon = low[start:end], low.find(":", start, end)
        if colon >= 0 and (name := low[start:colon]).count(" ") < 4:
            leave(start)
            name = name.strip(" \t\n*#-.0123456789")
            if name in SECTIONS and not ANSWER.match(low, colon):  # "Allergies: none known" is an answer
                section, meant = SECTIONS[name]
                since = start = colon + 1
                sections.append((since, section))
        if sign == "?" and not denied_alone:
            since_comma = queried(low, start, end)
            if since_comma < end:
                _add(marks, low, since_comma, end, POSSIBLE, (end, end + 1))
        joined = ":-/" if colon >= 0 else ""
        if not meant and not tells(sentence, words, joined):
            continue
        events = events_of(low, start, end)
        if meant:
            here = next((event[FROM] for event in events if event[WHAT] == HERE), None)
            if here is not None:
                leave(here)
        marks += _Sentence(low, events, start, end).marks()
    leave(len(low))
    return without_overlaps(marks), sections


def _add(marks: list[Mark], low: str, start: int, end: int, assertion: int, trigger: tuple[int, int]) -> None:
    while start < end and not low[start].isalnum():
        start += 1
    while start < end and low[end - 1] in " ,;:(\n\t":
        end -= 1
    if start < end:
        marks.append(Mark(start, end, assertion, *trigger))


class _Sentence:
    """One sentence with its events, its start and its end."""

    def __init__(self, low: str, events: list[Event], start: int, end: int) -> None:
        self.low, self.events, self.start, self.end = low, events, start, end
        kinds = [event[WHAT] for event in events]
        self.unpunctuated = COMMA not in kinds and (end == len(low) or low[end] == "\n")
        self.first_narrow = kinds.index(NARROW) if NARROW in kinds else len(kinds)
        self.negated = [i for i, event in enumerate(events) if event[MEANT] == NEGATED]
        self.closed, self.joined = closed_lists(low, events, kinds, end)

    def marks(self) -> list[Mark]:
        out: list[Mark] = []
        given = said = 0  # assertion and end of the trigger before, so that "denies history of" denies
        for i, event in enumerate(self.events):
            start, end, what, assertion, _ = event
            if what not in TRIGGERS:
                continue
            if given and FILLERS.issuperset(self.low[said:start].split()):
                assertion = max(assertion, given)
            given = PRESENT
            if what == BEHIND:
                begin, stop = self._clause_start(i), start
                if event[WORD].isdigit() and self.low.count(" ", begin, stop) > MOST_BEFORE_YEAR:
                    continue
                if self.events[i][WORD] == "free":  # "a rash, pain-free": one finding, or none
                    begin = max(begin, self._last_word(start))
                    said_free = self.low[begin:start].rstrip(" -")
                    if said_free not in FREE_OF and not is_finding(said_free):
                        continue
                    stop = begin + len(said_free)
                _add(out, self.low, begin, stop, assertion, (start, end))
            elif what == EITHER:
                for first, last in self._both_sides(i, assertion):
                    _add(out, self.low, first, last, assertion, (start, end))
            else:
                stop = self._scope_end(i, assertion, what == NARROW or assertion == POSSIBLE)
                # "His sister's eczema is worse than his"; but "her mother's side has".
                if self.low.endswith("'s", start, end) and not self.low.startswith(" side", end):
                    stop = first_verb(self.low, end, stop)
                _add(out, self.low, end, stop, assertion, (start, end))
                given, said = assertion, end
        return out

    def _scope_end(self, at: int, assertion: int, narrow: bool) -> int:
        """Where the scope of a trigger that stands before its findings ends."""
        low, events = self.low, self.events
        begin = events[at][TO]
        firm = assertion == HYPOTHETICAL  # a condition goes on to the end of its sentence
        strict = assertion == NEGATED and (
            narrow
            or events[at][WORD] in ONE_BY_ONE
            or events[at][WHAT] == SINGLE
            or events[at][MEANT] != NEGATED  # "no previous"
        )
        # "No history of asthma or gout, wheeze": the words behind the list are present.
        closes = strict or (assertion == NEGATED and events[at][WORD] == "no")
        either_or = listed = False
        before: Event | None = None  # the comma or the "and" that ended the part before
        prior: list[str] = []  # the words of that part
        for j in range(at + 1, len(events) + 1):
            event = events[j] if j < len(events) else None
            if event and event[WORD] == "before" and assertion == NEGATED:
                continue
            stop = event[FROM] if event else self.end
            words = low[begin:stop].split()
            if before is not None:
                following = (words[0] if words else event[WORD] if event else "").partition("'")[0]
                if self._parts(at, j - 1, assertion, following, either_or, listed, narrow):
                    return before[FROM]
                listing = before[WHAT] == COMMA and words and words[0] not in CONTINUING
                if (
                    listing
                    and assertion in (NEGATED, POSSIBLE)
                    and j - 1 not in self.closed
                    and (
                        (
                            closes
                            and either_or
                            and prior
                            and not in_brackets(low, events[at][TO], before[FROM])
                        )
                        or self._is_apart(at, j, words, prior, strict, listed)
                    )
                ):
                    return before[FROM]  # "no rash or itch, throat red": the list was closed
                listed, before = True, None
            if listed and not either_or and (len(words) > MOST_WORDS_LISTED or is_clause(words)):
                return begin
            if self.unpunctuated and (narrow or assertion == NEGATED):
                cut = one_finding(low, begin, stop) if narrow else new_clause(low, begin, stop)
                if cut < stop and not (event and event[WHAT] == OR and findings_alone(low, cut, stop)):
                    return cut
            if len(words) > MOST_WORDS:
                return after_words(low, begin, self.end, MOST_WORDS)
            if event is None:
                return stop
            what = event[WHAT]
            if what in (COMMA, AND):
                before, prior = event, words
            elif what == OR:
                either_or = listed = True
            elif what == WITH:
                if words and not firm:
                    return stop
            elif what == END:
                subject = not words and event[WORD] in SUBJECTS
                if not subject and not (firm and event[WORD] not in STRONG_ENDS):
                    return stop
            elif assertion == NEGATED and not words and self._goes_on(j):
                pass
            elif what == COLON:
                # "no rash: no treatment needed", "r/o stroke: facial droop"
                if (strict or assertion == POSSIBLE) and words and ANNOUNCING.isdisjoint(words):
                    return stop
            elif assertion < HYPOTHETICAL or assertion <= event[MEANT] or what == HERE:
                return stop  # else as in "if there is no improvement", "family history is negative for"
            begin = event[TO]
        return self.end

    def _goes_on(self, j: int) -> bool:
        """Whether a possible finding belongs to a denied list: "no effusion or suspicious opacity"."""
        event, joined = self.events[j], self.events[j - 1][WHAT]
        doubt = event[WORD] in ("suspicious", "concerning") and not self.low.startswith(" for", event[TO])
        return doubt and (joined == OR or (joined == COMMA and j + 1 in self.closed))

    def _parts(
        self, at: int, j: int, assertion: int, following: str, either_or: bool, listed: bool, narrow: bool
    ) -> bool:
        """Whether a comma or an "and" separates two clauses, not two findings of a list."""
        firm = assertion == HYPOTHETICAL
        if following in STARTERS and not (firm and following not in ("i", "my", "it")):
            return True
        if self.events[j][WHAT] == AND:
            also = narrow and assertion == NEGATED and self.unpunctuated  # "no fever and a cough"
            return (also and following in ARTICLES) or (either_or and not firm)
        if assertion == POSSIBLE and self.events[at][WORD] in DOUBT_ONE:
            return j not in self.closed
        if assertion == FAMILY:  # "mother had breast cancer, no mass", but "mother has no gout, no lupus"
            said = self.low[self.events[at][FROM] : self.events[at][TO]]
            denied = bisect(self.negated, at) < bisect_left(self.negated, j)  # between the two
            return following in ("no", "nil", "denies", "without") and "family" not in said and not denied
        if assertion != NEGATED:
            return False
        if following in ("w/", "with"):  # "w/o fever, w/ cough"
            return True
        if following == "and" and not listed:  # "no cough, and a bit of fever" is no list
            return True
        # "No cough, no fever, runny nose": one trigger for each finding. An "or" further on makes it a list.
        own = self.first_narrow < at or following in ARTICLES
        return narrow and own and j not in self.closed

    def _is_apart(
        self, at: int, j: int, words: list[str], prior: list[str], strict: bool, listed: bool
    ) -> bool:
        """Whether the part between a comma and the event j is no further finding of the list."""
        event = self.events[j] if j < len(self.events) else None
        if self.events[at][WHAT] == SINGLE:  # "not cyanotic, anxious"
            return True
        if event and (
            event[WHAT] == BEHIND or event[WORD] in CLAUSE_VERBS or event[WORD] in ("positive", "pos")
        ):
            return True  # "no fever, pain persists", "no swelling, rash resolved"
        if describes(prior):
            return False
        # "No wheeze, stridor, anything" is a list by now, "no pain in the back, arms and legs" one of places.
        joined = event is not None and event[WHAT] == AND
        bare = len(words) == 1 and (listed or (joined and not TAILS.isdisjoint(prior)))
        if joined and strict and not listed:  # "no fever, nausea and vomiting for 2 days": both are there
            event = self.events[j + 1] if j + 1 < len(self.events) else None
        said = self.low[self.events[j - 1][TO] - 1 : event[FROM] if event else self.end]
        return is_there(said, words) or (
            strict
            and (
                not CLOSING.isdisjoint(prior[-1:])  # "no rash anywhere, fever"
                or is_graded(words)
                or (j - 1 not in self.joined and not bare and not is_listed(words))
            )
        )

    def _last_word(self, stop: int) -> int:
        """Where the word before a place begins."""
        return max(self.low.rfind(" ", self.start, stop - 1) + 1, self.start)

    def _clause_start(self, at: int) -> int:
        """Where the clause before a trigger begins. A plural verb applies to the whole list before it."""
        low, events = self.low, self.events
        trigger = events[at]
        plural = trigger[WORD] in ("are", "were", "have", "all") or " all" in low[trigger[FROM] : trigger[TO]]
        whole = plural
        for j in range(at - 1, -1, -1):
            event = events[j]
            if (event[WHAT] == AND or event[WORD] == "but") and self._after_doubt(j, at):
                whole = True
            elif event[WHAT] == COMMA:
                resolved = trigger[MEANT] == PAST and not low[event[TO] : trigger[FROM]].strip()
                if not whole and not resolved:  # "anaemia, resolved"
                    return event[TO]
            elif event[WHAT] in (AND, OR):
                before = low[events[j - 1][TO] if j else self.start : event[FROM]].split()
                if not plural and (not before or is_clause(before)):  # "he was well, and fever was denied"
                    return event[TO]
                whole = True
            elif event[WHAT] not in (WITH, COLON) and not self._doubted(j, at):
                return event[TO]
        return self.start

    def _after_doubt(self, j: int, at: int) -> bool:
        """Whether a conjunction joins a denial to a possible finding: "was considered, but excluded"."""
        k = j - 1 - (self.events[j - 1][WHAT] == COMMA) if j else -1
        between = self.low[self.events[k][TO] : self.events[j][FROM]].strip(" ,") if k >= 0 else "-"
        return not between and self._doubted(k, at)

    def _doubted(self, j: int, at: int) -> bool:
        """Whether a possible finding is then denied: "the fracture suspected on the film is excluded"."""
        doubt = self.events[j]
        said = doubt[MEANT] == POSSIBLE and self.low.endswith(DOUBTED, doubt[FROM], doubt[TO])
        return said and doubt[FROM] > self.start and self.events[at][MEANT] == NEGATED

    def _both_sides(self, at: int, assertion: int) -> list[tuple[int, int]]:
        """The scope of a trigger such as "in the past": the words after it if it begins its clause, else the
        words before it."""
        low, event = self.low, self.events[at]
        begin = self._clause_start(at)
        clause = low[begin : event[FROM]]
        leads = all(word.isdigit() or word in NUMBERS for word in clause.replace(",", " ").split())
        if assertion == PAST:
            if leads and low.endswith("since", self.start, begin):
                return []
            of_time = low[event[FROM] : event[TO]].split()[1:]
            recent = event[WORD] == "months" or of_time in (["week"], ["month"])
            if leads and recent and " had " not in low[event[TO] : event[TO] + 20]:
                return []
            if not leads and (_ONSET.search(clause) or (recent and not _OVER.search(clause))):
                return []
        then = event[WORD] in ("in", "when", "as", "during") and _THEN.match(low, event[TO]) is not None
        onward = leads or then or assertion == POSSIBLE or low.startswith((" with ", " for "), event[TO])
        after = [(event[TO], self._scope_end(at, assertion, False))] if onward else []
        return after if leads else [(begin, event[FROM]), *after]
