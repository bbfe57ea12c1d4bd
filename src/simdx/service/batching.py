"""Micro-batching: requests that wait at the same moment for the same thing share one engine call.

One thread owns the engine. While it works, requests queue; then it takes up to `batch_texts` texts of one
panel, method and prior, from all callers in equal shares, and the callers take turns at being first. A long
request is answered in several calls, so nobody waits for all of it. A caller has at most `caller_texts` texts
here (429). A caller without any is let in; others are refused (503) once `waiting_texts` wait in all.

Explaining an answer (which sentences matter, at which prior it flips) costs several times the answer. When
more than `explained_texts` texts are at hand, or were a moment ago, answers go out without it and say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simdx.abc.prior import Prior
from simdx.answer import Answer
from simdx.classifier import Classifier
from simdx.errors import BadInput, SimdxError
from simdx.service.audit import Entry
from simdx.service.config import Limits
from simdx.service.intervals import beside, one, preview
from simdx.service.meters import Meters
from simdx.service.problems import Problem
from simdx.service.wire import dump, finite

JUST_NOW = 0.25  # seconds after which callers who were answered no longer count as being there
CROWD = 16  # requests answered at once, from which on the next ones are waited for
ASKING_SECONDS = 0.0005  # for each of them
STOP_SECONDS = 10.0  # for the call under way to end
BUSY = "sentences and flip were left out: the service was busy"


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """Texts, and how they are to be answered."""

    panel: str
    method: str
    prior: Prior
    texts: tuple[str, ...]
    caller: str
    request: str  # id of the request; its answers are recorded as <request>.0, .1, …
    kind: str = "answer"
    draws: int | None = None  # with a number: also what the page shows beside an answer
    explain: bool = True  # the sentences that matter and the flip: most of an answer's cost
    alone: bool = False  # a slow method shares no call, so that others get their turn between
    preview: bool = False  # the posterior alone, which is no answer and leaves no record
    # The response's bytes, made before they are recorded.
    write: Callable[[InferenceResult], bytes] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)  # for the audit log, as are
    people: Mapping[str, str] = field(default_factory=dict)  # whom the case is about: recorded as a hash
    first: int = 0  # the number of its first answer, where a request asks several things
    classifier: Classifier | None = None  # of a panel that was made for the question

    @property
    def key(self) -> tuple[Any, ...]:
        """Requests with the same key can share one engine call."""
        prior = self.prior.probabilities.tobytes(), self.prior.alpha0
        made = id(self.classifier)
        return self.panel, made, self.method, prior, self.explain, self.preview, self.alone and self.request


@dataclass(slots=True)
class InferenceResult:
    answers: list[Answer] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)  # the same as JSON
    beside: dict[str, Any] = field(default_factory=dict)  # what the page shows besides
    sent: bytes = b""  # what leaves the service, where the request says how it is written


@dataclass(slots=True)
class _Job:
    request: InferenceRequest
    future: asyncio.Future[InferenceResult]  # cancelled once nobody waits for it
    result: InferenceResult = field(default_factory=InferenceResult)
    key: tuple[Any, ...] = ()
    taken: int = 0  # texts given to the engine
    error: Exception | None = None

    @property
    def left(self) -> int:
        return 0 if self.error or self.future.cancelled() else len(self.request.texts) - self.taken


_Part = tuple[_Job, tuple[str, ...]]


class Batcher:
    def __init__(
        self,
        classifier: Callable[[str, str], Classifier],
        record: Callable[[Sequence[Entry]], object],
        meters: Meters,
        limits: Limits,
    ) -> None:
        self._classifier, self._record, self._meters, self._limits = classifier, record, meters, limits
        self._queues: dict[str, deque[_Job]] = {}  # by caller; whose turn it is comes first
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
        job = _Job(request, self._loop.create_future(), key=request.key)
        self._in_flight[caller] += texts
        try:
            with self._wake:
                self._queues.setdefault(caller, deque()).append(job)
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
        while parts := self._next():
            self._answer(parts)
            jobs = list({id(job): job for job, _ in parts}.values())
            self._finish([job for job in jobs if not job.left and not job.future.cancelled()])
            self._answered = (len(jobs), sum(len(texts) for _, texts in parts), time.perf_counter())

    def _next(self) -> list[_Part]:
        """Wait for texts to answer. Nothing when the service stops; whoever still waits is told so."""
        with self._wake:
            while not self._closing:
                self._wait_for(1)
                crowd, texts, when = self._answered
                if crowd >= CROWD and time.perf_counter() - when < JUST_NOW:
                    # A call has a cost of its own: a crowd that was just answered is not halved for good.
                    self._wait_for(min(self._limits.batch_texts, texts), crowd * ASKING_SECONDS)
                if not self._closing and (parts := self._take()):
                    return parts
            left = [job for queue in self._queues.values() for job in queue]
        for job in left:
            job.error = Problem("overloaded", "The service is stopping.", retry_after=5)
        self._finish(left)
        return []

    def _wait_for(self, texts: int, seconds: float | None = None) -> None:
        """Caller must hold the lock. Each waking costs the event loop its turn: it is woken once."""
        self._enough = texts
        self._wake.wait_for(lambda: self._waiting >= texts or self._closing, seconds)

    def _take(self) -> list[_Part]:
        """Texts with the key of the caller whose turn it is, in equal shares of all callers who have such."""
        caller = next(iter(self._queues))
        self._queues[caller] = self._queues.pop(caller)  # the next turn is another's
        key = self._queues[caller][0].key
        lines = [[job for job in queue if job.key == key and job.left] for queue in self._queues.values()]
        parts: list[_Part] = []
        room = self._limits.batch_texts
        while room and (lines := [line for line in lines if line]):
            share = max(1, room // len(lines))
            for line in lines[:room]:
                job = line[0]
                texts = job.request.texts[job.taken : job.taken + min(share, room)]
                job.taken, room = job.taken + len(texts), room - len(texts)
                parts.append((job, texts))
                if not job.left:
                    line.pop(0)
        self._queues = {
            who: kept for who, queue in self._queues.items() if (kept := deque(j for j in queue if j.left))
        }
        self._waiting = sum(job.left for queue in self._queues.values() for job in queue)
        return parts

    def _answer(self, parts: list[_Part]) -> None:
        """One engine call. What goes wrong is the job's error, and of no other job."""
        started, first = time.perf_counter(), parts[0][0].request
        texts = [text for _, some in parts for text in some]
        _, last, when = self._answered
        just_now = last if started - when < JUST_NOW else 0
        calm = first.alone or self._waiting + len(texts) + just_now <= self._limits.explained_texts
        try:
            classifier = first.classifier or self._classifier(first.panel, first.method)
            draws = [job.request.draws for job, some in parts for _ in some]
            made = iter(_answers(classifier, first, texts, draws, calm))
        except Exception as error:
            if isinstance(error, SimdxError) and len(parts) > 1:
                for part in parts:  # one text the engine refuses must not take the others with it
                    self._answer([part])
                return
            bad = isinstance(error, BadInput)
            for job, _ in parts:
                job.error = Problem("bad-input", str(error)) if bad else error
            return
        for job, some in parts:
            for answer, body, page in (next(made) for _ in some):
                job.result.answers += [answer] if answer else []
                job.result.bodies.append(body)
                job.result.beside = page
        self._meters.engine.observe(time.perf_counter() - started)
        self._meters.batch.observe(len(texts))

    def _finish(self, jobs: list[_Job]) -> None:
        """Write the responses, then their records in one transaction, then let them leave."""
        entries: list[Entry] = []
        for job in jobs:
            try:
                if not job.error and job.request.write is not None:
                    job.result.sent = job.request.write(job.result)
                if not job.error and not job.request.preview:
                    entries += _entries(job.request, job.result)
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


def _answers(
    classifier: Classifier, first: InferenceRequest, texts: list[str], draws: list[int | None], calm: bool
) -> list[tuple[Answer | None, bytes, dict[str, Any]]]:
    """Of each text the answer, its JSON, and what the page shows beside it."""
    observed, prior = classifier.observe(texts), first.prior
    if first.preview:
        return [(None, b"", preview(classifier, one(observed, i), prior)) for i in range(len(texts))]
    note = BUSY if first.explain and not calm else None
    answers = classifier.infer_observed(observed, prior, explain=first.explain and calm, note=note)
    return [
        (answer, dump(answer), {} if n is None else beside(classifier, one(observed, i), prior, answer, n))
        for i, (answer, n) in enumerate(zip(answers, draws, strict=True))
    ]


def _deliver(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _entries(request: InferenceRequest, result: InferenceResult) -> list[Entry]:
    """The audit log's view of an answer: numbers, decision, versions, hashes of it and of what is sent."""
    context, out = dict(request.context), []
    if request.write is not None:
        context["sent"] = hashlib.sha256(result.sent).hexdigest()
    for i, (text, answer, body) in enumerate(zip(request.texts, result.answers, result.bodies, strict=True)):
        origin = answer.provenance
        versions = {name: getattr(origin, name) for name in ("bank", "embedder", "kernel", "seed")}
        versions |= {"simdx": origin.version, "method": answer.method, "engine": answer.engine}
        kept = ("label", "posterior", "entropy_bits", "out_of_class", "typicality")
        seen = {name: getattr(answer, name) for name in kept}
        seen |= {"decision": answer.decision.model_dump(), "sha256": hashlib.sha256(body).hexdigest()}
        out.append(
            Entry(
                f"{request.request}.{request.first + i}", request.kind, request.caller, request.panel,
                origin.prior, finite(seen), versions, text, context=context, people=request.people,
            )
        )  # fmt: skip
    return out
