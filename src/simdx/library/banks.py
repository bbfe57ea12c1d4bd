"""Texts of the library for a label: those of the condition it names, then of the kinds of it."""

from __future__ import annotations

from itertools import chain, zip_longest

from simdx.library.conditions import Condition, conditions, texts
from simdx.library.search import meant_by, plain
from simdx.types import Label

MOST_TEXTS = 60  # of a label; its own condition's first


def conditions_of(label: Label) -> tuple[Condition, ...]:
    """The condition that a label names, if there is one, then the kinds of it."""
    names = (label.name, *label.aliases, *label.icd10)
    match = next((m for name in names if (m := meant_by(name)) is not None), None)
    own = () if match is None else (match.condition,)
    wider = {plain(name) for name in (label.name, *label.aliases, *(c.name for c in own))}
    kinds = (c for c in conditions() if c not in own and not wider.isdisjoint(map(plain, c.broader)))
    return (*own, *kinds)


def texts_for(label: Label) -> tuple[str, ...]:
    """Texts that describe a label; none where the library does not know it."""
    found = conditions_of(label)
    of = {c.name: [t.text for t in texts() if t.condition == c.name] for c in found}
    own = of[found[0].name] if found and meant_by(label.name) is not None else []
    others = [of[c.name] for c in found if not own or c is not found[0]]
    in_turn = (text for text in chain.from_iterable(zip_longest(*others)) if text is not None)
    return tuple(dict.fromkeys([*own, *in_turn]))[: max(MOST_TEXTS, len(own))]
