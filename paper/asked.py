"""What language models said when asked about the cases: records of the asking experiments, and raw replies.

Records hold probabilities under the cases' ids, replies (`paper/replies.py`) words. They are matched to the
cases of this run, so that a method is always compared with asking on the very same cases, however few were asked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paper import engine
from paper.answers import ALL_ORDERS
from paper.replies import LEAST_READABLE, Replies, read_replies
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


def read_asked(folder: Path, panel: str, cases: Cases) -> tuple[Asked, ...]:
    """Every model and way of asking about that panel below `folder`: of several records of one question the one
    about more cases counts, then the one with more replies that can be read."""
    found: dict[tuple[str, str], Asked] = {}
    places = sorted(folder.glob("asking-*")) if folder.is_dir() else []
    records = (_asked(record, panel, cases) for place in places for record in Store(place).records())
    for one in (*_from_replies(folder, panel, cases), *(asked for asked in records if asked is not None)):
        known = found.get((one.simulator, one.way))
        if known is None or _weight(one) > _weight(known):
            found[one.simulator, one.way] = one
    return tuple(found[key] for key in sorted(found))


def _weight(asked: Asked) -> tuple[int, bool, float]:
    return len(asked.positions), asked.temperature == PAPER_TEMPERATURE, float(asked.readable.sum())


def _from_replies(folder: Path, panel: str, cases: Cases) -> Iterator[Asked]:
    """Weights that were rounded are no model here."""
    for one in read_replies(folder, panel, cases):
        if one.bits is None:
            yield from asked_in(one)


def asked_in(one: Replies) -> Iterator[Asked]:
    """What is asked as the paper asks, and the mean over orders, where the replies can be read."""
    if one.answered < LEAST_READABLE:
        return
    if one.method == "logits":
        orders = _orders(one)
        yield _asked_of(one, "ML", orders.at(0, PAPER_TEMPERATURE), np.ones(len(one.positions)), 1.0)
        if one.calls > 1:
            every = np.mean([orders.at(i) for i in range(one.calls)], axis=0)
            yield _asked_of(one, ALL_ORDERS, every, one.readable, float(one.calls))
    elif one.temperature in (0.0, PAPER_TEMPERATURE):
        yield _asked_of(one, PAPER_ASKING[one.method], one.probabilities, one.readable, float(one.calls))


def _asked_of(one: Replies, way: str, p: Float, readable: Float, calls: float) -> Asked:
    seconds = None if way == ALL_ORDERS else one.seconds
    model = one.model if one.bits is None else f"{one.model}-q{one.bits}"  # as its bank is named
    return Asked(f"hf:{model}", one.method, way, one.positions, p, readable, seconds, calls, one.temperature)


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


def _asked(record: Record, panel: str, cases: Cases) -> Asked | None:
    if not record.done or record.rows is None:
        return None
    cell, rows = record["cell"], record.rows
    method = cell["method"]["method"]
    if method not in PAPER_ASKING or cell["panel"]["panel"] != panel:
        return None
    if tuple(record["labels"]) != cases.names:
        return None
    position = {case.id: i for i, case in enumerate(cases.dataset.cases)}
    kept = [(position[i], j) for j, i in enumerate(rows["id"]) if i in position]
    if not kept:
        return None
    chosen = [j for _, j in kept]
    p = np.asarray(rows["posterior"], dtype=float)[chosen]
    asking, n = record.found.get("asking") or {}, max(len(rows["id"]), 1)
    seconds = asking.get("model_seconds")
    return Asked(
        simulator=cell["simulator"],
        method=method,
        way=_way(cell["method"], record.found.get("asking") or {}),
        positions=np.array([i for i, _ in kept], dtype=np.int64),
        probabilities=p / p.sum(axis=1, keepdims=True),
        readable=np.array([rows["carried_by"][j] or 0.0 for j in chosen], dtype=float),
        seconds_per_case=None if seconds is None else seconds / n,
        calls_per_case=None if not asking.get("replies") else asking["replies"] / n,
    )


def _way(method: Mapping[str, Any], asking: Mapping[str, Any]) -> str:
    name, used = method["method"], asking.get("temperature", EARLIER)
    if name == "logits" and method.get("budget") != 1:
        return ALL_ORDERS
    if name == "fidelity" and used != PAPER_TEMPERATURE:
        return f"EF at {used:g}"
    return PAPER_ASKING[name]


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


def read_orders(folder: Path, panel: str, cases: Cases) -> tuple[Orders, ...]:
    """Models asked with the options in every order, their weights as they are."""
    found = read_replies(folder, panel, cases)
    return tuple(_orders(one) for one in found if one.method == "logits" and one.bits is None)


def _orders(one: Replies) -> Orders:
    silent = one.scores.sum(axis=2, keepdims=True) <= 0  # an order whose reply could not be read says nothing
    scores = np.where(silent, 1.0, one.scores)
    return Orders(f"hf:{one.model}", one.positions, scores / scores.sum(axis=2, keepdims=True))
