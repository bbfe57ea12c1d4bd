"""Micro-batching: requests that wait at the same moment for the same thing share one engine call.

One thread owns the engine. While it works, requests queue; then it takes up to `batch_texts` texts of one
panel, method and prior, from all callers in turn, and the callers take turns at being first. A long request
is answered in several calls, so nobody waits for all of it. A caller has at most `caller_texts` texts here
(429). A caller without any is let in; others are refused (503) once `waiting_texts` wait in all.

Explaining an answer (which sentences matter, at which prior it flips) costs several times the answer. When
more than `explained_texts` texts are at hand, or were a moment ago, answers go out without it and say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from pydantic_core import from_json

from simdx.abc.prior import Prior
from simdx.answer import Answer
from simdx.classifier import Classifier
from simdx.errors import SimdxError
from simdx.service.audit import Entry
from simdx.service.config import Limits
from simdx.service.intervals import beside, one, preview
from simdx.service.problems import Problem
from simdx.service.wire import Meters, dump

JUST_NOW = 0.25  # seconds after which callers who were answered no longer count as being there
CROWD = 16  # requests answered at once, from which on the next ones are waited for
ASKING_SECONDS = 0.0005  # for each of them
STOP_SECONDS = 10.0  # for the call under way to end
BUSY = "sentences and flip were left out: the service was busy"
RECORDED = ("label", "posterior", "entropy_bits", "out_of_class", "typicality", "decision")  # of an answer
VERSIONS = ("bank", "embedder", "kernel", "seed")  # of its provenance


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """Texts, and how they are to be answered."""

    panel: str
    method: str
    prior: Prior
    texts: tuple[str, ...]
    caller: str
    request: str  # id of the request; its answers are recorded as <request>.0, .1, …
    write: Callable[[InferenceResult], bytes]  # the response's bytes, made before they are recorded
    kind: str = "answer"
    draws: int | None = None  # with a number: also what the page shows beside an answer
    explain: bool = True  # the sentences that matter and the flip: most of an answer's cost
    alone: bool = False  # a slow method shares no call, so that others get their turn between
    preview: bool = False  # the posterior alone, which is no answer and leaves no record
    context: Mapping[str, Any] = field(default_factory=dict)  # for the audit log, as are
    people: Mapping[str, str] = field(default_factory=dict)  # whom the case is about: recorded as a hash
    first: int = 0  # the number of its first answer, where a request asks several things
    classifier: Classifier | None = None  # of a panel that was made for the question


@dataclass(slots=True)
class InferenceResult:
    answers: list[Answer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)  # the same as JSON
    beside: dict[str, Any] = field(default_factory=dict)  # what the page shows besides
    sent: bytes = b""  # what leaves the service


class _Job:
    """A request that waits, and what it has been told so far."""

    def __init__(self, request: InferenceRequest, future: asyncio.Future[InferenceResult]) -> None:
        self.request, self.future = request, future  # the future is cancelled once nobody waits for it
        self.result, self.taken = InferenceResult(), 0
        self.error: Exception | None = None
        # Requests with the same key can share one engine call.
        prior, made = request.prior, id(request.classifier)
        self.key = (
            request.panel, made, request.method, prior.probabilities.tobytes(), prior.alpha0, request.explain,
            request.preview, request.alone and request.request,
        )  # fmt: skip

    @property
    def left(self) -> tuple[str, ...]:
        """The texts that the engine has not been given."""
        return () if self.error or self.future.cancelled() else self.request.texts[self.taken :]


_Batch = list[tuple[_Job, str]]


class Batcher:
    def __init__(
        self,
        classifier: Callable[[str, str], Classifier],
        record: Callable[[Sequence[Entry]], object],
        meters: Meters,
        limits: Limits,
    ) -> None:
        self._classifier, self._record, self._meters, self._limits = classifier, record, meters, limits
        self._queues: dict[str, list[_Job]] = {}  # by caller; whose turn it is comes first
        self._in_flight: Counter[str] = Counter()  # texts by caller, from the question to the answer
        self._waiting = 0  # texts that the engine has not been given
        self._answered = (0, 0, 0.0)  # requests and texts of the last call, and when it was done
        self._enough = 1  # texts for which the engine is woken
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="simdx-engine", daemon=True)
        meters.waiting.set_function(lambda: self._waiting)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(timeout=STOP_SECONDS)

    async def ask(self, request: InferenceRequest) -> InferenceResult:
        """Wait for the result, within the time limit; refuse at once where there is no room."""
        texts, caller, limits = len(request.texts), request.caller, self._limits
        mine = self._in_flight[caller]
        if mine and mine + texts > limits.caller_texts:
            said = f"You have {mine} texts waiting, of at most {limits.caller_texts}; wait for some."
            raise Problem("too-many-requests", said, retry_after=1)
        if mine and self._waiting + texts > limits.waiting_texts:
            raise Problem("overloaded", "The engine has too many texts waiting; try again.", retry_after=1)
        job = _Job(request, self._loop.create_future())
        self._in_flight[caller] += texts
        try:
            with self._wake:
                self._queues.setdefault(caller, []).append(job)
                self._waiting += texts
                if self._waiting >= self._enough:
                    self._wake.notify()
            async with asyncio.timeout(limits.seconds):
                return await job.future
        except TimeoutError:
            said = f"No answer within {limits.seconds:g} seconds; send fewer or shorter texts."
            raise Problem("timeout", said, retry_after=5) from None
        finally:
            self._in_flight[caller] -= texts
            if not self._in_flight[caller]:
                del self._in_flight[caller]

    # ----------------------------------------------------------------- the engine's thread

    def _work(self) -> None:
        while batch := self._next():
            jobs = list(dict.fromkeys(job for job, _ in batch))
            self._answer(batch, jobs)
            self._finish([job for job in jobs if not job.left and not job.future.cancelled()])
            self._answered = (len(jobs), len(batch), time.perf_counter())

    def _next(self) -> _Batch:
        """Wait for texts to answer. Nothing when the service stops; whoever still waits is told so."""
        with self._wake:
            while not self._closing:
                self._wait_for(1)
                crowd, texts, when = self._answered
                if crowd >= CROWD and time.perf_counter() - when < JUST_NOW:
                    # A call has a cost of its own: a crowd that was just answered is not halved for good.
                    self._wait_for(min(self._limits.batch_texts, texts), crowd * ASKING_SECONDS)
                if not self._closing and (batch := self._take()):
                    return batch
            left = [job for queue in self._queues.values() for job in queue]
        for job in left:
            job.error = Problem("overloaded", "The service is stopping.", retry_after=5)
        self._finish(left)
        return []

    def _wait_for(self, texts: int, seconds: float | None = None) -> None:
        """Caller must hold the lock. Each waking costs the event loop its turn: it is woken once."""
        self._enough = texts
        self._wake.wait_for(lambda: self._waiting >= texts or self._closing, seconds)

    def _take(self) -> _Batch:
        """Texts with the key of the caller whose turn it is, one by one of all callers who have such."""
        caller = next(iter(self._queues))
        self._queues[caller] = self._queues.pop(caller)  # the next turn is another's
        key = self._queues[caller][0].key
        lines = [
            [(job, text) for job in queue if job.key == key for text in job.left]
            for queue in self._queues.values()
        ]
        in_turn = (item for turn in zip_longest(*lines) for item in turn if item is not None)
        batch = list(islice(in_turn, self._limits.batch_texts))
        for job, _ in batch:
            job.taken += 1
        self._queues = {
            who: left for who, queue in self._queues.items() if (left := [job for job in queue if job.left])
        }
        self._waiting = sum(len(job.left) for queue in self._queues.values() for job in queue)
        return batch

    def _answer(self, batch: _Batch, jobs: list[_Job]) -> None:
        """One engine call. What goes wrong is the job's error, and of no other job."""
        started, request = time.perf_counter(), jobs[0].request
        _, last, when = self._answered
        just_now = last if started - when < JUST_NOW else 0
        calm = request.alone or self._waiting + len(batch) + just_now <= self._limits.explained_texts
        try:
            classifier = request.classifier or self._classifier(request.panel, request.method)
            self._tell(classifier, request, batch, calm)
        except Exception as error:
            if isinstance(error, SimdxError) and len(jobs) > 1:
                for job in jobs:  # one text the engine refuses must not take the others with it
                    self._answer([item for item in batch if item[0] is job], [job])
                return
            for job in jobs:
                job.error = error
            return
        self._meters.engine.observe(time.perf_counter() - started)
        self._meters.batch.observe(len(batch))

    def _tell(self, classifier: Classifier, request: InferenceRequest, batch: _Batch, calm: bool) -> None:
        """Give every job its answers, their JSON, and what the page shows beside them."""
        observed, prior = classifier.observe([text for _, text in batch]), request.prior
        if request.preview:
            for i, (job, _) in enumerate(batch):
                job.result.beside = preview(classifier, one(observed, i), prior)
            return
        note = BUSY if request.explain and not calm else None
        answers = classifier.infer_observed(observed, prior, explain=request.explain and calm, note=note)
        bodies, pages = [dump(answer) for answer in answers], list[dict[str, Any]]()
        for i, (job, _) in enumerate(batch):
            draws = job.request.draws
            page = {} if draws is None else beside(classifier, one(observed, i), prior, answers[i], draws)
            pages.append(page)
        # Nothing goes wrong from here on: a part of a batch that is asked again has no answer yet.
        for (job, _), answer, body, page in zip(batch, answers, bodies, pages, strict=True):
            job.result.answers.append(answer)
            job.result.bodies.append(body)
            job.result.beside = page

    def _finish(self, jobs: list[_Job]) -> None:
        """Write the responses, then their records in one transaction, then let them leave."""
        entries: list[Entry] = []
        for job in jobs:
            try:
                if not job.error:
                    job.result.sent = job.request.write(job.result)
                    entries += list(_entries(job.request, job.result))
            except Exception as error:
                job.error = error
        try:
            if entries:
                self._record(entries)
        except Exception as error:  # without a record no answer
            for job in jobs:
                job.error = job.error or error
        for job in jobs:
            for answer in () if job.error else job.result.answers:
                self._meters.answers.labels(job.request.panel, answer.decision.action).inc()
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is waiting any more
            self._loop.call_soon_threadsafe(_deliver, jobs)


def _deliver(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _entries(request: InferenceRequest, result: InferenceResult) -> Iterator[Entry]:
    """The audit log's view of the answers: numbers, decision, versions, hashes of them and of what is sent.

    A preview has none.
    """
    context = {**request.context, "sent": hashlib.sha256(result.sent).hexdigest()}
    told = zip(request.texts, result.answers, result.bodies, strict=False)
    for number, (text, answer, body) in enumerate(told, request.first):
        origin = answer.provenance
        seen = from_json(dump({name: getattr(answer, name) for name in RECORDED}))
        versions = {name: getattr(origin, name) for name in VERSIONS}
        versions |= {"simdx": origin.version, "method": answer.method, "engine": answer.engine}
        yield Entry(
            f"{request.request}.{number}", request.kind, request.caller, request.panel, origin.prior,
            {**seen, "sha256": hashlib.sha256(body).hexdigest()}, versions, text, context=context,
            people=request.people,
        )  # fmt: skip
