"""The audit log: its chain, its key, and what the service writes into it."""

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.service.audit import AuditStore, Database
from simdx.service.audit_chain import COLUMNS, AuditKey, verify
from tests.service.audit_logs import KEY, Open, Raw, entry, open_log, raw, server, url
from tests.service.conftest import PANEL, TEXT, serving

__all__ = ["open_log", "raw", "server", "url"]  # fixtures


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.sqlite3"


def test_chain(open_log: Open) -> None:
    store = open_log()
    store.append([entry(1), entry(2)])
    store.append([entry(3, kind="feedback", about=entry(1).id, text=None)])
    records = list(store.records())
    assert [r.seq for r in records] == [1, 2, 3]
    assert records[0].previous == "0" * 64
    assert [r.previous for r in records[1:]] == [r.hash for r in records[:-1]]
    assert store.head() == (3, records[-1].hash)
    verdict = store.verify()
    assert (verdict.ok, verdict.records) == (True, 3)
    found = store.find(entry(2).id)
    assert found.to_json()["answer"]["label"] == "a"
    assert found.text_hash == KEY.text_hash("case 2 é\x00")
    assert "case" not in str(found)
    assert store.find("nothing") is None
    assert [r.seq for r in store.page(limit=2)] == [3, 2]
    assert [r.seq for r in store.page(before=3, kind="answer")] == [2, 1]
    with pytest.raises(BadInput, match="another key"):
        open_log(AuditKey(bytes(32)))
    # A log that is opened again goes on where it stopped.
    store.close()
    again = open_log()
    again.append([entry(4)])
    assert again.verify().records == 4


def test_all_or_nothing(open_log: Open) -> None:
    store = open_log()
    store.append([entry(1)])
    with pytest.raises(RunFailed, match="audit log") as raised:
        store.append([entry(2), entry(1)])  # the id is taken
    assert "case" not in str(raised.value)
    assert store.head()[0] == 1
    store.append([entry(3)])
    assert store.verify().ok


def test_tampering(open_log: Open, raw: Raw) -> None:
    """Every kind of meddling is seen, and where."""
    store = open_log()
    store.append([entry(i) for i in range(1, 6)])
    good = list(store.records())
    head = store.head()
    assert verify(good, KEY, head).ok
    for changed in set(COLUMNS) - {"seq", "previous", "hash"}:
        bad = [replace(r, **{changed: '{"x":1}'}) if r.seq == 3 else r for r in good]
        verdict = verify(bad, KEY, head)
        assert not verdict.ok
        assert "record 3" in str(verdict.problem)
    assert "record 2 is missing" in str(verify([r for r in good if r.seq != 2], KEY, head).problem)
    swapped = [good[0], replace(good[2], seq=2), replace(good[1], seq=3), *good[3:]]
    assert not verify(swapped, KEY, head).ok
    assert "ends at record 4" in str(verify(good[:4], KEY, head).problem)
    # Rebuilding the chain with another key does not help.
    other = AuditKey(bytes(32))
    assert not verify(_rebuilt(good, other), KEY).ok
    assert verify(_rebuilt(good, other), other).ok
    raw('UPDATE records SET answer = \'{"label":"b"}\' WHERE seq = 2')
    assert "record 2" in str(store.verify().problem)


def _rebuilt(records: list, key: AuditKey) -> list:
    out, previous = [], "0" * 64
    for record in records:
        changed = replace(record, caller="nobody", previous=previous)
        previous = key.chain_hash(changed)
        out.append(replace(changed, hash=previous))
    return out


@pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_a_lost_connection_is_opened_again(open_log: Open, raw: Raw) -> None:
    store = open_log()
    store.append([entry(1)])
    raw(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(RunFailed, match="cannot be used now"):
        store.append([entry(2)])
    store.append([entry(3)])
    assert store.verify().records == 2


def test_the_log_and_its_key_are_for_the_owner_only(tmp_path: Path, path: Path) -> None:
    key_file = tmp_path / "audit.key"
    key = AuditKey.from_file(key_file, create=True)
    AuditStore(f"sqlite:///{path}", key).close()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert AuditKey.from_file(key_file, create=True).id == key.id

    for nonsense in ("", "ab" * 31, "xy" * 32):
        key_file.write_text(nonsense)
        with pytest.raises(BadInput, match="hexadecimal digits"):
            AuditKey.from_file(key_file)
    with pytest.raises(BadInput, match="no audit log"):
        AuditStore(f"sqlite:///{tmp_path / 'absent'}", key, must_exist=True)


def test_the_service_records_and_shows_its_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        body = {"panel": PANEL, "texts": [TEXT, "A red tongue."], "prior": {"oral mucocele": 0.5}}
        reply = client.post("/v1/classify", json=body)
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
    assert TEXT.encode() not in (tmp_path / "audit.sqlite3").read_bytes()


def test_a_log_that_cannot_be_written_stops_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as client:
        audit = client.app.state.simdx.audit
        audit.close()  # the next record opens a connection again

        def broken(database: Database) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Database, "connect", broken)
        reply = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT})
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:simdx:problem:audit-unavailable")
        assert reply.headers["retry-after"]
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        monkeypatch.undo()
        assert client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).status_code == 200


def test_a_service_may_keep_no_log(tmp_path: Path) -> None:
    with serving(tmp_path, audit_url="none") as client:
        assert client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).status_code == 200
        assert client.get("/v1/audit").json()["type"] == "urn:simdx:problem:no-audit"
        assert client.post("/v1/feedback", json={"answer": "0" * 32, "label": None}).status_code == 409
