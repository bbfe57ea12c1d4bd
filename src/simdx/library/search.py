"""Find conditions by name, alias, ICD-10 code or meaning; those that a label means, and their texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from typing import Literal

import numpy as np

from simdx.embedders import embed_texts, get_embedder
from simdx.errors import BadInput
from simdx.library.conditions import Condition, condition, conditions, texts
from simdx.library.likeness import directions, embedded, library_likeness, unit, words
from simdx.types import Float, Label

How = Literal["name", "alias", "code", "meaning"]
# British and American spellings, and the plural, are one name.
_SPELLINGS = (("ae", "e"), ("oe", "e"), ("our", "or"), ("phth", "ft"), ("ph", "f"), ("yse", "yze"))


@dataclass(frozen=True, slots=True)
class Match:
    condition: Condition
    how: How
    score: float  # 1 for a name, an alias or a code; a cosine for a meaning


@cache
def plain(name: str) -> str:
    """A name as it is compared: no case, accents, brackets, punctuation, articles or spelling variants."""
    bare = name.casefold()
    if not bare.isascii():  # nearly all are, and a cold start compares thousands
        bare = unicodedata.normalize("NFKD", bare)
        bare = "".join(c for c in bare if not unicodedata.combining(c))
    bare = re.sub(r"['’]s\b", "", re.sub(r"\([^)]*\)", " ", bare))
    for long, short in _SPELLINGS:
        bare = bare.replace(long, short)
    words = [w for w in re.findall(r"[a-z0-9]+", bare) if w not in ("the", "a", "an", "of")]
    return " ".join(w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in words)


@cache
def _names() -> dict[str, tuple[Condition, How]]:
    found: dict[str, tuple[Condition, How]] = {}
    for c in conditions():
        for alias in c.aliases:
            found.setdefault(plain(alias), (c, "alias"))
    for c in conditions():
        found[plain(c.name)] = (c, "name")
    found.pop("", None)  # an alias such as AN, which is an article elsewhere
    return found


def meant_by(name: str) -> Match | None:
    """The condition that a name, an alias or an ICD-10 code stands for."""
    if (found := _names().get(plain(name))) is not None:
        return Match(found[0], found[1], 1.0)
    code = name.strip().upper()
    if re.fullmatch(r"[A-Z]\d\d(\.?\w{1,4})?", code):
        same = [c for c in conditions() if c.icd10 and c.icd10.split(".")[0] == code[:3]]
        exact = [c for c in same if c.icd10 == code]
        if exact or len(same) == 1:
            return Match((exact or same)[0], "code", 1.0)
    return None


def named_twice(labels: Iterable[str]) -> Iterator[str]:
    """What is said of each label that is one condition with a label before it."""
    seen: dict[str, str] = {}
    for name in dict.fromkeys(labels):
        if (match := meant_by(name)) is None:
            continue
        if (other := seen.setdefault(match.condition.name, name)) != name:
            yield f"'{other}' and '{name}' are both the library's '{match.condition.name}'"


def refuse_twice(labels: Iterable[str]) -> None:
    """Two labels that are one condition share all of its texts: nothing tells them apart."""
    for said in named_twice(labels):
        raise BadInput(f"{said}: leave one out")


def find(query: str, most: int = 10, *, medical: bool | None = None) -> list[Match]:
    """Conditions for a query, the best first: what it names, what begins like it, then what it means."""
    wanted = plain(query)
    allowed = [c for c in conditions() if medical is None or c.medical == medical]
    found: dict[str, Match] = {}
    if (exact := meant_by(query)) is not None and exact.condition in allowed:
        found[exact.condition.name] = exact
    code = query.strip().upper()
    for c in allowed:
        names = [plain(c.name), *map(plain, c.aliases), *map(plain, c.broader)]
        if wanted and any(f" {wanted}" in f" {name}" for name in names):
            found.setdefault(c.name, Match(c, "alias", 1.0))
        elif c.icd10 and re.fullmatch(r"[A-Z]\d[\w.]*", code) and c.icd10.startswith(code):
            found.setdefault(c.name, Match(c, "code", 1.0))
    if wanted and len(found) < most:
        for match in suggestions(query, most, medical=medical):
            found.setdefault(match.condition.name, match)
    return list(found.values())[:most]


def suggestions(query: str, most: int = 5, *, medical: bool | None = None) -> list[Match]:
    """Conditions by meaning: the cosine of the query with their names and aliases."""
    every, vectors = _meanings()
    score = vectors @ unit(embed_texts(get_embedder("wordllama"), [query]))[0]
    best: dict[str, float] = {}
    for i in np.argsort(-score):
        c = every[int(i)]
        if (medical is None or c.medical == medical) and c.name not in best:
            best[c.name] = float(score[i])
        if len(best) == most:
            break
    return [Match(condition(name), "meaning", value) for name, value in best.items()]


@cache
def _meanings() -> tuple[tuple[Condition, ...], Float]:
    pairs = [(c, name) for c in conditions() for name in (c.name, *c.aliases)]
    vectors = embed_texts(get_embedder("wordllama"), [name for _, name in pairs])
    return tuple(c for c, _ in pairs), unit(vectors)


def nearest(text: str, most: int = 3, *, without: frozenset[str] = frozenset()) -> list[Match]:
    """Medical conditions that a text is most like, with their shares of the likeness to all of them."""
    every = conditions()
    score = library_likeness()[0].scores(directions(embedded([text])), words([text]))[0]
    score[[not c.medical or c.name in without for c in every]] = -np.inf
    share = np.exp(score - score.max())
    share /= share.sum()
    return [Match(every[i], "meaning", float(share[i])) for i in np.argsort(-share)[:most]]


def related_to(labels: Sequence[Label]) -> frozenset[str]:
    """Names of the conditions that labels speak for: the same thing, a kind of it, or too alike to be
    something else. They are left out of the world beside a panel with these labels."""
    named = {plain(name) for label in labels for name in (label.name, *label.aliases)}
    codes = {code.upper() for label in labels for code in label.icd10}
    own = {m.condition.name for label in labels if (m := meant_by(label.name)) is not None}
    said = {plain(name) for name in own} | named
    return frozenset(c.name for c in conditions() if c.name in own or _speaks_of(c, said, codes))


def _speaks_of(c: Condition, said: Iterable[str], codes: Iterable[str]) -> bool:
    names = {plain(name) for name in (c.name, *c.aliases, *c.broader, *c.same)}
    # A code stands for the codes under it; those beside it are other conditions.
    coded = bool(c.icd10) and any(c.icd10.startswith(code) or code.startswith(c.icd10) for code in codes)
    return coded or not names.isdisjoint(said)


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
