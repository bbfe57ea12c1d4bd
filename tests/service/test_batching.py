"""The batcher alone, in front of a scripted classifier: who shares a call, who pays for whose mistake."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.answer import Answer, DecisionAnswer, Provenance
from simdx.errors import BadInput
from simdx.methods import Observations
from simdx.service import batching
from simdx.service.audit_chain import GENESIS, Entry
from simdx.service.batching import BUSY, Ask, Batcher
from simdx.service.config import Limits
from simdx.service.wire import Meters, Problem
from tests.service.audit_logs import KEY


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


def sent(told: Ask) -> bytes:
    if told.answers[0].label == "unwritable":
        raise Problem("bad-input", "no")
    return b"sent " + told.answers[0].label.encode()


def ask(
    text: str, prior: Prior | None = None, panel: str = "p", n: int = 1, caller: str = "me", **more: Any
) -> Ask:
    uniform = Prior.uniform(2)
    return Ask(panel, "auto", prior or uniform, (text,) * n, caller, "r", sent, **more)


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
            await batcher.close()

    return asyncio.run(main()), scripted, written


async def held(batcher: Batcher, scripted: Scripted, *asks: Any, then: Any = None) -> list[Any]:
    """What becomes of these requests or coroutines, which wait while the engine is held in the call of the
    first; `then` is what happens before it is let go."""
    scripted.open.clear()
    tasks = []
    for one in asks:
        todo = batcher.ask(one) if isinstance(one, Ask) else one
        tasks.append(asyncio.create_task(todo))
        await asyncio.sleep(0 if len(tasks) > 1 else 0.05)
    await asyncio.sleep(0.05)
    closing = asyncio.create_task(then) if then else None
    await asyncio.sleep(0.05)
    scripted.open.set()
    if closing:
        await closing
    return await asyncio.gather(*tasks, return_exceptions=True)


def of(kinds: list[Any]) -> list[str]:
    return ["told" if isinstance(one, Ask) else getattr(one, "kind", type(one).__name__) for one in kinds]


def test_waiting_asks_of_one_kind_share_calls_and_others_do_not() -> None:
    kinds: list[dict[str, Any]] = [{}, {"prior": Prior(np.array([0.9, 0.1]), 2.0)}, {"panel": "q"}]
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

        late = batcher.ask(ask("late"))  # it finds the next batch full
        await held(batcher, scripted, ask("first"), *map(twice, range(batching.CROWD)), late)

    _, scripted, _ = run(scenario, batch_texts=batching.CROWD)
    assert [len(call) for call in scripted.calls] == [1, batching.CROWD, batching.CROWD, 1]


def test_what_cannot_be_answered_or_written_does_not_take_the_others_with_it() -> None:
    asked = map(ask, ("first", "good", "bad", "unwritable", "fine"))
    told, _, written = run(lambda b, s: held(b, s, *asked))
    assert of(told) == ["told", "told", "BadInput", "bad-input", "told"]
    bodies = [told[i].sent for i in (0, 1, 4)]
    assert bodies == [b"sent first", b"sent good", b"sent fine"]
    assert [e.context["sent"] for e in written] == [hashlib.sha256(body).hexdigest() for body in bodies]


def test_a_full_queue_refuses_and_a_slow_engine_times_out() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[Any]:
        scripted.open.clear()
        tasks = []
        for one in (ask("held"), ask("waits", n=2), ask("over", n=2)):
            tasks.append(asyncio.create_task(batcher.ask(one)))
            await asyncio.sleep(0.05)
        return await asyncio.gather(*tasks, return_exceptions=True)

    told, scripted, _ = run(scenario, waiting_texts=3, seconds=0.3)
    assert of(told) == ["timeout", "timeout", "overloaded"]
    assert all(r.retry_after for r in told)
    assert ("waits",) not in scripted.calls  # given up before its turn: not worked on


def test_a_caller_with_many_texts_does_not_starve_the_others() -> None:
    """24 requests of 256 texts of one caller left others without an answer (finding N3)."""
    greedy = [ask(f"g{i}", n=256, caller="greedy") for i in range(24)]
    names = [f"h{i}" for i in range(5)]
    honest = [ask(name, caller=name) for name in names]
    limits = {"caller_texts": 1_024, "waiting_texts": 1_024, "batch_texts": 64, "seconds": 20.0}
    told, scripted, _ = run(lambda b, s: held(b, s, *greedy, *honest), **limits)
    assert [h.answers[0].label for h in told[24:]] == names
    assert set(names) <= set(scripted.calls[1])  # the first was under way when they came
    assert sorted(of(told[:24])) == ["told"] * 4 + ["too-many-requests"] * 20
    assert all(len(g.answers) == 256 for g in told[:24] if isinstance(g, Ask))
    assert max(map(len, scripted.calls)) == 64  # a long request is answered in several calls


def test_callers_who_want_different_things_take_turns() -> None:
    asked = [ask("first"), *(ask(f"a{i}", caller="a") for i in range(40)), ask("b", panel="q", caller="b")]
    _, scripted, _ = run(lambda b, s: held(b, s, *asked))
    assert scripted.calls.index(("b",)) <= 3


def test_no_answer_leaves_without_its_record() -> None:
    def full(entries: Sequence[Entry]) -> None:
        raise OSError("disk full")

    (told,), _, _ = run(lambda b, s: held(b, s, ask("x")), record=full)
    assert isinstance(told, OSError)


def test_records_hold_the_numbers_and_not_what_cannot_be_json() -> None:
    told, _, written = run(lambda b, s: b.ask(ask("x", n=2)))
    assert [e.id for e in written] == ["r.0", "r.1"]
    kept = KEY.chained(written[0], 1, "now", GENESIS).to_json()["answer"]
    assert kept["typicality"] is None
    assert kept["sha256"] == hashlib.sha256(told.bodies[0]).hexdigest()
    assert b'"typicality":null' in told.bodies[0]


def test_closing_tells_those_who_wait() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[Any]:
        closing = batcher.close()
        return await held(batcher, scripted, ask("held"), ask("waits", panel="q"), then=closing)

    told, _, _ = run(scenario)
    assert of(told) == ["told", "overloaded"]


def test_a_busy_engine_answers_without_explaining_and_says_so() -> None:
    async def scenario(batcher: Batcher, scripted: Scripted) -> list[Any]:
        calm = await batcher.ask(ask("calm"))
        many = [ask("held"), *(ask(f"t{i}") for i in range(30)), ask("lone", panel="q", alone=True)]
        return [calm, *await held(batcher, scripted, *many)]

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
