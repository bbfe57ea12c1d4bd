"""Micro-batching: requests that wait at the same moment for the same thing share one engine call.

One thread owns the engine. While it works on a batch, requests queue; when it is done it takes the oldest one
together with every other of the same panel, method and prior. An idle service answers at once, a busy one in
batches: after a large one it gives its callers some milliseconds to ask again. A batch's audit records are
written in one transaction before any of its answers leaves. Where there are workers (`workers`), each has two
threads: it is given the next batch, once that is as large, while it answers the last one. What stays in this
process, as a case behind a slider does, is answered here.

Explaining an answer (which sentences matter, at which prior it flips) costs several times the answer. When
more texts are at hand than `explained_texts`, answers go out without it, and say so in their notes: under
load a caller gets the posterior in time rather than a refusal. Texts answered a moment ago count as well:
their callers are about to ask again, and a gap between two full batches is no calm.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pydantic_core import from_json

from simdx.answer import Answer
from simdx.classifier import Classifier
from simdx.errors import BadInput, SimdxError
from simdx.methods import Observations
from simdx.service.asks import Ask, Told, entries
from simdx.service.audit.record import Entry
from simdx.service.intervals import previews
from simdx.service.meters import Meters
from simdx.service.problems import Problem
from simdx.service.wire import dump
from simdx.service.workers import Worker

JUST_NOW = 0.25  # seconds after which callers who were answered no longer count as being there
CROWD = 16  # callers answered at once, from which on they are waited for
ASKING_SECONDS = 0.0005  # that each of them is given at most
STOP_SECONDS = 10.0  # for batches under way to end
BUSY = "sentences and flip were left out: the service was busy"


@dataclass(slots=True)
class _Job:
    ask: Ask
    future: asyncio.Future[Told]  # cancelled once nobody waits for it


@dataclass(slots=True)
class _Lane:
    """Jobs that wait, and who answers them: a worker, or this process."""

    jobs: deque[_Job]
    worker: Worker | None
    wake: threading.Condition
    turn: threading.Lock = field(default_factory=threading.Lock)  # who holds it takes the next batch
    asked: int = 0  # texts that are being answered
    enough: int = 0  # texts without which it need not be woken


class Batcher:
    def __init__(
        self,
        classifier: Callable[[str, str], Classifier],
        record: Callable[[Sequence[Entry]], object],
        meters: Meters,
        *,
        batch_texts: int,
        waiting_texts: int,
        seconds: float,
        explained_texts: int = 24,
        workers: Sequence[Worker] = (),
    ) -> None:
        self._classifier, self._record, self._meters = classifier, record, meters
        self._batch_texts, self._limit, self._seconds = batch_texts, waiting_texts, seconds
        self._explained_texts = explained_texts
        self._answered = (0, 0.0)  # texts of the last batch, and when it was done
        self._here: deque[_Job] = deque()
        self._away: deque[_Job] = deque() if workers else self._here  # what a worker can answer
        self._waiting = 0
        self._under_way = 0  # texts taken and not delivered yet
        self._lock = threading.Lock()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        own = _Lane(self._here, None, threading.Condition(self._lock))
        others = [_Lane(self._away, worker, threading.Condition(self._lock)) for worker in workers]
        self._lanes = [own, *others]
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=f"simdx-engine-{i}", daemon=True)
            for i, lane in enumerate([own, *others, *others])
        ]

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        with self._lock:
            self._closing = True
            for lane in self._lanes:
                lane.wake.notify_all()
        until = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    async def ask(self, ask: Ask) -> Told:
        """Wait for the answer, within the time limit; refuse at once where the queue is full."""
        assert self._loop is not None
        job = _Job(ask, self._loop.create_future())
        with self._lock:
            if self._waiting + len(ask.texts) > self._limit:
                said = "The engine has too many texts waiting; try again."
                raise Problem("overloaded", said, retry_after=1)
            jobs = self._away if ask.portable else self._here
            jobs.append(job)
            self._waiting += len(ask.texts)
            self._stir(jobs)
        self._meters.waiting.set(self._waiting)
        try:
            async with asyncio.timeout(self._seconds):
                return await job.future
        except TimeoutError:
            said = f"No answer within {self._seconds:g} seconds; send fewer or shorter texts."
            raise Problem("timeout", said, retry_after=5) from None

    def _stir(self, jobs: deque[_Job]) -> None:
        for lane in self._lanes:
            if lane.jobs is jobs and self._waiting >= lane.enough:
                lane.wake.notify()

    # ----------------------------------------------------------------- the engine's thread

    def _work(self, lane: _Lane) -> None:
        callers = 0
        while True:
            with lane.turn:
                batch = self._next(lane, callers)
            if batch is None:
                return
            told = self._answer(batch, lane.worker)
            with self._lock:
                lane.asked -= _texts(batch)
                lane.wake.notify()
            callers = len(batch)
            self._deliver(self._recorded(told))
            self._answered = (_texts(batch), time.perf_counter())
            with self._lock:
                self._under_way -= _texts(batch)

    def _next(self, lane: _Lane, callers: int) -> list[_Job] | None:
        """Wait for a batch; None when the service stops, and whoever still waits is told so."""
        jobs = lane.jobs
        with self._lock:
            while True:
                lane.wake.wait_for(lambda: jobs or self._closing)
                self._gather(lane, callers)
                if self._closing:
                    left = [jobs.popleft() for _ in range(len(jobs))]
                    break
                if not jobs:  # another worker took them meanwhile
                    continue
                if batch := [job for job in self._take(jobs) if not job.future.cancelled()]:
                    self._under_way += _texts(batch)
                    lane.asked += _texts(batch)
                    if jobs:
                        self._stir(jobs)
                    return batch
        stopping = Problem("overloaded", "The service is stopping.", retry_after=5)
        self._deliver([(job, stopping) for job in left])
        return None

    def _gather(self, lane: _Lane, callers: int) -> None:
        """A batch has a cost of its own: let the next one grow to the size of the last.

        A worker that is being asked has something to do, and leaves jobs to one that has not. Here, a crowd
        that was just answered is given some time to ask again, rather than halved into two batches for good;
        the loop that must hear it needs the interpreter meanwhile.
        """
        if lane.worker is not None:
            lane.enough = min(self._batch_texts, lane.asked)
            lane.wake.wait_for(lambda: self._closing or not lane.asked or self._may_follow(lane))
        else:
            texts, when = self._answered
            late = time.perf_counter() - when > JUST_NOW
            if callers >= CROWD and not late and self._away is self._here:
                lane.enough = min(self._batch_texts, self._waiting + texts)
                lane.wake.wait_for(
                    lambda: self._closing or self._waiting >= lane.enough, callers * ASKING_SECONDS
                )
        lane.enough = 0

    def _may_follow(self, lane: _Lane) -> bool:
        """May a batch be sent behind the one that is being answered?"""
        idle = any(other.asked == 0 for other in self._lanes if other.jobs is lane.jobs)
        return not idle and self._waiting >= min(self._batch_texts, lane.asked)

    def _take(self, jobs: deque[_Job]) -> list[_Job]:
        """The oldest job and those like it, in order, up to the batch size; others keep their places."""
        first = jobs.popleft()
        batch, texts = [first], len(first.ask.texts)
        key = first.ask.key
        kept: deque[_Job] = deque()
        while jobs and texts < self._batch_texts and not first.ask.alone:
            job = jobs.popleft()
            if job.ask.key == key and texts + len(job.ask.texts) <= self._batch_texts:
                batch.append(job)
                texts += len(job.ask.texts)
            else:
                kept.append(job)
        jobs.extendleft(reversed(kept))
        self._waiting -= texts
        self._meters.waiting.set(self._waiting)
        return batch

    def _answer(self, batch: list[_Job], worker: Worker | None) -> list[tuple[_Job, Told | Exception]]:
        started, asks, calm = time.perf_counter(), [job.ask for job in batch], self._calm(batch)
        explain, note = asks[0].explain and calm, BUSY if asks[0].explain and not calm else None
        try:
            if worker is None:
                told = self._infer(asks, explain, note)
            else:
                told = _asked(worker, asks, explain, note)
        except SimdxError as error:
            if len(batch) == 1:
                return [(batch[0], error)]
            # One text the engine refuses must not take the others with it.
            return [pair for job in batch for pair in self._answer([job], worker)]
        except Exception as error:
            return [(job, error) for job in batch]
        self._meters.engine.observe(time.perf_counter() - started)
        self._meters.batch.observe(_texts(batch))
        return list(zip(batch, told, strict=True))

    def _recorded(self, answered: list[tuple[_Job, Told | Exception]]) -> list[tuple[_Job, Told | Exception]]:
        """The answers with the bytes that leave, in the audit log: without a record no answer."""
        if answered[0][0].ask.preview:
            return answered
        written = [(job, _written(job.ask, t) if isinstance(t, Told) else t) for job, t in answered]
        good = [(job, t) for job, t in written if isinstance(t, Told)]
        try:
            if good:
                self._record([e for job, t in good for e in entries(job.ask, t)])
        except Exception as error:
            return [(job, t if isinstance(t, Exception) else error) for job, t in written]
        for job, t in good:
            for answer in t.answers:
                self._meters.answers.labels(job.ask.panel, answer["decision"]["action"]).inc()
        return written

    def _calm(self, batch: list[_Job]) -> bool:
        """Is there time to explain? Callers of the other methods paid for it with a call of their own."""
        if batch[0].ask.alone:
            return True
        texts, when = self._answered
        just_now = texts if time.perf_counter() - when < JUST_NOW else 0
        return self._under_way + self._waiting + just_now <= self._explained_texts

    def _infer(self, asks: list[Ask], explain: bool, note: str | None) -> list[Told]:
        classifier = self._classifier(asks[0].panel, asks[0].method)
        fresh = [ask for ask in asks if ask.observed is None]
        seen = iter(_split(classifier.observe([t for a in fresh for t in a.texts]), fresh) if fresh else ())
        observed = [ask.observed if ask.observed is not None else next(seen) for ask in asks]
        whole, prior = _join(observed), asks[0].prior
        if asks[0].preview:
            made = iter(previews(classifier, whole, prior))
            return [Told(tuple(next(made) for _ in o.texts), (), o, None) for o in observed]
        answers = iter(classifier.infer_observed(whole, prior, explain=explain, note=note))
        told = []
        for ask, observations in zip(asks, observed, strict=True):
            mine: list[Answer] = [next(answers) for _ in ask.texts]
            bodies = [a.to_json() for a in mine]
            draws, beside = None, tuple[dict[str, Any], ...]()
            if ask.draws:
                draws = classifier.simplex_draws_observed(observations, prior, ask.draws)
            if ask.kind == "explore":
                beside = tuple(_beside(classifier, t, a) for t, a in zip(ask.texts, mine, strict=True))
            told.append(Told(tuple(bodies), tuple(dump(b) for b in bodies), observations, draws, beside))
        return told

    def _deliver(self, results: Sequence[tuple[_Job, Told | Exception]]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is waiting any more
            self._loop.call_soon_threadsafe(_settle, results)


def _asked(worker: Worker, asks: list[Ask], explain: bool, note: str | None) -> list[Told]:
    """The same by a worker."""
    first, texts = asks[0], [text for ask in asks for text in ask.texts]
    made = iter(worker.ask(first.panel, first.method, first.prior, texts, explain, note))
    bodies = [tuple(next(made) for _ in ask.texts) for ask in asks]
    return [Told(tuple(from_json(body) for body in mine), mine, None, None) for mine in bodies]


def _beside(classifier: Classifier, text: str, answer: Answer) -> dict[str, Any]:
    """What the page shows beside an answer: its outcomes, its sentences, and the evidence that says alike."""
    return {
        "outcomes": answer.outcomes,
        "words": {
            "headline": answer.headline,
            "leading": answer.leading,
            "uncertainty": answer.uncertainty_words,
            "uncertainty_is_its_own": answer.second_order_is_its_own,
            "alarm": answer.alarm_words,
        },
        "pairs": [pair.model_dump() for pair in classifier.pairs(text, answer)],
    }


def _texts(batch: Sequence[_Job]) -> int:
    return sum(len(job.ask.texts) for job in batch)


def _settle(results: Sequence[tuple[_Job, Told | Exception]]) -> None:
    for job, result in results:
        if job.future.done():
            continue
        if isinstance(result, Exception):
            bad = isinstance(result, BadInput)
            job.future.set_exception(Problem("bad-input", str(result)) if bad else result)
        else:
            job.future.set_result(result)


def _written(ask: Ask, told: Told) -> Told | Exception:
    """With the bytes that will leave; one response that cannot be written takes no other with it."""
    try:
        return told if ask.write is None else replace(told, sent=ask.write(told))
    except Exception as error:
        return error


def _split(observations: Observations, asks: Sequence[Ask]) -> list[Observations]:
    out, start = [], 0
    for ask in asks:
        part = slice(start, start + len(ask.texts))
        out.append(Observations(observations.texts[part], observations.vectors[part]))
        start = part.stop
    return out


def _join(parts: Sequence[Observations]) -> Observations:
    if len(parts) == 1:
        return parts[0]
    texts = tuple(t for p in parts for t in p.texts)
    return Observations(texts, np.concatenate([p.vectors for p in parts]))
