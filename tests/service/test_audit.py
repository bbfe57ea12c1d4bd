"""The audit log in SQLite, its key, its migrations, and what the service writes into it."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.errors import BadInput, RunFailed
from simdx.service.audit import AuditStore, KeyRing, open_store
from simdx.service.audit.database import SqliteDatabase
from simdx.service.audit.migrate import migrate, migrations, version_of
from tests.service import audit_checks
from tests.service.audit_checks import KEY, RING, entry
from tests.service.conftest import PANEL, TEXT, URL, create_app, make_config


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.sqlite3"


@pytest.fixture
def open_log(path: Path) -> Iterator[Callable[..., AuditStore]]:
    yield from audit_checks.opener(f"sqlite:///{path}")


@pytest.fixture
def raw(path: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    def run(sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    return run


def test_chain(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_chain(open_log)


def test_all_or_nothing(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_all_or_nothing(open_log)


def test_tampering(open_log: Callable[..., AuditStore], raw: Callable[[str], Any]) -> None:
    audit_checks.check_tampering(open_log, raw)


def test_texts(open_log: Callable[..., AuditStore], raw: Callable[[str], Any]) -> None:
    audit_checks.check_texts(open_log, raw)


def test_other_key(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_other_key(open_log)


def test_many_writers(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_many_writers(open_log)


def test_an_old_log_is_brought_up_to_date_with_its_records(path: Path) -> None:
    database = SqliteDatabase(str(path))
    connection = database.connect()
    assert migrate(database, connection, upto=1) == 1
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'texts'").fetchone() == (0,)
    connection.execute("INSERT INTO settings (name, value) VALUES ('key_id', ?)", [KEY.id])
    connection.close()
    store = open_store(f"sqlite:///{path}", RING, keep_text=True)
    store.append([entry(1)])
    assert store.text_of(entry(1).id) is not None
    connection = database.connect()
    assert version_of(database, connection) == max(migrations())
    assert migrate(database, connection) == max(migrations())  # nothing to do twice
    connection.execute("INSERT INTO schema_version (version) VALUES (99)")
    with pytest.raises(BadInput, match="upgrade simdx"):
        migrate(database, connection)
    connection.close()


def test_an_old_log_holds_and_goes_on(open_log: Callable[..., AuditStore], path: Path) -> None:
    audit_checks.check_an_old_log(open_log, SqliteDatabase(str(path)))


def test_a_log_that_an_earlier_release_wrote_holds_and_goes_on(path: Path, tmp_path: Path) -> None:
    def schema(file: Path) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()

    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent / "log_of_0_1.sql").read_text("utf-8"))
    store = open_store(f"sqlite:///{path}", RING, keep_text=True)
    assert (store.verify().ok, store.verify().records) == (True, 3)
    assert store.text_of(entry(2).id) == "case 2 é"
    store.append([entry(4)])
    assert (store.verify().ok, store.verify().records) == (True, 4)
    store.close()
    open_store(f"sqlite:///{tmp_path / 'new'}", RING).close()
    assert schema(tmp_path / "new") == schema(path)


def test_the_log_and_its_key_are_for_the_owner_only(tmp_path: Path, path: Path) -> None:
    key_file = tmp_path / "audit.key"
    key = KeyRing.from_file(key_file, create=True)
    open_store(f"sqlite:///{path}", key).close()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyRing.from_file(key_file, create=True).newest.id == key.newest.id
    key_file.write_text("short")
    with pytest.raises(BadInput, match="hexadecimal digits"):
        KeyRing.from_file(key_file)
    with pytest.raises(BadInput, match="no audit key"):
        KeyRing.from_file(tmp_path / "absent")


def test_a_url_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="sqlite:///FILE"):
        open_store("mysql://x", RING)
    with pytest.raises(BadInput, match="no audit log"):
        open_store(f"sqlite:///{tmp_path / 'absent'}", RING, must_exist=True)


def test_a_damaged_database_is_a_clear_failure(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 20)
    with pytest.raises(RunFailed, match="cannot be used now"):
        open_store(f"sqlite:///{path}", RING)


def test_the_service_records_and_shows_its_answers(tmp_path: Path) -> None:
    config = make_config(tmp_path, keep_text=True)
    with TestClient(create_app(config), base_url=URL) as client:
        reply = client.post(
            "/v1/classify",
            json={"panel": PANEL, "texts": [TEXT, "A red tongue."], "prior": {"oral mucocele": 0.5}},
        )
        log = client.get("/v1/audit").json()
        assert log["count"] == 2
        last, first = log["records"]
        assert first["id"] == f"{reply.headers['simdx-answer']}.0"
        assert first["prior"]["oral mucocele"] == pytest.approx(0.5)
        answer = reply.json()["results"][0]
        assert first["answer"]["label"] == answer["label"]
        assert first["answer"]["posterior"] == pytest.approx(answer["posterior"])
        assert first["answer"]["decision"]["action"] == answer["decision"]["action"]
        assert set(first["versions"]) >= {"simdx", "bank", "embedder", "method", "seed"}
        assert last["previous"] == first["hash"]
        assert client.get("/v1/audit", params={"id": first["id"]}).json()["records"] == [first]
        assert client.get("/v1/audit/verify").json()["ok"] is True
        store = client.app.state.house.audit  # type: ignore[attr-defined]
        assert store.text_of(first["id"]) == TEXT
    assert TEXT.encode() not in (tmp_path / "audit.sqlite3").read_bytes()


def test_a_log_that_cannot_be_written_stops_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(make_config(tmp_path)), base_url=URL) as client:
        audit = client.app.state.house.audit  # type: ignore[attr-defined]
        audit.close()  # the next record opens a connection again
        database = audit._db

        def broken() -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(database, "connect", broken)
        reply = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT})
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:simdx:problem:audit-unavailable")
        assert reply.headers["retry-after"]
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        monkeypatch.undo()
        assert client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).status_code == 200


def test_a_service_may_keep_no_log(tmp_path: Path) -> None:
    with TestClient(create_app(make_config(tmp_path, audit_url="none")), base_url=URL) as client:
        assert client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).status_code == 200
        assert client.get("/v1/audit").json()["type"] == "urn:simdx:problem:no-audit"
        assert client.post("/v1/feedback", json={"answer": "0" * 32, "label": None}).status_code == 409
    with pytest.raises(BadInput, match="keep-text"):
        create_app(make_config(tmp_path, audit_url="none", keep_text=True))
