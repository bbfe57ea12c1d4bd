"""Answers by processes beside the service: the same answers, the same records, and no harm when one dies."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simdx.abc.prior import Prior
from simdx.errors import BadInput, RunFailed
from simdx.service import app, workers
from simdx.service.problems import Problem
from simdx.service.registry import Registry
from simdx.service.workers import Worker
from tests.loopback import until
from tests.service.conftest import ASK, PANEL, TEXT, kind, make_config, serving


def test_a_worker_answers_as_the_service_does_and_its_death_costs_one_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []
    start, send = Worker._start, workers._send
    monkeypatch.setattr(Worker, "_start", lambda self: (started.append(self), start(self))[1])
    with serving(tmp_path / "alone") as alone, serving(tmp_path / "beside", workers=1) as beside:
        ours, theirs = (c.post("/v1/classify", json=ASK) for c in (alone, beside))
        posterior = theirs.json()["posterior"]
        assert ours.json()["posterior"] == pytest.approx(posterior, abs=1e-9)
        assert theirs.json()["sentences"]
        (record,) = beside.get("/v1/audit").json()["records"]
        assert record["id"] == f"{theirs.headers['Simdx-Answer']}.0"
        assert record["answer"]["posterior"] == posterior
        both = {"panel": ASK["panel"], "texts": [TEXT, f"{TEXT} It hurts."]}
        several = beside.post("/v1/classify", json=both)
        assert len(several.json()["results"]) == 2
        kept = beside.post("/v1/explore", json=ASK)  # a case that stays in this process
        assert kept.json()["answer"]["posterior"] == pytest.approx(posterior, abs=1e-9)

        worker = started[0]._process.pid
        os.kill(worker, signal.SIGSTOP)
        monkeypatch.setattr(workers, "_send", lambda *args: (send(*args), os.kill(worker, signal.SIGKILL)))
        refused = beside.post("/v1/classify", json=ASK)
        monkeypatch.setattr(workers, "_send", send)
        assert (refused.status_code, kind(refused)) == (503, "overloaded")
        assert beside.post("/v1/classify", json=ASK).json()["posterior"] == posterior
        assert len(started) == 2
    assert all(worker._process.returncode is not None for worker in started)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    config = make_config(tmp_path, workers=1)
    made = Worker(config)
    made.ready(Registry(config).served)
    yield made
    made.close()


def ask(worker: Worker, text: str = TEXT) -> list[bytes]:
    return worker.ask(PANEL, "auto", Prior.uniform(3), [text], explain=False, note=None)


def test_one_that_dies_while_it_is_told_costs_one_refusal(worker: Worker) -> None:
    os.kill(worker._process.pid, signal.SIGSTOP)
    threading.Timer(0.3, worker._process.kill).start()
    with pytest.raises(Problem, match="The engine stopped"):
        ask(worker, TEXT * 5000)  # more than a pipe holds
    assert len(ask(worker)) == 1


def test_two_may_ask_at_once_and_hear_their_own(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{TEXT} {i} days." for i in range(12)]
    alone = [ask(worker, text) for text in texts]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda text: ask(worker, text), texts)) == alone
        sent, send = list[bytes](), workers._send
        monkeypatch.setattr(
            workers, "_send", lambda pipe, message: (send(pipe, message), sent.append(message))
        )
        os.kill(worker._process.pid, signal.SIGSTOP)
        asked = [pool.submit(ask, worker, text) for text in texts[:2]]
        until(lambda: len(sent) == 2)
        worker._process.kill()
        for one in asked:
            with pytest.raises(Problem, match="The engine stopped"):
                one.result(10)
    assert ask(worker, texts[0]) == alone[0]


def test_an_answer_that_was_not_heard_is_not_the_next_ones(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ask(worker), ask(worker, f"{TEXT} It hurts.")
    assert first != second
    receive = workers._receive

    def out_of_memory(pipe: object) -> bytes | None:
        monkeypatch.setattr(workers, "_receive", receive)
        raise MemoryError

    monkeypatch.setattr(workers, "_receive", out_of_memory)
    with pytest.raises(MemoryError):
        ask(worker)
    assert ask(worker, f"{TEXT} It hurts.") == second


def test_one_that_does_not_answer_is_ended_while_it_is_asked(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.2)
    os.kill(worker._process.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, worker)
        until(worker._hearing.locked)
        worker.close(0.2)
        assert isinstance(waiting.exception(10), Problem)
    assert worker._process.returncode == -signal.SIGKILL


def test_one_that_serves_something_else_after_a_restart_is_not_asked(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, bank = worker._served[PANEL]
    monkeypatch.setattr(worker, "_served", {PANEL: [names[::-1], bank]})  # as if the file had changed
    worker._process.kill()
    worker._process.wait()
    with pytest.raises(Problem, match="did not start"):
        ask(worker)


def test_what_cannot_be_served_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = make_config(tmp_path, workers=2, panels={PANEL: str(tmp_path / "nowhere")})
    with pytest.raises(BadInput, match="nowhere"):
        app.create_app(config)
    beside = Worker(config)
    with pytest.raises(RunFailed, match="nowhere"):
        beside.ready({})
    beside.close()
    assert capfd.readouterr().err == ""
