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
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paper.world import ALL_ORDERS, Cases
from simdx.abc.prior import Prior
from simdx.baselines.asking import GUESSES, UnreadableReply, read_guesses, read_letter, read_option_tokens
from simdx.errors import SimdxError
from simdx.fitting import fit_method
from simdx.methods import PanelData, Settings
from simdx.runs import Record, Store
from simdx.simulators.base import Completion, TokenLogprobs
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
    seconds_per_case: float | None = None  # of the model alone
    calls_per_case: float | None = None
    temperature: float = 0.0

    @property
    def model(self) -> str:
        """The model without the engine it ran on: its own bank may have been written through another."""
        return self.simulator.removeprefix("hf:")

    @property
    def name(self) -> str:
        return f"{self.way} ({self.simulator})"

    @property
    def weight(self) -> tuple[int, bool, float]:
        """Of several records of one question the one about more cases counts, then that with more readable replies."""
        return len(self.positions), self.temperature == PAPER_TEMPERATURE, float(self.readable.sum())


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
    def simulator(self) -> str:
        """A model with rounded weights is named as its bank is."""
        return f"hf:{self.model}" + ("" if self.bits is None else f"-q{self.bits}")

    @property
    def answered(self) -> float:
        return float((self.readable > 0).mean())

    @property
    def probabilities(self) -> Float:
        """(N, K); what could not be read is answered by the uniform prior."""
        p = np.where(self.readable[:, None] > 0, self.scores, 1.0)
        return p / p.sum(axis=1, keepdims=True)

    def at(self, order: int, temperature: float = 1.0) -> Float:
        """(N, K) the letters' answer under one rotation of the list; a softmax of logits at a temperature is a power
        of it. An order whose reply could not be read says nothing."""
        scores = self.scores[:, order]
        p = np.where(scores.sum(axis=1, keepdims=True) <= 0, 1.0, scores)
        p = (p / p.sum(axis=1, keepdims=True)) ** (1 / temperature)
        return p / p.sum(axis=1, keepdims=True)

    def asked(self) -> Iterator[Asked]:
        """What is asked as the paper asks, and the mean over orders, where the replies can be read."""

        def asked(way: str, p: Float, readable: Float, calls: int, seconds: float | None) -> Asked:
            about = (self.simulator, self.method, way, self.positions)
            return Asked(*about, p, readable, seconds, calls, self.temperature)

        if self.answered < LEAST_READABLE:
            return
        if self.method == "logits":
            yield asked("ML", self.at(0, PAPER_TEMPERATURE), np.ones(len(self.positions)), 1, self.seconds)
            if self.calls > 1:
                every = np.mean([self.at(i) for i in range(self.calls)], axis=0)
                yield asked(ALL_ORDERS, every, self.readable, self.calls, None)
        elif self.temperature in (0.0, PAPER_TEMPERATURE):
            yield asked(PAPER_ASKING[self.method], self.probabilities, self.readable, self.calls, self.seconds)


def read_asked(folder: Path, panel: str, cases: Cases, replies: tuple[Replies, ...]) -> tuple[Asked, ...]:
    """Every model and way of asking about that panel, from replies and from records below `folder`. Weights that were
    rounded are no model."""
    every = [one for some in replies if some.bits is None for one in some.asked()]
    for place in sorted(folder.glob("asking-*")):
        every += [one for record in Store(place).records() if (one := _recorded(record, panel, cases)) is not None]
    found: dict[tuple[str, str], Asked] = {}
    for one in every:
        known = found.get((one.simulator, one.way))
        if known is None or one.weight > known.weight:
            found[one.simulator, one.way] = one
    return tuple(found[key] for key in sorted(found))


def _recorded(record: Record, panel: str, cases: Cases) -> Asked | None:
    if not record.done or record.rows is None:
        return None
    cell, rows, asking = record["cell"], record.rows, record.found.get("asking") or {}
    method = cell["method"]["method"]
    if method not in PAPER_ASKING or cell["panel"]["panel"] != panel or tuple(record["labels"]) != cases.names:
        return None
    position, n = {case.id: i for i, case in enumerate(cases.dataset.cases)}, max(len(rows["id"]), 1)
    chosen = [j for j, id in enumerate(rows["id"]) if id in position]
    if not chosen:
        return None
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
        positions=np.array([position[rows["id"][j]] for j in chosen], dtype=np.int64),
        probabilities=p / p.sum(axis=1, keepdims=True),
        readable=np.array([rows["carried_by"][j] or 0.0 for j in chosen], dtype=float),
        seconds_per_case=None if seconds is None else seconds / n,
        calls_per_case=None if not asking.get("replies") else asking["replies"] / n,
    )


def asked_directly(data: PanelData, prior: Prior, cases: Cases, count: int, out: Path) -> tuple[Asked, ...]:
    """The small model asked about the first few cases; nothing where it is not installed."""
    texts, found = cases.dataset.texts[:count], []
    try:
        for method, way in PAPER_ASKING.items():
            settings = Settings(method=method, simulator=SMALL_MODEL, replies=str(out), seed=0, budget=2)
            table = fit_method(data, settings).answer(data.observe(texts), prior)
            way = ALL_ORDERS if method == "logits" else way
            answer = table.among_labels, table.effective_simulations
            found.append(Asked(SMALL_MODEL, method, way, np.arange(len(texts)), *answer))
    except SimdxError:
        return ()
    return tuple(found)


# --------------------------------------------------------------------------- raw replies


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
        said = read_reply(way, line, names)
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


def read_reply(way: str, line: Mapping[str, Any], names: tuple[str, ...]) -> list[float] | None:
    """Scores by place in the list of options, from likeliest tokens or from words; None: it cannot be read."""
    if line.get("options") == "numbers":
        return _read_numbered(way, line, len(names))
    try:
        if way == "letters":
            top = tuple((str(token), float(logprob)) for token, logprob in line["top"])
            return read_option_tokens(Completion("", logprobs=(TokenLogprobs(*top[0], top),)), len(names))
        if way == "elicited":
            return read_guesses(line["text"], len(names), min(GUESSES, len(names)))
        chosen = read_letter(line["text"], names)
        return [float(i == chosen) for i in range(len(names))]
    except UnreadableReply:
        return None


_GUESS = re.compile(r"G\d:\s*\(?(\d)\)?\W+P\d:\s*(\d+(?:\.\d+)?)\s*%")


def _read_numbered(way: str, line: Mapping[str, Any], k: int) -> list[float] | None:
    """The same of a list of numbered options, as the paper asks (`paper.gpu`)."""
    top = [(str(token).strip(), math.exp(logprob)) for token, logprob in line.get("top", ())]
    if way == "letters":
        mass = [sum(p for token, p in top if token == str(i)) for i in range(1, k + 1)]
        # What is not listed has at most the probability of the last token that is.
        return [m or min(p for _, p in top) for m in mass] if any(mass) else None
    if way == "elicited":
        said = {int(i): float(percent) / 100 for i, percent in reversed(_GUESS.findall(line["text"]))}
        if not said or not all(1 <= i <= k for i in said) or sum(said.values()) <= 0:
            return None
        left = max(0.0, 1 - sum(said.values())) / max(k - len(said), 1)
        return [said.get(i, left) for i in range(1, k + 1)]
    chosen = re.match(r"\W*(\d)(?!\d)", line["text"])
    return None if chosen is None or not 1 <= int(chosen[1]) <= k else np.eye(k)[int(chosen[1]) - 1].tolist()
