"""The wall clock jumps to 1970 and 2099, threads run out, a server never says a word: each ends in order."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.service import audit_chain, auth
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditKey, Entry
from simdx.service.auth import TokenFile
from simdx.simulators.base import Completion, Request, stream
from simdx.simulators.openai import time_limit
from tests.cli.conftest import Cli
from tests.simulators.faults import FaultyServer

NOW = datetime.now(UTC)
PAST, FUTURE = datetime(1970, 1, 2, tzinfo=UTC), datetime(2099, 6, 1, tzinfo=UTC)
Set = Callable[[datetime], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Set what every module of ours takes for the wall clock."""
    told = [NOW]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return told[0].astimezone(tz)

    for module in (auth, audit_chain):
        monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(time, "time", lambda: told[0].timestamp())
    return lambda moment: told.__setitem__(0, moment)


def test_the_chain_is_ordered_by_its_links_not_by_its_dates(tmp_path: Path, clock: Set) -> None:
    log = AuditStore(f"sqlite:///{tmp_path}/a.sqlite3", AuditKey(bytes(32)))
    for i, moment in enumerate((NOW, PAST, NOW - timedelta(days=1), FUTURE, NOW)):
        clock(moment)
        log.append([Entry(f"{i}.0", "answer", "me", "toy", text=f"text {i}")])
    assert [r.id for r in log.records()] == [f"{i}.0" for i in range(5)]
    assert [r.id for r in log.page(limit=2)] == ["4.0", "3.0"]
    assert next(r.at for r in log.records() if r.id == "1.0").startswith("1970")
    verdict = log.verify()
    assert (verdict.ok, verdict.records) == (True, 5)
    log.close()


def test_tokens_expire_by_the_clock_and_come_back_with_it(tmp_path: Path, clock: Set) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    lasting, _ = tokens.new("lasting", ("classify",))
    short, _ = tokens.new("short", ("classify",), days=1)
    for moment, valid in ((NOW, True), (FUTURE, False), (PAST, True), (NOW, True)):
        clock(moment)
        assert tokens.check(lasting) is not None
        assert (tokens.check(short) is not None) is valid
    clock(PAST)
    tokens.revoke("lasting")  # revoked is revoked, whatever the date beside it
    clock(NOW)
    assert tokens.check(lasting) is None


@pytest.mark.parametrize("threads", [0, 1])
def test_threads_that_cannot_be_started(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one worker the work of four is done; with none it is one clear failure, and never a wait."""
    start, left = threading.Thread.start, [None] * threads

    def limited(self: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    requests = [Request(f"number {i}") for i in range(6)]
    answers = stream(requests, lambda request: Completion(request.prompt, "stop", 0, 0, 0.0), 4)
    if threads:
        assert sorted(position for position, _ in answers) == list(range(6))
    else:
        with pytest.raises(RunFailed, match="out of memory"):
            list(answers)


def test_a_silent_server_is_given_up(world: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building, asking and embedding end and say why; a build goes on elsewhere."""
    monkeypatch.setenv("SIMDX_TIMEOUT", "0.05")
    out = world / "bank"
    build = ("bank", "build", "--panel", world / "panel.yaml", "--per-label", "1", "--out", out)
    with FaultyServer(["hang"] * 1_000) as server:
        name = f"openai:m@{server.url}"
        ask = ("classify", "red fruit", "--panel", world / "with-bank.yaml")
        for asked in (
            (*build, "--simulator", name),
            (*ask, "--embedder", name),
            (*ask, "--method", "elicited", "--simulator", name),
        ):
            ended = cli(*asked)
            assert ended.code == 1, ended.err  # the prior must not pass for an answer
            assert "did not answer in time" in ended.err.strip().splitlines()[-1]
    assert not (out / "manifest.json").exists()
    monkeypatch.setenv("SIMDX_TIMEOUT", "soon")
    with pytest.raises(BadInput, match="SIMDX_TIMEOUT"):
        time_limit()
    monkeypatch.delenv("SIMDX_TIMEOUT")
    assert (time_limit(), time_limit(2)) == (300, 2)
    assert cli(*build, "--simulator", "scripted").code == 0
