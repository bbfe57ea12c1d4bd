"""Raw replies of a model that was asked outside an experiment, read by the product's own readers.

    replies-MODEL/letters-PANEL.jsonl.gz     case, order of the options, likeliest next tokens with their logarithms
    replies-MODEL/WAY-tT-PANEL.jsonl.gz      case, question, sample, the words of the reply; asked at temperature T
    replies-MODEL/latency-PANEL.jsonl.gz     seconds of a case alone: `letters` read once, ten samples `together`

`-4bit` before the panel says that the weights were rounded. A reply that cannot be read is no answer.
"""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paper import engine
from paper.world import Cases
from simdx.types import Float, Int

_NAME = re.compile(r"(letters|elicited|ensemble|fidelity)(?:-t(\d+(?:\.\d+)?))?(?:-(\d+)bit)?-([a-z][a-z-]+)")
LEAST_READABLE = 0.5  # of the cases: below, the way of asking has failed and gives no row


@dataclass(frozen=True, slots=True, eq=False)
class Replies:
    """The replies of one file; `scores` are means over what could be read, by label."""

    model: str
    method: str  # logits | elicited | ensemble | fidelity
    temperature: float
    bits: int | None  # of rounded weights; None: as they are
    positions: Int
    scores: Float  # (N, K), or (N, orders, K) of the letters; zeros where nothing could be read
    readable: Float  # (N,) replies behind each
    calls: int  # a case
    seconds: float | None  # a case alone

    @property
    def answered(self) -> float:
        return float((self.readable > 0).mean())

    @property
    def probabilities(self) -> Float:
        """(N, K); what could not be read is answered by the uniform prior."""
        p = np.where(self.readable[:, None] > 0, self.scores, 1.0)
        return p / p.sum(axis=1, keepdims=True)


def read_replies(folder: Path, panel: str, cases: Cases) -> Iterator[Replies]:
    """Every file of replies about that panel's cases, matched to them by id."""
    position = {case.id: i for i, case in enumerate(cases.dataset.cases)}
    for place in sorted(folder.glob(f"replies-*/*{panel}.jsonl.gz")) if folder.is_dir() else []:
        named = _NAME.fullmatch(place.name.removesuffix(".jsonl.gz"))
        if named is None or named[4] != panel:
            continue
        lines = [line for line in _lines(place) if line["case"] in position]
        if lines:
            yield _replies(place, named, lines, position, cases.names)


def _replies(
    place: Path, named: re.Match[str], lines: list[dict[str, Any]], position: dict[str, int], names: tuple[str, ...]
) -> Replies:
    way, k = named[1], len(names)
    rows = np.array(sorted({position[line["case"]] for line in lines}))
    row_of = {position_: row for row, position_ in enumerate(rows.tolist())}
    calls = len(lines) // len(rows)
    total, readable = np.zeros((len(rows), calls if way == "letters" else 1, k)), np.zeros(len(rows))
    for line in lines:
        row, order = row_of[position[line["case"]]], line.get("order", 0)
        said = engine.read_reply(way, line, names)
        if said is not None:
            total[row, order] += np.roll(said, order)  # order i begins with label i
            readable[row] += 1
    scores = total if way == "letters" else total[:, 0] / np.maximum(readable, 1)[:, None]
    return Replies(
        model=place.parent.name.removeprefix("replies-"),
        method="logits" if way == "letters" else way,
        temperature=float(named[2] or 0),
        bits=int(named[3]) if named[3] else None,
        positions=rows,
        scores=scores,
        readable=readable,
        calls=calls,
        seconds=_seconds(place.parent / f"latency-{named[4]}.jsonl.gz", way),
    )


def _seconds(place: Path, way: str) -> float | None:
    """The median over the cases that were asked alone."""
    name = {"letters": "letters", "fidelity": "together"}.get(way)
    return float(np.median([line[name] for line in _lines(place)])) if name and place.is_file() else None


def _lines(place: Path) -> list[dict[str, Any]]:
    with gzip.open(place, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
