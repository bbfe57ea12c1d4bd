"""The wall clock jumps, back to 1970 and forward to 2099: order, chains and limits do not depend on it."""

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.disk import write_atomically
from simdx.service import auth
from simdx.service.app import create_app
from simdx.service.audit import AuditKey, AuditStore, Entry, chain
from simdx.service.auth import TokenFile
from simdx.service.config import ServiceConfig

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

    for module in (auth, chain):
        monkeypatch.setattr(module, "datetime", Clock)
    monkeypatch.setattr(time, "time", lambda: told[0].timestamp())

    def set_to(moment: datetime) -> None:
        told[0] = moment

    return set_to


def test_the_chain_is_ordered_by_its_links_not_by_its_dates(tmp_path: Path, clock: Set) -> None:
    log = AuditStore(f"sqlite:///{tmp_path}/a.sqlite3", AuditKey(bytes(32)))
    for i, moment in enumerate((NOW, PAST, NOW - timedelta(days=1), NOW)):
        clock(moment)
        log.append([Entry(f"{i}.0", "answer", "me", "toy", text=f"text {i}")])
    assert log.verify().ok
    assert [r.id for r in log.records()] == ["0.0", "1.0", "2.0", "3.0"]
    assert [r.id for r in log.page(limit=2)] == ["3.0", "2.0"]
    assert next(r.at for r in log.records() if r.id == "1.0").startswith("1970")
    clock(FUTURE)
    log.append([Entry("4.0", "answer", "me", "toy", text="text 4")])
    clock(NOW)
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


def test_a_changed_token_file_is_read_again_though_size_and_time_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    writer, reader = TokenFile(path), TokenFile(path)
    first, second = (writer.new(name, ("classify",))[0] for name in ("aaaa", "bbbb"))
    writer.revoke("aaaa")
    assert (reader.check(first), reader.check(second) is None) == (None, False)
    before = path.stat()
    rows = json.loads(path.read_text())
    rows["tokens"][0]["revoked"], rows["tokens"][1]["revoked"] = None, rows["tokens"][0]["revoked"]
    write_atomically(path, json.dumps(rows, indent=1) + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert (reader.check(first) is None, reader.check(second)) == (False, None)


def test_the_service_answers_and_records_through_a_jump(world: Path, tmp_path: Path, clock: Set) -> None:
    config = ServiceConfig(
        panels={str(world / "with-bank.yaml"): None}, audit_url=f"sqlite:///{tmp_path}/audit.sqlite3",
        audit_key=tmp_path / "audit.key",
    )  # fmt: skip
    with TestClient(create_app(config), base_url="http://127.0.0.1") as client:
        for moment in (NOW, FUTURE, PAST, NOW):
            clock(moment)
            reply = client.post("/v1/classify", json={"panel": "toy", "text": "red sweet fruit"})
            assert reply.status_code == 200, reply.text
        log = client.get("/v1/audit").json()
    assert len(log["records"]) == 4
    key, noted = AuditKey.from_file(tmp_path / "audit.key"), tmp_path / "audit.sqlite3.checkpoints"
    assert AuditStore(f"sqlite:///{tmp_path}/audit.sqlite3", key, checkpoints=noted).verify().ok
