"""POST /v1/classify answers exactly as the Python front door and the command line do."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.panels import load_panel
from simdx.service.wire import dump
from tests.service.conftest import ASK, PANEL, TEXT, told


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(PANEL)


def as_json(answers: object) -> object:
    return json.loads(dump([a.to_json() for a in answers]))


def close(a: object, b: object) -> bool:
    """Equal JSON, numbers up to the rounding that batching may change."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and close(list(a.values()), [b[k] for k in a])
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a == (pytest.approx(b, rel=1e-4, abs=1e-5) if isinstance(a, float) else b)


def test_one_text_and_many_answer_as_the_front_door(client: TestClient, classifier: Classifier) -> None:
    prior = {"oral mucocele": 0.05, "atrophic glossitis": 0.9}
    plain, with_prior, hard = (
        client.post("/v1/classify", json={**ASK, **more})
        for more in ({}, {"prior": prior}, {"method": "m-smc"})
    )
    assert plain.status_code == 200
    assert len(plain.headers["simdx-answer"]) == 32
    assert close([plain.json()], as_json([classifier.infer(TEXT)]))
    assert close([with_prior.json()], as_json([classifier.infer(TEXT, prior=prior)]))
    assert close([hard.json()], as_json([Classifier(PANEL, method="m-smc").infer(TEXT)]))
    texts = [TEXT, "A smooth, red, burning tongue in a woman with anaemia.", TEXT]
    results = client.post("/v1/classify", json={"panel": PANEL, "texts": texts}).json()["results"]
    assert close(results, as_json(classifier.infer(texts)))
    assert close(results[0], results[2])


def test_concurrent_requests_share_engine_calls_and_keep_their_own_answers(
    app: FastAPI, client: TestClient, classifier: Classifier
) -> None:
    texts = [f"{TEXT} Seen on day {i}." for i in range(60)]
    meters = app.state.simdx.meters
    calls = told(meters, "simdx_batch_texts_count")
    with ThreadPoolExecutor(30) as pool:
        replies = list(pool.map(lambda t: client.post("/v1/classify", json={**ASK, "text": t}), texts))
    assert all(r.status_code == 200 for r in replies)
    assert len({r.headers["simdx-answer"] for r in replies}) == len(texts)
    expected = classifier.predict_proba(texts)
    for reply, row in zip(replies, expected, strict=True):
        assert list(reply.json()["posterior"].values()) == pytest.approx(list(row), abs=1e-5)
    assert told(meters, "simdx_batch_texts_count") - calls < len(texts)


def test_panels_are_described(client: TestClient) -> None:
    (listed,) = client.get("/v1/panels").json()["panels"]
    assert listed == client.get(f"/v1/panels/{PANEL}").json()
    assert listed["id"] == PANEL
    assert [label["name"] for label in listed["labels"]] == list(load_panel(PANEL).names)
    assert all(label["simulations"] > 0 for label in listed["labels"])


def test_health_readiness_and_metrics(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json()["panels"] == [PANEL]
    client.post("/v1/classify", json=ASK)
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'simdx_requests_total{route="/v1/classify",status="200"}' in metrics.text
    assert "swelling" not in metrics.text


def test_openapi_has_examples_and_only_our_error_shape(client: TestClient) -> None:
    spec = client.get("/openapi.json").json()
    examples = spec["components"]["schemas"]["ClassifyBody"]["examples"]
    assert [client.post("/v1/classify", json=e).status_code for e in examples] == [200] * len(examples)
    assert "Problem" in spec["components"]["schemas"]
    assert "HTTPValidationError" not in str(spec)
    for path in ("/v1/classify", "/v1/feedback", "/cds-services/{service}", "/metrics", "/v1/panels/{panel}"):
        assert path in spec["paths"]


def test_the_schema_of_an_answer_is_the_answer(client: TestClient) -> None:
    """Everything on the wire is in the schema, and the other way round: nothing may be missing."""
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    reply = client.post("/v1/classify", json=ASK).json()
    assert reply["evidence"]
    assert reply["sentences"]
    parts = {
        "Answer": reply,
        "Evidence": reply["evidence"][0],
        "AlarmAnswer": reply["alarm"],
        "ViewAnswer": reply["alarm"]["views"][0],
        "SecondOrderAnswer": reply["second_order"],
        "DecisionAnswer": reply["decision"],
        "SentenceEffect": reply["sentences"][0],
        "FlipAnswer": reply["flip"],
        "Provenance": reply["provenance"],
    }
    for name, part in parts.items():
        assert list(part) == list(shapes[name]["properties"]), name
        assert shapes[name]["required"] == list(part), name
    assert "expected_bits" in shapes["MissingFinding"]["properties"]


def test_feedback_is_recorded_beside_the_answer(app: FastAPI, client: TestClient) -> None:
    answer = client.post("/v1/classify", json=ASK).headers["simdx-answer"]

    def feedback(of: str, label: str | None) -> Any:
        return client.post("/v1/feedback", json={"answer": of, "label": label})

    said = feedback(answer, "oral mucocele")
    assert (said.status_code, said.json()["agrees"]) == (201, True)
    record = app.state.simdx.audit.find(said.json()["id"])
    assert (record.kind, record.about) == ("feedback", f"{answer}.0")
    assert feedback(f"{answer}.0", None).json()["agrees"] is False
    assert [feedback("0" * 32, None).status_code, feedback(answer, "flu").status_code] == [404, 422]
