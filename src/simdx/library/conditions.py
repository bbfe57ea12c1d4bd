"""What the library holds: conditions with their names and codes, and texts that describe them.

Every text was written for itself by a language model, in a patient's words (`lay`) or as a clinician's note
(`note`), and never names its condition. Everyday topics (`topic`) stand beside them, for panels that are not
about illness. No clinician has reviewed the texts (docs/datasheets/library.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from simdx.types import content_hash

Register = Literal["lay", "note", "topic"]
REGISTERS: tuple[Register, ...] = ("lay", "note", "topic")
TOPIC = "everyday topic"  # the system of what is no condition
_LISTS = ("aliases", "broader", "same")


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    aliases: tuple[str, ...] = ()
    icd10: str = ""
    system: str = TOPIC
    emergency: bool = False  # needs care the same day: must not be missed
    common: int = 3  # 5 everyday in general practice … 1 rare
    broader: tuple[str, ...] = ()  # wider classes that it is a kind of
    same: tuple[str, ...] = ()  # so alike that beside a panel with one of them it is not "something else"

    @property
    def medical(self) -> bool:
        return self.system != TOPIC


@dataclass(frozen=True, slots=True)
class LibraryText:
    condition: str
    register: Register
    text: str


@cache
def conditions() -> tuple[Condition, ...]:
    """Every condition, then every everyday topic."""
    rows = (json.loads(line) for line in _lines("conditions.jsonl"))
    return tuple(Condition(**row | {name: tuple(row.get(name, ())) for name in _LISTS}) for row in rows)


@cache
def _by_name() -> dict[str, Condition]:
    return {c.name: c for c in conditions()}


def condition(name: str) -> Condition:
    """The condition of exactly that name; KeyError where there is none."""
    return _by_name()[name]


@cache
def _numbers() -> dict[str, int]:
    return {c.name: i for i, c in enumerate(conditions())}


def number_of(name: str) -> int:
    """Where the condition of exactly that name stands among `conditions`."""
    return _numbers()[name]


@cache
def texts() -> tuple[LibraryText, ...]:
    """Every text, in the order of the conditions."""
    return tuple(LibraryText(*json.loads(line)) for line in _lines("texts.jsonl"))


@cache
def version() -> str:
    """Identity of everything the library says: part of what an answer against it depends on."""
    return _lines("VERSION")[0]


def digest() -> str:
    """What `version` must be; a test compares the two."""
    return content_hash("library", *_lines("conditions.jsonl"), *_lines("texts.jsonl"))[:16]


@cache
def _lines(name: str) -> tuple[str, ...]:
    source = files("simdx.library").joinpath("data", name)
    return tuple(source.read_text(encoding="utf-8").splitlines())
