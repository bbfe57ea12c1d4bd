"""What the audit log promises of a running service, seen from outside: over HTTP, on disk, by the command."""

import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.loopback import until
from tests.service.conftest import ASK, PANEL, TEXT, Guarded, bearer, create_app, make_config, serving
from tests.service.test_cds import VIEW, invocation
from tests.service.test_cli import simdx


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
