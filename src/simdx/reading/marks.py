"""Stretches of a text with their assertions, sorted and without overlaps."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from simdx.reading.events import ASSERTIONS


class Mark(NamedTuple):
    """A stretch of text with its assertion, and the trigger that gave it."""

    start: int
    end: int
    assertion: int
    trigger_start: int
    trigger_end: int


_TRIGGER = len(ASSERTIONS)  # stronger than any assertion


def without_overlaps(marks: list[Mark]) -> list[Mark]:
    """Where marks overlap, the stronger assertion wins, in the order of `ASSERTIONS`; triggers have none."""
    if len(marks) < 2:
        return marks
    marks.sort()
    at = 0
    for one in marks:
        if one.start < at:
            break
        at = one.end
    else:
        return marks
    triggers = {mark[3:] for mark in marks if mark.trigger_start < mark.trigger_end}
    marks = sorted([*marks, *(Mark(*trigger, _TRIGGER, *trigger) for trigger in triggers)])
    out: list[Mark] = []
    over: list[Mark] = []  # marks that cover the current stretch
    following = iter([*marks, None])
    mark = next(following)
    bounds = sorted({place for one in marks for place in one[:2]})
    for start, end in pairwise(bounds):
        over = [one for one in over if one.end > start]
        while mark is not None and mark.start <= start:
            over.append(mark)
            mark = next(following)
        if not over:
            continue
        strongest = max(over, key=lambda one: (one.assertion, -one.start))
        if strongest.assertion == _TRIGGER:
            continue
        if out and out[-1].end == start and out[-1][2:] == strongest[2:]:
            out[-1] = out[-1]._replace(end=end)
        else:
            out.append(strongest._replace(start=start, end=end))
    return out
