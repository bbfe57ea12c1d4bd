"""Answers by processes beside the service: the same answers, the same records, and no harm when one dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from simdx.errors import BadInput
from simdx.service import workers
from simdx.service.workers import Worker
from tests.service.conftest import ASK, TEXT, create_app, kind, make_config, serving


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


def test_a_number_of_workers_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for many in (-1, 65):
        with pytest.raises(BadInput, match="--workers"):
            create_app(make_config(tmp_path, workers=many))
