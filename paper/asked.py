"""What language models said when asked about the cases: records of the asking experiments, and raw replies.

Records hold probabilities under the cases' ids. Raw replies of a model that was asked outside an experiment are read by
the product's own readers:

    replies-MODEL/letters-PANEL.jsonl.gz     case, order of the options, likeliest next tokens with their logarithms
    replies-MODEL/WAY-tT-PANEL.jsonl.gz      case, question, sample, the words of the reply; asked at temperature T
    replies-MODEL/latency-PANEL.jsonl.gz     seconds of a case alone: `letters` read once, ten samples `together`

`-4bit` before the panel says that the weights were rounded. A reply that cannot be read is no answer. Both are matched
to the cases of this run, so that a method is always compared with asking on the very same cases, however few were
asked.
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
from paper.answers import ALL_ORDERS
from paper.world import Cases
from simdx.abc.prior import Prior
from simdx.errors import SimdxError
from simdx.runs import Record, Store
from simdx.types import Float, Int

SMALL_MODEL = "smollm2"
# The paper's abbreviations of the same four.
PAPER_ASKING = {"logits": "ML", "elicited": "EP", "ensemble": "PE", "fidelity": "EF"}
PAPER_TEMPERATURE = 0.2  # of all that the paper decodes
EARLIER = 0.7  # the temperature of fidelity's samples in records that do not say it
LEAST_READABLE = 0.5  # of the cases: below, the way of asking has failed and gives no row
_NAME = re.compile(r"(letters|elicited|ensemble|fidelity)(?:-t(\d+(?:\.\d+)?))?(?:-(\d+)bit)?-([a-z][a-z-]+)")


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One model asked in one way. `positions` are the asked cases' rows among the panel's cases."""

    simulator: str
    method: str  # logits | elicited | ensemble | fidelity
    way: str  # the paper's abbreviation where it is asked as the paper asks, else one of our own
    positions: Int
    probabilities: Float  # (len(positions), K)
    readable: Float  # (len(positions),) replies behind each answer; zero: answered by the prior
    seconds_per_case: float | None  # of the model alone
    calls_per_case: float | None
    temperature: float = 0.0

    @property
    def model(self) -> str:
        """The model without the engine it ran on: its own bank may have been written through another."""
        return self.simulator.removeprefix("hf:")

    @property
    def name(self) -> str:
        return f"{self.way} ({self.simulator})"


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


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """The option letters' probabilities under every rotation of the list, by label: (N, rotations, K)."""

    simulator: str
    positions: Int
    letters: Float

    def at(self, order: int, temperature: float = 1.0) -> Float:
        """(N, K) the answer under one order; a softmax of logits at a temperature is a power of it."""
        p = self.letters[:, order] ** (1 / temperature)
        return p / p.sum(axis=1, keepdims=True)


# --------------------------------------------------------------------------- records


def read_asked(folder: Path, panel: str, cases: Cases) -> tuple[Asked, ...]:
    """Every model and way of asking about that panel below `folder`: of several records of one question the one
    about more cases counts, then the one with more replies that can be read. Weights that were rounded are no model."""
    every = [one for replies in read_replies(folder, panel, cases) if replies.bits is None for one in asked_in(replies)]
    for place in sorted(folder.glob("asking-*")):
        every += [one for record in Store(place).records() if (one := _recorded(record, panel, cases)) is not None]

    def weight(one: Asked) -> tuple[int, bool, float]:
        return len(one.positions), one.temperature == PAPER_TEMPERATURE, float(one.readable.sum())

    found: dict[tuple[str, str], Asked] = {}
    for one in every:
        known = found.get((one.simulator, one.way))
        if known is None or weight(one) > weight(known):
            found[one.simulator, one.way] = one
    return tuple(found[key] for key in sorted(found))


def _recorded(record: Record, panel: str, cases: Cases) -> Asked | None:
    if not record.done or record.rows is None:
        return None
    cell, rows, asking = record["cell"], record.rows, record.found.get("asking") or {}
    method = cell["method"]["method"]
    if method not in PAPER_ASKING or cell["panel"]["panel"] != panel or tuple(record["labels"]) != cases.names:
        return None
    place = {id: j for j, id in enumerate(rows["id"])}
    kept = [(i, place[case.id]) for i, case in enumerate(cases.dataset.cases) if case.id in place]
    if not kept:
        return None
    kept.sort(key=lambda pair: pair[1])
    chosen, n = [j for _, j in kept], max(len(rows["id"]), 1)
    way, used = PAPER_ASKING[method], asking.get("temperature", EARLIER)
    if method == "logits" and cell["method"].get("budget") != 1:
        way = ALL_ORDERS
    if method == "fidelity" and used != PAPER_TEMPERATURE:
        way = f"EF at {used:g}"
    p, seconds = np.asarray(rows["posterior"], dtype=float)[chosen], asking.get("model_seconds")
    return Asked(
        simulator=cell["simulator"],
        method=method,
        way=way,
        positions=np.array([i for i, _ in kept], dtype=np.int64),
        probabilities=p / p.sum(axis=1, keepdims=True),
        readable=np.array([rows["carried_by"][j] or 0.0 for j in chosen], dtype=float),
        seconds_per_case=None if seconds is None else seconds / n,
        calls_per_case=None if not asking.get("replies") else asking["replies"] / n,
    )


def asked_directly(
    panel_data: engine.PanelData, prior: Prior, cases: Cases, count: int, out: Path
) -> tuple[Asked, ...]:
    """The small model asked about the first few cases; nothing where it is not installed."""
    texts, found = cases.dataset.texts[:count], []
    try:
        for method, way in PAPER_ASKING.items():
            p, readable = engine.ask_model(panel_data, method, SMALL_MODEL, texts, prior, 0, out, budget=2)
            way = ALL_ORDERS if method == "logits" else way
            found.append(Asked(SMALL_MODEL, method, way, np.arange(len(texts)), p, readable, None, None))
    except SimdxError:
        return ()
    return tuple(found)


# --------------------------------------------------------------------------- raw replies


def asked_in(one: Replies) -> Iterator[Asked]:
    """What is asked as the paper asks, and the mean over orders, where the replies can be read."""

    def asked(way: str, p: Float, readable: Float, calls: int) -> Asked:
        seconds = None if way == ALL_ORDERS else one.seconds
        model = one.model if one.bits is None else f"{one.model}-q{one.bits}"  # as its bank is named
        return Asked(f"hf:{model}", one.method, way, one.positions, p, readable, seconds, calls, one.temperature)

    if one.answered < LEAST_READABLE:
        return
    if one.method == "logits":
        orders = _orders(one)
        yield asked("ML", orders.at(0, PAPER_TEMPERATURE), np.ones(len(one.positions)), 1)
        if one.calls > 1:
            every = np.mean([orders.at(i) for i in range(one.calls)], axis=0)
            yield asked(ALL_ORDERS, every, one.readable, one.calls)
    elif one.temperature in (0.0, PAPER_TEMPERATURE):
        yield asked(PAPER_ASKING[one.method], one.probabilities, one.readable, one.calls)


def read_orders(folder: Path, panel: str, cases: Cases) -> tuple[Orders, ...]:
    """Models asked with the options in every order, their weights as they are."""
    found = read_replies(folder, panel, cases)
    return tuple(_orders(one) for one in found if one.method == "logits" and one.bits is None)


def _orders(one: Replies) -> Orders:
    silent = one.scores.sum(axis=2, keepdims=True) <= 0  # an order whose reply could not be read says nothing
    scores = np.where(silent, 1.0, one.scores)
    return Orders(f"hf:{one.model}", one.positions, scores / scores.sum(axis=2, keepdims=True))


def read_replies(folder: Path, panel: str, cases: Cases) -> Iterator[Replies]:
    """Every file of replies about that panel's cases, matched to them by id."""
    position = {case.id: i for i, case in enumerate(cases.dataset.cases)}
    for place in sorted(folder.glob(f"replies-*/*{panel}.jsonl.gz")):
        named = _NAME.fullmatch(place.name.removesuffix(".jsonl.gz"))
        if named is None or named[4] != panel:
            continue
        lines = [line | {"at": position[line["case"]]} for line in _lines(place) if line["case"] in position]
        if lines:
            yield _replies(place, named, lines, cases.names)


def _replies(place: Path, named: re.Match[str], lines: list[dict[str, Any]], names: tuple[str, ...]) -> Replies:
    way, k = named[1], len(names)
    positions, rows = np.unique([line["at"] for line in lines], return_inverse=True)
    calls = len(lines) // len(positions)
    total = np.zeros((len(positions), calls if way == "letters" else 1, k))
    readable = np.zeros(len(positions))
    for row, line in zip(rows, lines, strict=True):
        order = line.get("order", 0)
        said = engine.read_reply(way, line, names)
        if said is not None:
            total[row, order] += np.roll(said, order)  # order i begins with label i
            readable[row] += 1
    timed = place.parent / f"latency-{named[4]}.jsonl.gz"
    alone = {"letters": "letters", "fidelity": "together"}.get(way)
    return Replies(
        model=place.parent.name.removeprefix("replies-"),
        method="logits" if way == "letters" else way,
        temperature=float(named[2] or 0),
        bits=int(named[3]) if named[3] else None,
        positions=positions,
        scores=total if way == "letters" else total[:, 0] / np.maximum(readable, 1)[:, None],
        readable=readable,
        calls=calls,
        # The median over the cases that were asked alone.
        seconds=float(np.median([line[alone] for line in _lines(timed)])) if alone and timed.is_file() else None,
    )


def _lines(place: Path) -> list[dict[str, Any]]:
    with gzip.open(place, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
