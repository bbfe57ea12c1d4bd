"""Every bad request is refused with a typed problem that never repeats what was sent."""

import json

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from tests.service.conftest import PANEL, TEXT

SECRET = "Zebulon Quatermass"


def of(**more: object) -> dict[str, object]:
    return {"panel": PANEL, "text": SECRET, **more}


def odd(number: str) -> bytes:
    return b'{"panel":"oral-lesions","text":"x","prior":{"oral mucocele":%s}}' % number.encode()


# What is wrong with a body: the status and the kind of problem it gets.
BAD = {
    (400, "not-json"): (b"{", b"\xff\xfe\x00", b"[" * 10_000, b'{"panel":"oral-lesions","text":"\\ud800"}'),
    (404, "unknown-panel"): (of(panel="nothing"), of(panel="../../etc/passwd"), of(panel=SECRET)),
    (422, "empty-text"): (of(text=" \n\t "), {"panel": PANEL, "texts": [TEXT, "  "]}),
    (422, "bad-input"): (
        of(method="magic"), of(method=SECRET), of(prior={SECRET: 0.5}),
        of(prior={"oral mucocele": 0.8, "atrophic glossitis": 0.8}),
    ),
    (422, "invalid-body"): (
        b"null", b"[]", b'"text"', {}, {"panel": PANEL}, of(text=""), of(text=5), of(texts=[TEXT]),
        {"panel": PANEL, "texts": []}, {"panel": PANEL, "texts": SECRET}, of(prior={"oral mucocele": 2}),
        of(prior={"oral mucocele": -0.1}), of(prior={"oral mucocele": "x"}), of(prior={SECRET: "x"}),
        of(prior=[1]), of(**{SECRET: 1}), odd("NaN"), odd("1e999"),
        of(draws=501), of(preview=SECRET), {"panel": PANEL, "texts": [TEXT], "draws": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "body"), [(*said, body) for said in BAD for body in BAD[said]])
def test_bad_bodies_are_typed_problems(
    client: TestClient, caplog: pytest.LogCaptureFixture, status: int, kind: str, body: object
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = client.post("/v1/classify", content=content, headers={"content-type": "application/json"})
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert (problem["status"], problem["type"]) == (status, f"urn:simdx:problem:{kind}")
    assert problem["detail"]
    assert SECRET not in reply.text + caplog.text


def test_no_address_repeats_a_made_up_label(client: TestClient) -> None:
    first = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).headers["simdx-answer"]
    asked = {"panel": PANEL, "text": TEXT, "prior": {SECRET: 0.5}}
    labelled = {"answer": first, "label": SECRET}
    places = {"/v1/classify": asked, "/v1/fhir/RiskAssessment": asked, "/v1/feedback": labelled}
    for address, body in places.items():
        reply = client.post(address, json=body)
        assert reply.status_code == 422, address
        assert "bad-input" in reply.text, address
        assert "oral mucocele" in reply.text, address  # what may be given is named
        assert SECRET not in reply.text, address


def test_a_body_in_another_encoding_is_told_which_one_is_expected(client: TestClient) -> None:
    sent = json.dumps({"panel": PANEL, "text": "Naevus, bläulich"}, ensure_ascii=False)
    json_type = {"content-type": "application/json"}
    for encoding in ("latin-1", "utf-16"):
        reply = client.post("/v1/classify", content=sent.encode(encoding), headers=json_type)
        assert (reply.status_code, reply.json()["type"]) == (400, "urn:simdx:problem:not-json")
        assert "UTF-8" in reply.json()["detail"]
    assert client.post("/v1/classify", content=sent.encode("utf-8"), headers=json_type).status_code == 200


FORMS = {
    "body: a JSON object is expected.": [],
    "prior: a JSON object is expected.": {"panel": PANEL, "text": TEXT, "prior": [1]},
    "panel: it is required and was not sent.": {"text": TEXT},
    "text: a string is expected.": {"panel": PANEL, "text": 5},
    "preview: the `preview` of an answer": {"panel": PANEL, "text": TEXT, "preview": "x"},
    "answer: the id of an answer is expected": {"answer": SECRET, "label": None},
}


@pytest.mark.parametrize("words", FORMS)
def test_a_wrong_form_is_said_in_plain_words(client: TestClient, words: str) -> None:
    address = "/v1/feedback" if words.startswith("answer") else "/v1/classify"
    reply = client.post(address, json=FORMS[words])
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith(words)
    assert SECRET not in reply.text
    assert not any(jargon in reply.text for jargon in ("Input should", "String should", "dictionary", "^["))


def test_other_types_methods_and_addresses(client: TestClient) -> None:
    plain = client.post("/v1/classify", content=b"{}", headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.json()["type"]) == (415, "urn:simdx:problem:wrong-type")
    wrong = client.put("/v1/classify", json={})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["type"] == "urn:simdx:problem:method-not-allowed"
    for path in ("/nowhere", "/v1/panels/nothing", "/static/nothing.js", "/static/../app.py", "/docs"):
        reply = client.get(path)
        assert reply.status_code == 404
        assert reply.headers["content-type"] == "application/problem+json"


def test_an_unforeseen_failure_names_neither_text_nor_message(
    client: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> object:
        raise RuntimeError(f"cannot embed: {SECRET}")

    monkeypatch.setattr(Classifier, "observe", broken)
    reply = client.post("/v1/classify", json={"panel": PANEL, "text": SECRET})
    assert (reply.status_code, reply.json()["type"]) == (500, "urn:simdx:problem:internal")
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text + reply.text


def test_every_response_carries_the_security_headers(client: TestClient) -> None:
    for path in ("/", "/healthz", "/static/app.js", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/v1/panels").headers["cache-control"] == "no-store"
