"""The batcher alone, in front of a scripted classifier: who shares a call, who pays for whose mistake."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.answer import Answer, DecisionAnswer, Provenance
from simdx.errors import BadInput
from simdx.methods import Observations
from simdx.service import batching
from simdx.service.audit import Entry
from simdx.service.batching import BUSY, Batcher, InferenceRequest, InferenceResult
from simdx.service.config import Limits
from simdx.service.problems import Problem
from simdx.service.wire import Meters


def said(text: str, note: str | None = None) -> Answer:
    return Answer(
        panel="p", method="auto", engine="exact", label=text, posterior={"a": 1.0},
        among_labels={"a": 1.0}, entropy_bits=0.0, second_order=None, typicality=float("nan"),
        out_of_class=None, effective_simulations=None, evidence=(),
        decision=DecisionAnswer(action="accept", reason="r"),
        provenance=Provenance(
            bank="x", embedder="x", prior={"a": 1.0}, alpha0=1.0, kernel=None, tolerance=None, seed=0,
            version="x", notes=() if note is None else (note,),
        ),
    )  # fmt: skip


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

    def infer_observed(
        self, observations: Observations, prior: Prior, explain: bool, note: str | None
    ) -> list[Answer]:
        self.calls.append(observations.texts)
        self.explained.append(explain)
        return [said(text, note) for text in observations.texts]


def whole(told: InferenceResult) -> bytes:
    return b"".join(told.bodies)


def ask(
    text: str,
    request: str = "r",
    prior: Prior | None = None,
    panel: str = "p",
    n: int = 1,
    caller: str = "me",
) -> InferenceRequest:
    uniform = Prior.uniform(2)
    return InferenceRequest(panel, "auto", prior or uniform, (text,) * n, caller, request, whole)


def run(scenario: Any, *, record: Any = None, **limits: Any) -> tuple[Any, Scripted, list]:
    scripted, written = Scripted(), list[Entry]()
    most = Limits(**{"waiting_texts": 100, "seconds": 5.0, "batch_texts": 8, **limits})

    async def main() -> Any:
        batcher = Batcher(lambda panel, method: scripted, record or written.extend, Meters(), most)
        batcher.start()
        try:
            return await scenario(batcher, scripted)
        finally:
            scripted.open.set()
            await asyncio.to_thread(batcher.close)

    return asyncio.run(main()), scripted, written


async def held(batcher: Batcher, scripted: Scripted, *asks: InferenceRequest) -> list[Any]:
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
    assert [t.answers[0].label for t in told] == [a.texts[0] for a in asked]  # everyone got their own
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

    _, scripted, _ = run(scenario, batch_texts=batching.CROWD)
    assert [len(call) for call in scripted.calls] == [1, batching.CROWD, batching.CROWD, 1]


def test_one_caller_with_many_texts_is_no_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ASKING_SECONDS", 1.0)
    many = replace(ask("a"), texts=tuple(f"t{i}" for i in range(2 * batching.CROWD)))

    async def scenario(batcher: Batcher, scripted: Scripted) -> None:
        async with asyncio.timeout(0.9):
            await batcher.ask(many)
            await batcher.ask(many)

    run(scenario, batch_texts=4 * batching.CROWD)


def test_one_bad_text_does_not_take_the_others_with_it() -> None:
    results, _, written = run(lambda b, s: held(b, s, *map(ask, ("first", "good", "bad", "fine"))))
    assert [isinstance(r, BadInput) for r in results] == [False, False, True, False]
    assert len(written) == 3


def test_one_response_that_cannot_be_written_does_not_take_the_others_with_it() -> None:
    def write(told: InferenceResult) -> bytes:
        if told.answers[0].label == "unwritable":
            raise Problem("bad-input", "no")
        return b"sent " + told.answers[0].label.encode()

    asked = [replace(ask(t), write=write) for t in ("first", "good", "unwritable", "fine")]
    results, _, written = run(lambda b, s: held(b, s, *asked))
    assert [getattr(r, "sent", b"") for r in results] == [b"sent first", b"sent good", b"", b"sent fine"]
    hashes = [hashlib.sha256(r.sent).hexdigest() for r in results if isinstance(r, InferenceResult)]
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

    results, scripted, _ = run(scenario, waiting_texts=3, seconds=0.3)
    assert [r.kind for r in results] == ["timeout", "timeout", "overloaded"]
    assert all(r.retry_after for r in results)
    assert ("waits",) not in scripted.calls  # given up before its turn: not worked on


def test_a_caller_with_many_texts_does_not_starve_the_others() -> None:
    """24 requests of 256 texts of one caller left others without an answer (finding N3)."""

    async def scenario(batcher: Batcher, scripted: Scripted) -> tuple[Any, ...]:
        scripted.open.clear()
        greedy = [asyncio.create_task(batcher.ask(ask(f"g{i}", n=256, caller="greedy"))) for i in range(24)]
        await asyncio.sleep(0.05)
        honest = [asyncio.create_task(batcher.ask(ask(f"h{i}", caller=f"honest {i}"))) for i in range(5)]
        await asyncio.sleep(0.05)
        scripted.open.set()
        return await asyncio.gather(*honest), await asyncio.gather(*greedy, return_exceptions=True)

    (honest, greedy), scripted, _ = run(
        scenario, caller_texts=1_024, waiting_texts=1_024, batch_texts=64, seconds=20.0
    )
    assert [h.answers[0].label for h in honest] == [f"h{i}" for i in range(5)]
    assert {f"h{i}" for i in range(5)} <= set(scripted.calls[1])  # the first was under way when they came
    assert [g.kind for g in greedy if isinstance(g, Problem)] == ["too-many-requests"] * 20
    assert all(len(g.answers) == 256 for g in greedy if isinstance(g, InferenceResult))
    assert max(map(len, scripted.calls)) == 64  # a long request is answered in several calls


def test_callers_who_want_different_things_take_turns() -> None:
    asked = [
        ask("first"),
        *(ask(f"a{i}", panel="p", caller="a") for i in range(40)),
        ask("b", panel="q", caller="b"),
    ]
    _, scripted, _ = run(lambda b, s: held(b, s, *asked))
    assert scripted.calls.index(("b",)) <= 3


def test_no_answer_leaves_without_its_record() -> None:
    def full(entries: Sequence[Entry]) -> None:
        raise OSError("disk full")

    (result,), _, _ = run(lambda b, s: held(b, s, ask("x")), record=full)
    assert isinstance(result, OSError)


def test_records_hold_the_numbers_and_not_what_cannot_be_json() -> None:
    told, _, written = run(lambda b, s: b.ask(ask("x", request="q", n=2)))
    assert [e.id for e in written] == ["q.0", "q.1"]
    assert written[0].answer["typicality"] is None
    assert len(written[0].answer["sha256"]) == 64
    assert b'"typicality":null' in told.bodies[0]


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
    assert held.answers[0].label == "held"
    assert isinstance(waits, Problem)
    assert waits.kind == "overloaded"


def test_a_busy_engine_answers_without_explaining_and_says_so() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[Any]:
        calm = await batcher.ask(ask("calm"))
        many = [ask("held"), *(ask(f"t{i}") for i in range(30))]
        return [calm, *await held(batcher, scripted, *many, replace(ask("lone", panel="q"), alone=True))]

    (calm, _, first, *_, last, lone), scripted, _ = run(scenario)
    notes = [t.answers[0].provenance.notes for t in (calm, first, last, lone)]
    assert notes == [(), (BUSY,), (), ()]  # the last of the queue is again a small matter
    assert scripted.explained[0]
    assert not all(scripted.explained)


@pytest.mark.parametrize(("moment", "notes"), [(60.0, (BUSY,)), (0.0, ())])
def test_a_gap_between_two_batches_is_no_calm(
    monkeypatch: pytest.MonkeyPatch, moment: float, notes: tuple[str, ...]
) -> None:
    monkeypatch.setattr(batching, "JUST_NOW", moment)

    async def scenario(batcher: Batcher, scripted: Scripted) -> Any:
        await batcher.ask(ask("many", n=20))
        return await batcher.ask(ask("some", n=10))

    told, _, _ = run(scenario, batch_texts=32)
    assert told.answers[0].provenance.notes == notes
