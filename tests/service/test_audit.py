"""The audit log: chain, key, the head noted outside it, and what it promises of a running service."""

import hashlib
import json
import shutil
import sqlite3
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.errors import BadInput, RunFailed
from simdx.service import audit
from simdx.service.audit import AuditStore, Database
from simdx.service.audit_chain import COLUMNS, GENESIS, AuditKey, AuditUnavailable, verify
from tests.loopback import until
from tests.service.audit_logs import KEY, Open, Raw, entry
from tests.service.conftest import ASK, PANEL, TEXT, Guarded, bearer, create_app, make_config, serving
from tests.service.test_cds import VIEW, invocation
from tests.service.test_cli import simdx


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


# --------------------------------------------------------------------------- the head, noted outside

MOVE = "UPDATE chain_head SET seq = {0}, hash = coalesce((SELECT hash FROM records WHERE seq = {0}), '{1}')"


def filled(open_log: Open, file: Path, batches: int = 4) -> AuditStore:
    """A log with a checkpoint after each of its batches of two."""
    log = open_log(checkpoints=file)
    start = log.head()[0]
    for i in range(batches):
        log.append([entry(start + 2 * i), entry(start + 2 * i + 1)])
        log.checkpoint()
    return log


def cut(raw: Raw, records: int) -> None:
    """What a writer of the database does who wants the newest records gone."""
    raw(MOVE.format(records, GENESIS))
    raw(f"DELETE FROM records WHERE seq > {records}")


def refused(log: AuditStore, words: str, **options: Any) -> None:
    verdict = log.verify(**options)
    assert not verdict.ok
    assert words in str(verdict.problem)


def test_a_cut_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    running = filled(open_log, file)
    cut(raw, 3)
    assert open_log().verify().ok  # the chain alone says nothing
    refused(open_log(checkpoints=file), "the log ends at record 3")
    for goes_on in (open_log(checkpoints=file).checkpoint, running.checkpoint):
        with pytest.raises(RunFailed, match="cut off"):
            goes_on()
    cut(raw, 0)
    refused(open_log(checkpoints=file), "the log ends at record 0")


def test_a_rewritten_end_shows(open_log: Open, raw: Raw, tmp_path: Path) -> None:
    """Even by someone who has the key and writes the database alone: others in the place of the cut ones."""
    file = tmp_path / "noted"
    filled(open_log, file).close()
    cut(raw, 5)
    open_log().append([entry(100 + i) for i in range(9)])
    refused(open_log(checkpoints=file), "does not match record 6")


def test_a_line_that_was_changed_shows(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    log = filled(open_log, file)
    lines = file.read_bytes().splitlines(keepends=True)
    assert (len(lines), log.verify().checkpoints) == (4, 4)
    for name, value in (("records", 3), ("records", 9), ("head", "f" * 64)):
        row = json.dumps({**json.loads(lines[1]), name: value}).encode()
        file.write_bytes(lines[0] + row + b"\n" + lines[2] + lines[3])
        refused(log, "checkpoint")
    file.write_bytes(b"".join(lines[:2]))  # fewer lines lose no record: the next one follows
    log.append([entry(100)])
    log.checkpoint()
    assert (log.verify().ok, log.verify().checkpoints) == (True, 3)


def test_where_no_checkpoint_can_be_written_nothing_more_is_recorded(
    open_log: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noted").mkdir()
    log = open_log(checkpoints=tmp_path / "noted")
    log.append([entry(1)])
    monkeypatch.setattr(audit, "CHECKPOINT_SECONDS", 0.0)  # its time is over
    for refuses in (log.checkpoint, log.ready, lambda: log.append([entry(2)])):
        with pytest.raises(RunFailed, match=r"noted cannot be written: Is a directory"):
            refuses()
    (tmp_path / "noted").rmdir()
    log.append([entry(2)])


def test_a_torn_line_is_passed_over(open_log: Open, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    filled(open_log, file, batches=2).close()
    with file.open("ab") as end:
        end.write(file.read_bytes()[:60])
    log = open_log(checkpoints=file)
    log.checkpoint()
    log.append([entry(100)])
    log.close()
    verdict = open_log(checkpoints=file).verify()
    assert (verdict.ok, verdict.checkpoints, verdict.records) == (True, 3, 5)


def test_several_writers(open_log: Open, tmp_path: Path) -> None:
    """Four services, two on each of two machines: a file for each machine."""
    files = [tmp_path / "one", tmp_path / "one", tmp_path / "two", tmp_path / "two"]
    logs = [open_log(checkpoints=file) for file in files]

    def write(n: int) -> None:
        for i in range(10):
            logs[n].append([entry(1000 * n + i)])
            logs[n].tend()
        logs[n].close()

    for log in logs:
        log.checkpoint()
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write, n) for n in range(4)]
        while not all(done.done() for done in written):  # who verifies meanwhile sees nothing amiss
            verdict = logs[0].verify(files=[tmp_path / "two"])
            assert (verdict.ok, verdict.problem) == (True, None)
        for done in written:
            done.result()
    verdict = logs[0].verify(files=[tmp_path / "two"])
    assert (verdict.ok, verdict.records) == (True, 40)
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_refusals(open_log: Open) -> None:
    """A flood makes counts large and the log a little longer."""
    log = open_log()
    log.note_refusal("10.0.0.1", "bad-token")
    log.tend()
    for i in range(50_000):
        log.note_refusal(f"10.1.{i % 200}.{i % 7}", "bad-token" if i % 2 else "no-token")
    log.tend()  # not yet: it was only just written
    assert log.head()[0] == 1
    log.close()
    told = [r.to_json()["context"] for r in log.records()]
    assert (told[0]["address"], told[0]["reason"], told[0]["count"]) == ("10.0.0.1", "bad-token", 1)
    assert sum(t["count"] for t in told) == 50_001
    assert 10 < len(told) < 25
    assert log.verify().ok


def test_refusals_are_counted_once_though_two_tend_and_none_is_lost_where_nothing_can_be_written(
    open_log: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append, between = log.append, list[int]()
    for i in range(40):
        log.note_refusal(f"10.0.0.{i}", "no-token")

    def slow(entries: Any) -> None:
        if not between:  # another tends while the first one writes
            between.append(len(entries))
            log.tend(everything=True)
            raise AuditUnavailable("disk full")
        append(entries)

    monkeypatch.setattr(log, "append", slow)
    with pytest.raises(AuditUnavailable):
        log.tend(everything=True)
    assert log.head()[0] == 0
    log.tend(everything=True)
    assert sum(r.to_json()["context"]["count"] for r in log.records()) == 40
    assert log.head()[0] == between[0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_older_copy_of_the_file_shows(open_log: Open, tmp_path: Path) -> None:
    path = tmp_path / "audit.sqlite3"
    filled(open_log, tmp_path / "noted").close()
    shutil.copy(path, tmp_path / "copy")
    filled(open_log, tmp_path / "noted").close()
    for beside in tmp_path.glob("audit.sqlite3-*"):
        beside.unlink()
    shutil.copy(tmp_path / "copy", path)
    refused(open_log(checkpoints=tmp_path / "noted"), "an older copy was put back")


def test_both_rolled_back_together_shows_only_against_a_head_noted_elsewhere(
    open_log: Open, raw: Raw, tmp_path: Path
) -> None:
    """What is not detectable: whoever writes the database and the file can put both back to one moment."""
    file = tmp_path / "noted"
    head, earlier = filled(open_log, file, batches=2).head()[1], file.read_bytes()
    later = filled(open_log, file, batches=2).head()[1]
    cut(raw, 4)
    file.write_bytes(earlier)
    fresh = open_log(checkpoints=file)
    assert fresh.verify(noted=head).ok
    refused(fresh, "the head noted earlier is not in the chain", noted=later)


def test_two_logs_do_not_share_a_file(open_log: Open, tmp_path: Path) -> None:
    filled(open_log, tmp_path / "noted", batches=1).close()
    other = AuditStore(f"sqlite:///{tmp_path / 'other.sqlite3'}", KEY, checkpoints=tmp_path / "noted")
    other.append([entry(8), entry(9)])
    for write in (other.checkpoint, other.close):
        with pytest.raises(RunFailed, match="another log"):
            write()


# --------------------------------------------------------------------------- seen from outside


def answered(home: Path, times: int, **changes: Any) -> Path:
    """A service in this folder that starts, answers, and ends in order; its log."""
    (home / "service").mkdir(exist_ok=True)
    with serving(home / "service", **changes) as client:
        for _ in range(times):
            assert client.post("/v1/classify", json=ASK).status_code == 200
    return home / "service" / "audit.sqlite3"


def meddle(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for sql in statements:
            connection.execute(sql)


def verified(home: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = simdx("audit", "verify", "--json", *options, home=home)
    return done.returncode, json.loads(done.stdout)


def test_the_newest_records_cannot_be_cut_off_unseen(tmp_path: Path) -> None:
    log = answered(tmp_path, 5)
    code, verdict = verified(tmp_path)
    assert (code, verdict["ok"], verdict["records"]) == (0, True, 5)
    assert verdict["checkpoints"] > 0
    head = "UPDATE chain_head SET seq = 2, hash = (SELECT hash FROM records WHERE seq = 2)"
    meddle(log, "DELETE FROM records WHERE seq > 2", head)
    code, verdict = verified(tmp_path)
    assert (code, verdict["ok"]) == (1, False)
    assert "the newest records were cut off" in verdict["problem"]
    with pytest.raises(Exception, match="records were cut off"):
        create_app(make_config(tmp_path / "service"))


def test_a_record_has_its_checkpoint_within_seconds_though_nothing_follows(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.post("/v1/classify", json=ASK)
        until(lambda: '"records": 1,' in (tmp_path / "audit.sqlite3.checkpoints").read_text(), 5)


def test_who_was_refused_is_recorded_and_a_flood_does_not_fill_the_log(guarded: Guarded) -> None:
    client, plain, admin, tokens = guarded
    narrow, _ = tokens.new("narrow", ("classify",), panels=("other",))
    guess = "sdx_00000000_a-guess-at-a-token"
    for _ in range(150):
        assert client.post("/v1/classify", json=ASK, headers=bearer(guess)).status_code == 401
    client.post("/v1/classify", json=ASK)
    client.post("/v1/classify", json={}, headers=bearer(plain))  # neither this nor a lost way is a refusal
    client.get("/nothing")
    assert client.get("/v1/audit", headers=bearer(plain)).status_code == 403
    assert client.post("/v1/classify", json=ASK, headers=bearer(narrow)).status_code == 403
    until(lambda: client.app.state.simdx.audit.head()[0] > 0, 5)
    client.app.state.simdx.audit.close()  # writes what it counted; the next call opens it again
    reply = client.get("/v1/audit", params={"kind": "refused"}, headers=bearer(admin))
    told = [record["context"] for record in reply.json()["records"]]
    counts = Counter[str]()
    for one in told:
        counts[one["reason"]] += one["count"]
    assert counts == {"bad-token": 150, "no-token": 1, "wrong-scope": 1, "wrong-panel": 1}
    assert len(told) <= 8
    assert {t["address"] for t in told} == {"testclient"}
    assert "guess" not in reply.text


def test_who_reads_the_log_is_recorded(guarded: Guarded) -> None:
    client, _, admin, _ = guarded
    head = bearer(admin)
    assert client.get("/v1/audit", params={"limit": 3, "note": "x"}, headers=head).json()["count"] == 0
    client.get("/v1/audit/verify", headers=head)
    records = client.get("/v1/audit", params={"kind": "read"}, headers=head).json()["records"]
    assert [(r["kind"], r["caller"]) for r in records] == [("read", "operator")] * 2
    assert [r["context"] for r in records] == [
        {"read": "/v1/audit/verify"},
        {"read": "/v1/audit", "limit": 3},
    ]


def test_a_hooks_call_is_recorded_with_who_asked_about_whom_and_what_was_sent(tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    call = json.loads(json.dumps(invocation()).replace("Patient/42", "Patient/Quatermass-42"))
    call["context"] |= {"patientId": "Quatermass-42", "encounterId": "Enc-Quatermass"}
    empty = invocation(prefetch={"documents": {"resourceType": "Bundle", "type": "searchset", "entry": []}})
    with serving(tmp_path / "service") as client:
        reply = client.post(VIEW, json=call)
        other = client.post(VIEW, json=invocation())
        assert client.post(VIEW, json=empty).json() == {"cards": []}
        nothing, _, record = client.get("/v1/audit", params={"kind": "cds"}).json()["records"]
    assert reply.json()["cards"]
    context = record["context"]
    assert (context["hook"], context["hook_instance"]) == ("patient-view", call["hookInstance"])
    assert context["user"] == "Practitioner/1"
    assert context["sent"] == hashlib.sha256(reply.content).hexdigest()
    assert len(context["patient_hash"]) == len(context["encounter_hash"]) == 64
    assert nothing["answer"] is None
    assert nothing["context"]["hook_instance"] == empty["hookInstance"]
    # The ids of patient and encounter are in no file; who has the key and asks for one finds the records.
    assert not any(b"Quatermass" in f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())
    for asked in ("Quatermass-42", "Patient/Quatermass-42", "https://ehr.example/r4/Patient/Quatermass-42"):
        found = simdx("audit", "export", "--patient", asked, home=tmp_path).stdout.splitlines()
        assert [json.loads(line)["id"] for line in found] == [record["id"]]
    of_user = simdx("audit", "export", "--user", "Practitioner/1", home=tmp_path).stdout.splitlines()
    assert len(of_user) == 3
    assert simdx("audit", "export", "--patient", "nobody", home=tmp_path).stdout == ""
    assert other.status_code == 200


def test_every_answer_is_recorded_with_a_hash_of_the_bytes_that_left(client: TestClient) -> None:
    asked = [
        client.post("/v1/classify", json=ASK),
        client.post("/v1/classify", json={"panel": PANEL, "texts": [TEXT, "A red tongue."]}),
        client.post("/v1/classify", json={**ASK, "draws": 9}),
        client.post("/v1/fhir/RiskAssessment", json={**ASK, "subject": {"reference": "Patient/42"}}),
    ]
    for reply in asked:
        params = {"id": f"{reply.headers['simdx-answer']}.0"}
        (record,) = client.get("/v1/audit", params=params).json()["records"]
        assert record["context"]["sent"] == hashlib.sha256(reply.content).hexdigest()
    assert "patient_hash" in record["context"]
