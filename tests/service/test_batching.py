"""The batcher alone, in front of a scripted classifier: who shares a call, who pays for whose mistake."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from simdx.service.asks import Ask, Told

from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.methods import Observations
from simdx.service import batching
from simdx.service.audit.record import Entry
from simdx.service.batching import BUSY, Batcher
from simdx.service.meters import Meters
from simdx.service.problems import Problem
from simdx.service.wire import dump
from tests.loopback import until


class Said:
    """An answer as the batcher needs it."""

    uncertainty_words = alarm_words = None
    headline = leading = "x"
    second_order_is_its_own = False
    outcomes: ClassVar[dict[str, float]] = {"a": 1.0}

    def __init__(self, text: str, note: str | None = None) -> None:
        self.text, self.notes = text, [] if note is None else [note]

    def to_json(self) -> dict[str, Any]:
        origin = dict.fromkeys(("bank", "embedder", "kernel", "seed", "version"), "x")
        return {
            "label": self.text, "posterior": {"a": 1.0}, "entropy_bits": 0.0, "out_of_class": None,
            "typicality": float("nan"), "decision": {"action": "accept", "reason": "r"},
            "method": "auto", "engine": "exact",
            "provenance": {**origin, "prior": {"a": 1.0}, "notes": self.notes},
        }  # fmt: skip


class Scripted:
    """Echoes each text as its label, refuses the text 'bad', and can be held shut."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.explained: list[bool] = []
        self.open = threading.Event()
        self.open.set()

    def observe(self, texts: Sequence[str]) -> Observations:
        self.open.wait(5)
        if "bad" in texts:
            raise BadInput("a text is bad")
        return Observations(tuple(texts), np.zeros((len(texts), 1)))

    def pairs(self, text: str, answer: Said) -> tuple[()]:
        return ()

    def infer_observed(
        self, observations: Observations, prior: Prior, explain: bool, note: str | None
    ) -> list[Said]:
        self.calls.append(observations.texts)
        self.explained.append(explain)
        return [Said(text, note) for text in observations.texts]


def ask(text: str, request: str = "r", prior: Prior | None = None, panel: str = "p", n: int = 1) -> Ask:
    return Ask(panel, "auto", prior or Prior.uniform(2), (text,) * n, "me", request)


def run(
    scenario: Any, *, waiting: int = 100, seconds: float = 5.0, record: Any = None, most: int = 8
) -> tuple[Any, Scripted, list]:
    scripted, written = Scripted(), list[Entry]()

    async def main() -> Any:
        batcher = Batcher(
            lambda panel, method: scripted, record or written.extend, Meters(),
            batch_texts=most, waiting_texts=waiting, seconds=seconds,
        )  # fmt: skip
        batcher.start()
        try:
            return await scenario(batcher, scripted)
        finally:
            scripted.open.set()
            await asyncio.to_thread(batcher.close)

    return asyncio.run(main()), scripted, written


async def held(batcher: Batcher, scripted: Scripted, *asks: Ask) -> list[Any]:
    """What becomes of these, all of them waiting while the engine is held in the call of the first."""
    scripted.open.clear()
    tasks = []
    for one in asks:
        tasks.append(asyncio.create_task(batcher.ask(one)))
        await asyncio.sleep(0.05 if len(tasks) == 1 else 0)
    await asyncio.sleep(0.05)
    scripted.open.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_waiting_asks_of_one_kind_share_calls_and_others_do_not() -> None:
    skewed = Prior(np.array([0.9, 0.1]), 2.0)

    kinds: list[dict[str, Any]] = [{}, {"prior": skewed}, {"panel": "q"}]
    asked = [ask("first"), *(ask(f"t{i}", **kinds[i % 3]) for i in range(12))]
    told, scripted, written = run(lambda b, s: held(b, s, *asked))
    assert [t.answers[0]["label"] for t in told] == [a.texts[0] for a in asked]  # everyone got their own
    assert sorted(len(c) for c in scripted.calls) == [1, 4, 4, 4]
    assert len(written) == 13


def test_a_crowd_that_was_just_answered_is_not_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ASKING_SECONDS", 0.02)

    async def scenario(batcher: Batcher, scripted: Scripted) -> None:
        async def twice(i: int) -> None:
            await batcher.ask(ask(f"{i}"))
            await batcher.ask(ask(f"{i} again"))

        scripted.open.clear()
        first = asyncio.create_task(batcher.ask(ask("first")))
        await asyncio.sleep(0.05)
        crowd = [asyncio.create_task(twice(i)) for i in range(batching.CROWD)]
        await asyncio.sleep(0.05)
        late = asyncio.create_task(batcher.ask(ask("late")))  # it finds the next batch full
        await asyncio.sleep(0.05)
        scripted.open.set()
        await asyncio.gather(first, late, *crowd)

    _, scripted, _ = run(scenario, most=batching.CROWD)
    assert [len(call) for call in scripted.calls] == [1, batching.CROWD, batching.CROWD, 1]


class Beside:
    """A worker that echoes texts, and can be held shut."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool]] = []
        self.open = threading.Event()
        self.open.set()

    def ask(
        self, panel: str, method: str, prior: Prior, texts: list[str], explain: bool, note: str | None
    ) -> list[bytes]:
        self.calls.append((len(texts), explain))
        self.open.wait(5)
        return [dump(Said(text).to_json()) for text in texts]


def beside(scenario: Any, *workers: Beside, record: Any = lambda entries: None) -> None:
    """A scenario in front of workers alone."""

    async def main() -> None:
        batcher = Batcher(
            lambda panel, method: None, record, Meters(), batch_texts=64, waiting_texts=100, seconds=5.0,
            workers=workers,
        )  # fmt: skip
        batcher.start()
        await scenario(batcher)
        await asyncio.to_thread(batcher.close)

    asyncio.run(main())


def test_a_worker_gets_its_next_batch_once_that_is_as_large_as_the_last() -> None:
    worker = Beside()

    async def scenario(batcher: Batcher) -> None:
        worker.open.clear()
        asked = []
        for n, calls in ((5, 1), (3, 1), (1, 1), (3, 2), (20, 2), (1, 2)):  # a third waits until one is done
            asked.append(asyncio.create_task(batcher.ask(ask("a", n=n))))
            await asyncio.sleep(0)
            await asyncio.to_thread(until, lambda calls=calls: len(worker.calls) >= calls)
            await asyncio.sleep(0.02)
            assert len(worker.calls) == calls
        worker.open.set()
        await asyncio.gather(*asked)

    beside(scenario, worker)
    assert [n for n, _ in worker.calls] == [5, 7, 21]


def test_workers_share_what_waits() -> None:
    """One that is idle takes it; one that finds it taken when it may go on waits for more."""
    workers = [Beside(), Beside()]

    async def scenario(batcher: Batcher) -> None:
        async def asked(n: int, calls: int) -> asyncio.Task[Any]:
            task = asyncio.create_task(batcher.ask(ask("a", n=n)))
            await asyncio.sleep(0)
            await asyncio.to_thread(until, lambda: sum(len(w.calls) for w in workers) >= calls)
            await asyncio.sleep(0.02)
            return task

        for _ in range(10):
            for worker in workers:
                worker.calls.clear()
                worker.open.clear()
            tasks = [await asked(4, 1), await asked(5, 2)]
            assert [len(worker.calls) for worker in workers] == [1, 1]
            tasks.append(await asked(1, 2))  # waits for either
            for worker in sorted(workers, key=lambda w: -w.calls[0][0]):
                worker.open.set()
                await asyncio.sleep(0.01)
            await asyncio.gather(*tasks)
        assert all(thread.is_alive() for thread in batcher._threads)

    beside(scenario, *workers)


def test_texts_that_are_being_recorded_are_still_there() -> None:
    """A worker's next batch is taken while the last one is recorded: its callers are no calm."""
    worker, recording, recorded = Beside(), threading.Event(), threading.Event()

    def record(entries: Sequence[Entry]) -> None:
        recording.set()
        recorded.wait(5)

    async def scenario(batcher: Batcher) -> None:
        many = [replace(ask("a"), texts=tuple(f"{name}{i}" for i in range(13))) for name in "ab"]
        first = asyncio.create_task(batcher.ask(many[0]))
        await asyncio.to_thread(recording.wait, 5)
        second = asyncio.create_task(batcher.ask(many[1]))
        await asyncio.sleep(0.1)
        recorded.set()
        await asyncio.gather(first, second)

    beside(scenario, worker, record=record)
    assert [explained for _, explained in worker.calls] == [True, False]


def test_one_caller_with_many_texts_is_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ASKING_SECONDS", 1.0)
    many = replace(ask("a"), texts=tuple(f"t{i}" for i in range(2 * batching.CROWD)))

    async def scenario(batcher: Batcher, scripted: Scripted) -> None:
        async with asyncio.timeout(0.9):
            await batcher.ask(many)
            await batcher.ask(many)

    run(scenario, most=4 * batching.CROWD)


def test_one_bad_text_does_not_take_the_others_with_it() -> None:
    results, _, written = run(lambda b, s: held(b, s, *map(ask, ("first", "good", "bad", "fine"))))
    assert [getattr(r, "kind", "ok") for r in results] == ["ok", "ok", "bad-input", "ok"]
    assert len(written) == 3


def test_one_response_that_cannot_be_written_does_not_take_the_others_with_it() -> None:
    def write(told: Told) -> bytes:
        if told.answers[0]["label"] == "unwritable":
            raise Problem("bad-input", "no")
        return b"sent " + told.answers[0]["label"].encode()

    asked = [replace(ask(t), write=write) for t in ("first", "good", "unwritable", "fine")]
    results, _, written = run(lambda b, s: held(b, s, *asked))
    assert [getattr(r, "sent", b"") for r in results] == [b"sent first", b"sent good", b"", b"sent fine"]
    hashes = [hashlib.sha256(r.sent).hexdigest() for r in results if isinstance(r, Told)]
    assert [entry.context["sent"] for entry in written] == hashes


def test_a_full_queue_refuses_and_a_slow_engine_times_out() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[object]:
        scripted.open.clear()
        held = asyncio.create_task(batcher.ask(ask("held")))
        await asyncio.sleep(0.05)
        waits = asyncio.create_task(batcher.ask(ask("waits", n=2)))
        await asyncio.sleep(0.01)
        over = asyncio.create_task(batcher.ask(ask("over", n=2)))
        return await asyncio.gather(held, waits, over, return_exceptions=True)

    results, scripted, _ = run(scenario, waiting=3, seconds=0.3)
    assert [r.kind for r in results] == ["timeout", "timeout", "overloaded"]
    assert all(r.retry_after for r in results)
    assert ("waits",) not in scripted.calls  # given up before its turn: not worked on


def test_no_answer_leaves_without_its_record() -> None:
    def full(entries: Sequence[Entry]) -> None:
        raise OSError("disk full")

    (result,), _, _ = run(lambda b, s: held(b, s, ask("x")), record=full)
    assert isinstance(result, OSError)


def test_records_hold_the_numbers_and_not_what_cannot_be_json() -> None:
    told, _, written = run(lambda b, s: b.ask(replace(ask("x", request="q", n=2), kind="explore")))
    assert [e.id for e in written] == ["q.0", "q.1"]
    assert written[0].answer["typicality"] is None
    assert len(written[0].answer["sha256"]) == 64
    assert told.bodies[0].count(b"null") == 2


def test_closing_tells_those_who_wait() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> object:
        scripted.open.clear()
        held = asyncio.create_task(batcher.ask(ask("held")))
        await asyncio.sleep(0.05)
        waits = asyncio.create_task(batcher.ask(ask("waits", panel="q")))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.05)
        scripted.open.set()
        await closing
        return await asyncio.gather(held, waits, return_exceptions=True)

    (held, waits), _, _ = run(scenario)
    assert held.answers[0]["label"] == "held"
    assert isinstance(waits, Problem)
    assert waits.kind == "overloaded"


def test_a_busy_engine_answers_without_explaining_and_says_so() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[Any]:
        calm = await batcher.ask(ask("calm"))
        many = [ask("held"), *(ask(f"t{i}") for i in range(30))]
        return [calm, *await held(batcher, scripted, *many, replace(ask("lone", panel="q"), alone=True))]

    (calm, _, first, *_, last, lone), scripted, _ = run(scenario)
    notes = [t.answers[0]["provenance"]["notes"] for t in (calm, first, last, lone)]
    assert notes == [[], [BUSY], [], []]  # the last of the queue is again a small matter
    assert scripted.explained[0]
    assert not all(scripted.explained)


@pytest.mark.parametrize(("moment", "notes"), [(60.0, [BUSY]), (0.0, [])])
def test_a_gap_between_two_batches_is_no_calm(
    monkeypatch: pytest.MonkeyPatch, moment: float, notes: list[str]
) -> None:
    monkeypatch.setattr(batching, "JUST_NOW", moment)

    async def scenario(batcher: Batcher, scripted: Scripted) -> Any:
        await batcher.ask(ask("many", n=20))
        return await batcher.ask(ask("some", n=10))

    told, _, _ = run(scenario)
    assert told.answers[0]["provenance"]["notes"] == notes
