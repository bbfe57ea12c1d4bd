"""Shared code of the four baselines that ask a language model about the case.

A baseline turns a case into questions and a completion into scores per label; this asks, reads, keeps and
counts. A case's answer is the mean of its readable replies. Replies that cannot be read are counted by
reason and left out; a case without any readable reply is *unanswered*: its posterior is the prior, and the
number of replies behind it is zero, so that whoever evaluates can score it or leave it out and say so.

Replies are kept on disk so that an interrupted run goes on where it stopped: an append-only JSONL file, one
line per reply, with the content hash of the question, the reading as numbers or the reason why there is
none, and what it cost. Neither a prompt nor the words of a reply are written: a reply may repeat the case. A
request that failed in transport is not kept, so it is asked again.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.disk import make_folder, seal_holds, sealed
from simdx.egress import admit, is_remote
from simdx.errors import RunFailed
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.simulators import DEFAULT, get_simulator
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Float, content_hash

CONTEXT = 6144  # tokens: the longest case reports with their instructions
SLOTS = 2
VERSION = "1"  # raise it when the meaning of a stored reading changes
GIVE_UP_AFTER = 20  # failed requests in a row: the server is gone, not the question hard


class UnreadableReply(Exception):
    """The reason as a short phrase that never quotes the reply."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and how its completion is read: scores in the panel's label order, or UnreadableReply."""

    request: Request
    read: Callable[[Completion], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Interview:
    """All replies about a batch of cases; errors in transport stand as replies without scores."""

    replies: tuple[tuple[Reply, ...], ...]
    n_labels: int
    from_store: int

    @property
    def scores(self) -> Float:
        """(N, K) mean of the readable replies; a row of zeros where there is none."""
        out = np.zeros((len(self.replies), self.n_labels))
        for row, replies in zip(out, self.replies, strict=True):
            read = [reply.scores for reply in replies if reply.scores is not None]
            if read:
                row[:] = np.mean(read, axis=0)
        return out

    @property
    def readable(self) -> Float:
        """(N,) replies behind each answer."""
        return np.array([sum(r.scores is not None for r in row) for row in self.replies], dtype=float)

    def report(self) -> dict[str, Any]:
        """Counts and cost, for a record."""
        every = [reply for replies in self.replies for reply in replies]
        return {
            "replies": len(every),
            "readable": sum(reply.scores is not None for reply in every),
            "failures": dict(Counter(r.failure for r in every if r.failure).most_common()),
            "unanswered_cases": int((self.readable == 0).sum()),
            "from_store": self.from_store,
            "prompt_tokens": sum(reply.prompt_tokens for reply in every),
            "completion_tokens": sum(reply.completion_tokens for reply in every),
            "model_seconds": round(sum(reply.seconds for reply in every), 3),
        }


class Asking(Fitted):
    """A fitted asking baseline: it says which questions a case is, and what its report says beside counts."""

    speed = "slow"

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self.settings, self.panel, self.names = settings, data.panel, data.panel.names
        self.simulator = simulator_for(settings)
        self.able = self.simulator.capabilities
        kept = settings.replies
        self.store = ReplyStore(None if kept is None else replies_path(kept, self.simulator.id))
        # The model is sent the case, so it leaves with it.
        self.remote = self.remote or is_remote(self.simulator)

    @abstractmethod
    def questions(self, text: str, key: int) -> list[Question]:
        """Of a case's text and its key."""

    def more(self, found: Interview) -> dict[str, Any]:
        return {}

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        interview = self.ask(observations)
        posterior = posterior_of(interview.scores, prior, carried_by=interview.readable)
        usage = {"simulator": self.simulator.id, **interview.report(), **self.more(interview)}
        return Inferred(posterior, None, usage)

    def ask(self, observations: Observations) -> Interview:
        """Ask every question whose reply is not stored yet."""
        asked = [self.questions(t, k) for t, k in zip(observations.texts, observations.keys, strict=True)]
        keys = [[self._key(question) for question in questions] for questions in asked]
        replies: list[list[Reply | None]] = [[self.store.get(key) for key in row] for row in keys]
        stored = sum(reply is not None for row in replies for reply in row)
        missing = [[j for j, reply in enumerate(row) if reply is None] for row in replies]
        todo = [[asked[i][j].request for j in row] for i, row in enumerate(missing)]
        done, total, in_a_row, answered = stored, stored + sum(map(len, todo)), 0, 0
        tell = self.progress or (lambda done, total: None)
        tell(done, total)
        for case, turn, completion in in_turns(self.simulator, todo):
            j = missing[case][turn]
            reply = read_reply(asked[case][j], completion)
            replies[case][j] = reply
            if completion.ok:
                self.store.keep(keys[case][j], reply)
            in_a_row = 0 if completion.ok else in_a_row + 1
            answered += completion.ok
            if in_a_row >= GIVE_UP_AFTER:
                raise RunFailed(f"{in_a_row} requests in a row failed, the last with: {completion.error}")
            done += 1
            tell(done, total)
        if in_a_row and not answered and not stored:
            # No reply at all: the prior must not pass for an answer.
            raise RunFailed(f"none of {in_a_row} requests was answered, the last with: {completion.error}")
        whole = tuple(tuple(reply or Reply(None, "not asked") for reply in row) for row in replies)
        return Interview(whole, len(self.names), stored)

    def _key(self, question: Question) -> str:
        # Scores are stored in the panel's order, so the order belongs to the key.
        return content_hash("reply", VERSION, question.request.key(self.simulator.id), *self.names)


def read_reply(question: Question, completion: Completion) -> Reply:
    cost = (completion.prompt_tokens, completion.completion_tokens, completion.seconds)
    if not completion.ok:
        return Reply(None, f"request failed: {completion.error}", *cost)
    try:
        return Reply(tuple(float(s) for s in question.read(completion)), None, *cost)
    except UnreadableReply as reason:
        return Reply(None, str(reason), *cost)


def simulator_for(settings: Settings) -> Simulator:
    """The simulator a baseline asks; a remote one only where case text may leave this machine."""
    return admit(opened(settings.simulator or DEFAULT, settings.allow_remote), settings.allow_remote)


def replies_path(folder: str | Path, simulator_id: str) -> Path:
    return Path(folder) / f"{content_hash(simulator_id)[:16]}.jsonl"


@lru_cache(maxsize=2)
def opened(name: str, may_ask_hub: bool = True) -> Simulator:
    """The simulator of that name. Several methods ask the same one in one run: weights are loaded once."""
    embedded = not name.startswith(("openai:", "hf:", "scripted"))
    options = {"slots": SLOTS, "context": CONTEXT} if embedded else {}
    # Opening a server sends nothing; `simulator_for` hands it to nobody without permission.
    return get_simulator(name, allow_remote=may_ask_hub or not name.startswith("hf:"), **options)


def in_turns(
    simulator: Simulator, cases: Sequence[Sequence[Request]]
) -> Iterator[tuple[int, int, Completion]]:
    """(case, question, answer) as answers come: in turn within a case, side by side across cases.

    The questions of one case share a long beginning. Asked one after the other they find it in the server's
    prompt cache; asked all at once each would read it anew. Different cases share nothing.
    """
    ready = deque(case for case, questions in enumerate(cases) if questions)
    following = [0] * len(cases)
    asked: list[tuple[int, int]] = []
    under_way = 0

    def source() -> Iterator[Request | None]:
        nonlocal under_way
        while ready or under_way:
            if not ready:
                yield None
                continue
            case = ready.popleft()
            question = following[case]
            following[case] += 1
            asked.append((case, question))
            under_way += 1
            yield cases[case][question]

    for position, completion in simulator.complete(source()):
        under_way -= 1
        case, question = asked[position]
        if following[case] < len(cases[case]):
            ready.appendleft(case)  # before any new case, while its beginning is still in the cache
        yield case, question, completion


# --------------------------------------------------------------------------- replies, kept


@dataclass(frozen=True, slots=True)
class Reply:
    """One reading: `scores` per label, or None with the reason in `failure`."""

    scores: tuple[float, ...] | None
    failure: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


class ReplyStore:
    """Replies by the hash of what was asked. Without a path they live in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Reply] = {}
        if path is not None:
            make_folder(path.parent)
            try:
                self._known = _read(path)
            except OSError as error:
                raise RunFailed(f"replies cannot be read from '{path}': {error.strerror}") from None

    def get(self, key: str) -> Reply | None:
        return self._known.get(key)

    def keep(self, key: str, reply: Reply) -> None:
        with self._lock:
            self._known[key] = reply
            if self._path is None:
                return
            line = json.dumps(sealed({"key": key, **asdict(reply)}), allow_nan=False)
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"\n{line}\n")  # behind half a line, too, which a kill or a full disk leaves
            except OSError as error:
                raise RunFailed(
                    f"replies cannot be written to '{self._path}': {error.strerror}; those in it are kept"
                ) from None


def _read(path: Path) -> dict[str, Reply]:
    """Every whole line."""
    known: dict[str, Reply] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
            if "seal" in row and not seal_holds(row):
                continue  # damaged: it is asked again
            scores = None if row["scores"] is None else tuple(float(s) for s in row["scores"])
            tokens = int(row["prompt_tokens"]), int(row["completion_tokens"])
            known[str(row["key"])] = Reply(scores, row["failure"], *tokens, float(row["seconds"]))
        except (ValueError, KeyError, TypeError):
            continue
    return known
