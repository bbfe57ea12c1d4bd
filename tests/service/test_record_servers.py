"""Attachments that are only links: fetched from a server the operator named, with the hook's own token."""

import base64
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from simdx.service.config import Limits
from tests.loopback import Pages, running
from tests.service.conftest import TEXT, serving
from tests.service.test_cds import VIEW, invocation, note

TOKEN = "some-opaque.fhir-access_token"
LIMITS = Limits(attachment_bytes=10_000, attachment_seconds=60.0)
BINARY = {
    "resourceType": "Binary", "contentType": "text/plain", "data": base64.b64encode(TEXT.encode()).decode(),
}  # fmt: skip


@pytest.fixture
def fhir_server() -> Iterator[Pages]:
    """A record system's FHIR server on loopback, at /r4, where slow pages wait until the end."""
    over = threading.Event()
    with running(Pages()) as server:
        kinds = {
            "plain": (200, "text/plain; charset=utf-8", TEXT.encode()),
            "html": (200, "text/html", f"<p>{TEXT}</p>".encode()),
            "resource": (200, "application/fhir+json", json.dumps(BINARY).encode()),
            "patient": (200, "application/fhir+json", b'{"resourceType": "Patient"}'),
            "rtf": (200, "application/rtf", rb"{\rtf1 lip}"),
            "large": (200, "text/plain", b"lip " * 5_000),
            "zipped": (200, "text/plain", b"lip", ("content-encoding", "gzip")),
            "moved": (302, "text/plain", b"", ("location", f"{server.url}/r4/Binary/plain")),
            "slow": lambda: over.wait(60) and (404, "text/plain", b""),
        }
        server.pages = {f"/r4/Binary/{name}": page for name, page in kinds.items()}
        server.base = f"{server.url}/r4"
        yield server
        over.set()


def asked(server: Pages) -> list[tuple[str, str | None]]:
    return [(path, headers.get("authorization")) for path, headers in server.asked]


@pytest.fixture
def client(fhir_server: Pages, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, fhir_servers=(fhir_server.base,), limits=LIMITS) as client:
        yield client


def linked(url: str, kind: str | None = "text/plain") -> dict:
    return note(content=[{"attachment": {"url": url} | ({"contentType": kind} if kind else {})}])


def call(server: str | None, document: dict, token: str | None = TOKEN) -> dict:
    body = invocation(prefetch={"documents": document})
    if server:
        body["fhirServer"] = server
    if token is not None:
        body["fhirAuthorization"] = {
            "access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": "patient/Binary.read",
            "subject": "simdx",
        }  # fmt: skip
    return body


def notes(client: TestClient, server: Pages, document: dict, token: str | None = TOKEN) -> list[str]:
    """What is said of a document that gives no card."""
    reply = client.post(VIEW, json=call(server.base, document, token))
    assert (reply.status_code, reply.json()["cards"]) == (200, [])
    return reply.json()["extension"]["simdx"]["notes"]


@pytest.mark.parametrize("name", ["plain", "html", "resource"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_linked_note_is_fetched_with_the_hooks_token(
    client: TestClient, fhir_server: Pages, name: str, absolute: bool
) -> None:
    url = f"{fhir_server.base}/Binary/{name}" if absolute else f"Binary/{name}"
    (card,) = client.post(VIEW, json=call(fhir_server.base + "/", linked(url))).json()["cards"]
    assert card["summary"].startswith(("Accept: oral mucocele", "Likely: oral mucocele"))
    assert "Read: DocumentReference/n1 of 2026-01-01T00:00:00Z" in card["detail"]
    assert asked(fhir_server) == [(f"/r4/Binary/{name}", f"Bearer {TOKEN}")]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("Binary/moved", "the server answered 302"),
        ("Binary/nothing", "the server answered 404"),
        ("Binary/large", "it is larger than 10,000 bytes"),
        ("Binary/zipped", "the server compressed its answer"),
        ("Binary/rtf", "what its link leads to is not text"),
        ("Binary/patient", "what its link leads to is not text"),
    ],
)
def test_what_cannot_be_fetched_is_said_in_a_line(
    client: TestClient, fhir_server: Pages, url: str, why: str
) -> None:
    assert notes(client, fhir_server, linked(url, None)) == [f"DocumentReference/n1: {why}"]
    assert len(fhir_server.asked) == 1  # a redirect is not followed


def test_a_server_that_takes_its_time_is_not_waited_for(fhir_server: Pages, tmp_path: Path) -> None:
    limits = Limits(attachment_seconds=0.5)
    with serving(tmp_path, fhir_servers=(fhir_server.base,), limits=limits) as client:
        assert notes(client, fhir_server, linked("Binary/slow")) == [
            "DocumentReference/n1: the server took longer than 0.5 seconds"
        ]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/r4/Binary/plain", "//127.0.0.1:1/r4/Binary/plain", "/admin", "../admin",
        "Binary/%2e%2e/%2e%2e/admin", "Binary/..%2f..%2fadmin", "Binary\\..\\..\\admin", "file:///etc/passwd",
        "http://127.0.0.1@evil.example/r4/Binary/plain", "Binary/plain#x", "Binary/a b", "http://[",
        "https://127.0.0.1/r4/Binary/plain", "Binary/plain\r\nX-Header: 1", "@b/Binary/plain", "@",
        "..;/admin", "Binary/..;/..;/admin", "Binary/plain;x=1", "Binary/%2e%2e%3b/admin", "Binary/%2e/plain",
        "Binary%2fplain", "Binary/%252e%252e/admin", "Binary/pl%61in", "Binary/..%5c..%5cadmin",
        "Binary/.\t./x",
        "@/..;/admin", "@/Binary/..\\admin", "Binary/\u2025/admin", "Binary/pla\nin",
    ],
)  # fmt: skip
def test_a_link_that_leads_away_is_not_followed(client: TestClient, fhir_server: Pages, url: str) -> None:
    document = linked(url.replace("@", fhir_server.base) if url.startswith("@") else url)
    said = "DocumentReference/n1: its text is a link that leads away from the fhirServer"
    assert notes(client, fhir_server, document) == [said]
    assert fhir_server.asked == []


def test_a_server_nobody_named_is_never_called(fhir_server: Pages, tmp_path: Path) -> None:
    allowed = (fhir_server.base + "/other", "https://fhir.example/r4")
    with serving(tmp_path, fhir_servers=allowed) as client:
        (line,) = notes(client, fhir_server, linked("Binary/plain"))
    assert line.endswith("this service may not fetch from that fhirServer (--fhir-server)")
    assert fhir_server.asked == []


@pytest.mark.parametrize("token", [None, "a b", "x\r\nX-Header: 1", ""])
def test_without_a_token_nothing_is_fetched(
    client: TestClient, fhir_server: Pages, token: str | None
) -> None:
    (line,) = notes(client, fhir_server, linked("Binary/plain"), token)
    assert line.endswith("the call brings no fhirAuthorization")
    assert fhir_server.asked == []


def test_a_document_of_another_patient_is_not_even_fetched(client: TestClient, fhir_server: Pages) -> None:
    foreign = {**linked("Binary/plain"), "subject": {"reference": "Patient/99"}}
    assert client.post(VIEW, json=call(fhir_server.base, foreign)).json()["cards"] == []
    assert fhir_server.asked == []


def test_a_chart_of_links_has_few_of_them_fetched(client: TestClient, fhir_server: Pages) -> None:
    chart = {"resourceType": "Bundle", "entry": [{"resource": linked(f"Binary/{i}")} for i in range(10)]}
    said = notes(client, fhir_server, chart)
    assert len(fhir_server.asked) == LIMITS.attachments
    assert said[-2:] == ["DocumentReference/n1: too many texts of this chart are links", "and 5 more"]


def test_the_token_is_in_no_log_record_or_reply(
    client: TestClient, fhir_server: Pages, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        client.post(VIEW, json=call(fhir_server.base, linked(f"Binary/{name}"))).text
        for name in ("plain", "large", "moved")
    ]
    replies.append(client.post(VIEW, json={**call(fhir_server.base, note()), "hook": "x"}).text)
    replies.append(client.get("/v1/audit").text)
    assert TOKEN not in "".join(replies) + caplog.text
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.iterdir())
