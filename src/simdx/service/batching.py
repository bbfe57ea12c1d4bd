"""Micro-batching: asks that wait at the same moment for the same thing share one engine call.

One task takes up to `batch_texts` texts of one panel, method and prior, of all callers in turn, and has them
answered in the engine's thread; meanwhile others queue. The callers take turns at being first. A long ask is
answered in several calls, so nobody waits for all of it. A caller has at most `caller_texts` texts here
(429). A caller without any is let in; others are refused (503) once `waiting_texts` wait in all.

Explaining an answer (which sentences matter, at which prior it flips) costs several times the answer. When
more than `explained_texts` texts are at hand, or were a moment ago, answers go out without it and say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.answer import Answer
from simdx.classifier import Classifier
from simdx.errors import SimdxError
from simdx.methods import Observations
from simdx.service.audit import Entry
from simdx.service.config import Limits
from simdx.service.wire import Meters, Problem, dump

JUST_NOW = 0.25  # seconds after which callers who were answered no longer count as being there
CROWD = 16  # asks answered at once, from which on the next ones are waited for
ASKING_SECONDS = 0.0005  # for each of them
STOP_SECONDS = 10.0  # for the call under way to end
BUSY = "sentences and flip were left out: the service was busy"
RECORDED = ("label", "posterior", "entropy_bits", "out_of_class", "typicality", "decision")  # of an answer
VERSIONS = ("bank", "embedder", "kernel", "seed")  # of its provenance


@dataclass(eq=False)
class Ask:
    """Texts, how they are to be answered, and what became of them so far."""

    panel: str
    method: str
    prior: Prior
    texts: tuple[str, ...]
    caller: str
    request: str  # id of the request; its answers are recorded as <request>.0, .1, …
    write: Callable[[Ask], bytes]  # the response's bytes, made before they are recorded
    kind: str | None = "answer"  # of its records; None: a preview, which is no answer and leaves none
    explain: bool = True  # the sentences that matter and the flip: most of an answer's cost
    alone: bool = False  # a slow method shares no call, so that others get their turn between
    context: Mapping[str, Any] = field(default_factory=dict)  # for the audit log, as are
    people: Mapping[str, str] = field(default_factory=dict)  # whom the case is about: recorded as a hash
    first: int = 0  # the number of its first answer, where a request asks several things
    classifier: Classifier | None = None  # of a panel that was made for the question

    answers: list[Answer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)  # the same as JSON
    observed: Observations = field(init=False)  # the last text
    sent: bytes = b""  # what leaves the service
    taken: int = 0  # texts that the engine was given
    error: Exception | None = None
    done: asyncio.Future[None] = field(init=False)  # cancelled once nobody waits for it

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Asks with the same key can share one engine call."""
        return (
            self.panel, id(self.classifier), self.method, self.prior.probabilities.tobytes(),
            self.prior.alpha0, self.explain, self.alone and self.request,
        )  # fmt: skip

    @property
    def left(self) -> tuple[str, ...]:
        return () if self.error or self.done.cancelled() else self.texts[self.taken :]

    def deliver(self) -> None:
        if self.done.done():
            return
        if self.error:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(None)


_Batch = list[tuple[Ask, str]]


class Batcher:
    def __init__(
        self,
        classifier: Callable[[str, str], Classifier],
        record: Callable[[Sequence[Entry]], object] | None,
        meters: Meters,
        limits: Limits,
    ) -> None:
        self._classifier, self._record, self._meters, self._limits = classifier, record, meters, limits
        self._queues: dict[str, list[Ask]] = {}  # by caller; whose turn it is comes first
        self._in_flight: Counter[str] = Counter()  # texts by caller, from the question to the answer
        self._waiting = 0  # texts that the engine has not been given
        self._answered = (0, 0, 0.0)  # asks and texts of the last call, and when it was done
        self._enough, self._came = 1, asyncio.Event()  # texts for which the task is woken, and its bell
        self._closing = False
        self._thread = ThreadPoolExecutor(1, "simdx-engine")
        meters.waiting.set_function(lambda: self._waiting)

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        self._closing = True
        self._came.set()
        await asyncio.wait([self._task], timeout=STOP_SECONDS)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, ask: Ask) -> Ask:
        """Wait for the answers, within the time limit; refuse at once where there is no room."""
        texts, caller, limits = len(ask.texts), ask.caller, self._limits
        mine = self._in_flight[caller]
        if mine and mine + texts > limits.caller_texts:
            said = f"You have {mine} texts waiting, of at most {limits.caller_texts}; wait for some."
            raise Problem("too-many-requests", said, retry_after=1)
        if mine and self._waiting + texts > limits.waiting_texts:
            raise Problem("overloaded", "The engine has too many texts waiting; try again.", retry_after=1)
        ask.done = asyncio.get_running_loop().create_future()
        self._in_flight[caller] += texts
        self._queues.setdefault(caller, []).append(ask)
        self._waiting += texts
        if self._waiting >= self._enough:
            self._came.set()
        try:
            async with asyncio.timeout(limits.seconds):
                await ask.done
        except TimeoutError:
            said = f"No answer within {limits.seconds:g} seconds; send fewer or shorter texts."
            raise Problem("timeout", said, retry_after=5) from None
        finally:
            self._in_flight[caller] -= texts
            if not self._in_flight[caller]:
                del self._in_flight[caller]
        return ask

    async def _work(self) -> None:
        engine = asyncio.get_running_loop().run_in_executor
        while batch := await self._next():
            asks = list(dict.fromkeys(ask for ask, _ in batch))
            _, last, when = self._answered
            just_now = last if time.perf_counter() - when < JUST_NOW else 0
            calm = asks[0].alone or self._waiting + len(batch) + just_now <= self._limits.explained_texts
            for ask in await engine(self._thread, self._call, batch, asks, calm):
                ask.deliver()
            self._answered = (len(asks), len(batch), time.perf_counter())
        for queue in self._queues.values():
            for ask in queue:
                ask.error = Problem("overloaded", "The service is stopping.", retry_after=5)
                ask.deliver()

    async def _next(self) -> _Batch:
        """Texts to answer, once there are some; none when the service stops."""
        while not self._closing:
            await self._wait_for(1)
            crowd, texts, when = self._answered
            if crowd >= CROWD and time.perf_counter() - when < JUST_NOW:
                # A call has a cost of its own: a crowd that was just answered is not halved for good.
                await self._wait_for(min(self._limits.batch_texts, texts), crowd * ASKING_SECONDS)
            if not self._closing and (batch := self._take()):
                return batch
        return []

    async def _wait_for(self, texts: int, seconds: float | None = None) -> None:
        self._enough = texts
        if self._waiting < texts and not self._closing:
            self._came.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), seconds)

    def _take(self) -> _Batch:
        """Texts with the key of the caller whose turn it is, one by one of all callers who have such."""
        caller = next(iter(self._queues))
        self._queues[caller] = self._queues.pop(caller)  # the next turn is another's
        key = self._queues[caller][0].key
        lines = [
            [(ask, text) for ask in queue if ask.key == key for text in ask.left]
            for queue in self._queues.values()
        ]
        in_turn = (item for turn in zip_longest(*lines) for item in turn if item is not None)
        batch = list(islice(in_turn, self._limits.batch_texts))
        for ask, _ in batch:
            ask.taken += 1
        self._queues = {
            who: left for who, queue in self._queues.items() if (left := [ask for ask in queue if ask.left])
        }
        self._waiting = sum(len(ask.left) for queue in self._queues.values() for ask in queue)
        return batch

    # ----------------------------------------------------------------- in the engine's thread

    def _call(self, batch: _Batch, asks: list[Ask], calm: bool) -> list[Ask]:
        """Answer the batch; write and record what is whole now, which may leave."""
        self._answer(batch, asks, calm)
        whole = [ask for ask in asks if not ask.left and not ask.done.cancelled()]
        entries: list[Entry] = []
        for ask in whole:
            try:
                if not ask.error:
                    ask.sent = ask.write(ask)
                    entries += _entries(ask)
            except Exception as error:
                ask.error = error
        try:
            if entries and self._record:
                self._record(entries)  # in one transaction
        except Exception as error:  # without a record no answer
            for ask in whole:
                ask.error = ask.error or error
        for ask in whole:
            for answer in () if ask.error or ask.kind is None else ask.answers:
                self._meters.answers.labels(ask.panel, answer.decision.action).inc()
        return whole

    def _answer(self, batch: _Batch, asks: list[Ask], calm: bool) -> None:
        """One engine call. What goes wrong is the ask's error, and of no other ask."""
        started, one = time.perf_counter(), asks[0]
        try:
            classifier = one.classifier or self._classifier(one.panel, one.method)
            observed = classifier.observe([text for _, text in batch])
            note = BUSY if one.explain and not calm else None
            answers = classifier.infer_observed(observed, one.prior, explain=one.explain and calm, note=note)
            bodies = [dump(answer) for answer in answers]
        except Exception as error:
            if isinstance(error, SimdxError) and len(asks) > 1:
                for ask in asks:  # one text the engine refuses must not take the others with it
                    self._answer([item for item in batch if item[0] is ask], [ask], calm)
                return
            for ask in asks:
                ask.error = error
            return
        for i, ((ask, _), answer, body) in enumerate(zip(batch, answers, bodies, strict=True)):
            ask.answers.append(answer)
            ask.bodies.append(body)
            ask.observed = observed.at(np.array([i]))
        self._meters.engine.observe(time.perf_counter() - started)
        self._meters.batch.observe(len(batch))


def _entries(ask: Ask) -> Iterator[Entry]:
    """What the log has of the answers: numbers, decision, versions, hashes of them and of what is sent."""
    if ask.kind is None:
        return
    sent = hashlib.sha256(ask.sent).hexdigest()
    told = zip(ask.texts, ask.answers, ask.bodies, strict=True)
    for number, (text, answer, body) in enumerate(told, ask.first):
        origin = answer.provenance
        seen = {name: getattr(answer, name) for name in RECORDED}
        versions = {name: getattr(origin, name) for name in VERSIONS}
        versions |= {"simdx": origin.version, "method": answer.method, "engine": answer.engine}
        digest = sent if body is ask.sent else hashlib.sha256(body).hexdigest()
        yield Entry(
            f"{ask.request}.{number}", ask.kind, ask.caller, ask.panel, origin.prior,
            {**seen, "sha256": digest}, versions, text, context={**ask.context, "sent": sent},
            people=ask.people,
        )  # fmt: skip
