"""HTTP bodies: any bytes and any tree are answered with a result or a problem, never with a failure.

Schemathesis walks the documented schema (tests/service/test_fuzz.py); this sends what no schema describes.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.properties.strategies import bounded, trees
from tests.service.conftest import PANEL, URL, create_app, make_config

PATHS = (
    "/v1/classify",
    "/v1/feedback",
    "/v1/fhir/RiskAssessment",
    f"/cds-services/{PANEL}-patient-view",
    f"/cds-services/{PANEL}-patient-view/feedback",
)
KEYS = ("panel", "text", "texts", "prior", "method", "draws", "preview", "answer", "label", "subject")
KEYS += ("encounter", "hook", "context")
GOOD = {"panel": PANEL, "text": "a sore tongue"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = create_app(make_config(tmp_path_factory.mktemp("bodies")))
    with TestClient(app, base_url=URL, raise_server_exceptions=True) as client:
        yield client


def send(client: TestClient, path: str, body: bytes) -> None:
    reply = client.post(path, content=body, headers={"content-type": "application/json"})
    assert reply.status_code < 500, reply.text
    if reply.status_code >= 400:
        problem = reply.json()
        assert problem["issue"] if path.startswith("/v1/fhir/") else problem["type"]
        assert len(reply.content) < 20_000
    else:
        json.loads(reply.content)


def test_every_path_is_there(client: TestClient) -> None:
    for path in PATHS:
        reply = client.post(path, json={})
        assert reply.status_code in (200, 422), (path, reply.status_code)


bodies = st.one_of(trees, st.dictionaries(st.sampled_from(KEYS), trees, max_size=5)).map(json.dumps)


@bounded
@given(st.sampled_from(PATHS), st.one_of(st.binary(max_size=200), bodies.map(str.encode)))
def test_any_body(client: TestClient, path: str, body: bytes) -> None:
    send(client, path, body)


@bounded
@given(st.sampled_from(KEYS), trees)
def test_one_wrong_key(client: TestClient, key: str, tree: object) -> None:
    send(client, "/v1/classify", json.dumps({**GOOD, key: tree}).encode())
    send(client, "/v1/classify", json.dumps({**GOOD, "draws": 3, key: tree}).encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"panel": "oral-lesions", "text": "\\ud800"}',
        b'{"panel": "\\udfff", "text": "x"}',
        b'{"panel": "oral-lesions", "text": "x", "prior": {"\\ud800": 0.5}}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 100_000,
        b'{"panel": "oral-lesions", "text": "x", "prior": {"oral mucocele": 1e999}}',
        b'{"panel": "oral-lesions", "text": "x", "prior": {"oral mucocele": ' + b"9" * 5_000 + b"}}",
        b'{"panel": "oral-lesions", "text": "x", "text": "y"}',
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b'{"' + b"k" * 1_000_000 + b'": 1}',
        b'{"panel": "oral-lesions", "text": "' + b"x" * 1_000_000 + b'"}',
    ],
)
def test_old_tricks(client: TestClient, body: bytes) -> None:
    for path in PATHS:
        send(client, path, body)


def test_a_length_that_is_no_number(client: TestClient) -> None:
    for length in ("²", "9" * 5_000, "-1", "1e3"):
        headers = {"content-type": "application/json", "content-length": length.encode("latin-1")}
        reply = client.post("/v1/classify", content=b"{}", headers=headers)
        assert reply.status_code == 400
