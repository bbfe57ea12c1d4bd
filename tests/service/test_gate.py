"""The gate: who may pass, by which way, with how much; a stranger's body is not read."""

import asyncio
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.service.app import plain
from simdx.service.auth import TokenFile
from simdx.service.config import Limits
from simdx.service.gate import Gate, has_more_values
from simdx.service.wire import Meters
from tests.loopback import until
from tests.service.conftest import (
    ASK,
    PANEL,
    TEXT,
    Guarded,
    Live,
    bearer,
    create_app,
    kind,
    make_config,
    serving,
)
from tests.service.test_cds import VIEW

# --------------------------------------------------------------------------- behind a proxy


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "X-Forwarded-For", "X-Forwarded-Anything", "X-Real-IP", "Via", "CF-Connecting-IP",
     "True-Client-IP", "X-Client-IP"],
)  # fmt: skip
def test_without_tokens_a_forwarded_request_is_refused(client: TestClient, header: str) -> None:
    for reply in (
        client.get("/v1/audit", headers={header: "1"}),
        client.get("/", headers={header: "1"}),
        client.post("/v1/classify", json=ASK, headers={header: ""}),
    ):
        assert (reply.status_code, kind(reply)) == (403, "forwarded")
        assert "--require-token" in reply.json()["detail"]
    assert client.get("/v1/panels").status_code == 200


def test_with_tokens_a_proxy_may_stand_in_front(guarded: Guarded) -> None:
    client, plain, _, _ = guarded
    headers = {**bearer(plain), "x-forwarded-for": "192.0.2.1", "via": "1.1 proxy"}
    assert client.post("/v1/classify", json=ASK, headers=headers).status_code == 200


# --------------------------------------------------------------------------- host names and probes


@pytest.fixture
def named(tmp_path: Path) -> Iterator[TestClient]:
    """A service bound everywhere that answers to one name."""
    config = make_config(tmp_path, host="0.0.0.0", allowed_hosts=("simdx.clinic.example",))
    TokenFile(Path(config.token_file)).new("clinic", ("classify",))
    with TestClient(create_app(config), base_url="http://simdx.clinic.example") as client:
        yield client


def test_a_probe_may_name_the_pod_by_its_address(named: TestClient) -> None:
    for host in ("10.1.2.3:8000", "localhost:8000", "127.0.0.1", "[fd00::1]:8000"):
        replies = [named.get(p, headers={"host": host}) for p in ("/healthz", "/readyz", "/cds-services")]
        assert [reply.status_code for reply in replies] == [200, 200, 400]


def test_no_other_name_reaches_anything(named: TestClient, client: TestClient) -> None:
    """A web page whose name is pointed at this machine sends its own name."""
    for service in (named, client):
        for path in ("/", "/cds-services", "/v1/panels", "/metrics"):
            assert service.get(path, headers={"host": "evil.example"}).status_code == 400
            assert service.get(path).status_code != 400
    assert client.get("/cds-services", headers={"host": "[::1]:8000"}).status_code == 200


# --------------------------------------------------------------------------- before the body


class Wire:
    """An ASGI server of one request: counts how often the body was asked for."""

    def __init__(
        self, gate: Gate, path: str = "/v1/classify", trickles: bool = False, **headers: str
    ) -> None:
        pairs = {"host": "localhost", "content-type": "application/json", **headers}
        self.scope = {
            "type": "http", "method": "POST", "path": path, "client": ("192.0.2.7", 5),
            "headers": [(k.encode(), v.encode()) for k, v in pairs.items()],
        }  # fmt: skip
        self.read, self.trickles, self.status = 0, trickles, 0
        asyncio.run(gate(self.scope, self.receive, self.send))

    async def receive(self) -> dict[str, object]:
        self.read += 1
        await asyncio.sleep(0.05 if self.trickles else 0)
        return {"type": "http.request", "body": b"{}", "more_body": self.trickles}

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)


async def answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def made(tmp_path: Path, **limits: Any) -> tuple[Gate, str, list[tuple[str, str]]]:
    """A gate with these limits, the header of a caller it knows, and whom it refuses."""
    tokens, heard = TokenFile(tmp_path / "tokens.json"), []
    gate = Gate(answers, replace(Limits(), **limits), Meters(), tokens, lambda *who: heard.append(who))
    return gate, f"Bearer {tokens.new('clinic', ('classify',))[0]}", heard


@pytest.mark.parametrize("body", [{"content-length": "2"}, {"transfer-encoding": "chunked"}])
def test_a_strangers_body_is_not_read(tmp_path: Path, body: dict[str, str]) -> None:
    gate, known, heard = made(tmp_path)
    for authorization in ({}, {"authorization": "Bearer sdx_00000000_x"}):
        for path in ("/v1/classify", "/healthz"):
            wire = Wire(gate, path, **authorization, **body)
            assert (wire.status, wire.read) == (401, 0)
    assert heard == [("192.0.2.7", "no-token")] * 2 + [("192.0.2.7", "bad-token")] * 2
    caller = Wire(gate, authorization=known, **body)
    assert (caller.status, caller.read, len(heard)) == (200, 1, 4)


def test_a_body_that_trickles_is_given_up_and_a_damaged_token_file_no_failure(tmp_path: Path) -> None:
    gate, known, _ = made(tmp_path, body_seconds=0.2)
    headers = {"authorization": known, "transfer-encoding": "chunked"}
    assert Wire(gate, trickles=True, **headers).status == 408
    assert Wire(gate, authorization=known, **{"content-length": "²"}).status == 400
    (tmp_path / "tokens.json").write_text("{")
    assert Wire(gate, **headers).status == 503


# --------------------------------------------------------------------------- how much


LIMITS = Limits(body_bytes=20_000, text_characters=1_000, seconds=0.4, waiting_texts=3, caller_texts=6)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("small"), limits=LIMITS) as client:
        yield client


def test_sizes(small: TestClient) -> None:
    for text in ({"text": "x" * 30_000}, {"text": "word " * 300}):
        reply = small.post("/v1/classify", json={"panel": PANEL, **text})
        assert (reply.status_code, kind(reply)) == (413, "too-large")
    many = small.post("/v1/classify", json={"panel": PANEL, "texts": ["x"] * 257})
    assert (many.status_code, many.json()["detail"]) == (
        422, "texts: it has more items than this address takes.",
    )  # fmt: skip
    pieces = (b" " * 1_000 for _ in range(30))  # without a length
    reply = small.post("/v1/classify", content=pieces, headers={"content-type": "application/json"})
    assert reply.status_code == 413


def many(field: str, item: str) -> str:
    """A body of about 3.9 MB in which this field has as many items as fit."""
    return f'{{"panel":"x","text":"x","{field}":[{",".join([item] * (3_900_000 // (len(item) + 1)))}]}}'


def keys(count: int) -> str:
    return ",".join(f'"k{i}":"x"' for i in range(count))


CDS = '{"hook":"order-select","hookInstance":"d1577c69-dfbe-44ad-ba6d-3e05e953b2ea","context":{%s}}'
FLOODS = {
    "texts": ("/v1/classify", many("texts", '""')),
    "half-open": ("/v1/classify", '{"panel":"x","text":"' + '\\",' * 1_300_000),
    "prior": ("/v1/classify", f'{{"panel":"oral-lesions","text":"x","prior":{{{keys(300_000)}}}}}'),
    "few-errors": ("/v1/classify", f'{{"panel":"oral-lesions","prior":{{{keys(15_000)}}}}}'),
    "extra": ("/v1/classify", f'{{"panel":"oral-lesions","text":"x",{keys(300_000)}}}'),
    "objects": ("/v1/feedback", many("answer", "{}")),
    "selections": (VIEW, CDS % ('"selections":[' + ",".join(["1"] * 1_900_000) + "]")),
    "few-selections": (VIEW, CDS % ('"selections":[' + ",".join(["1"] * 19_000) + "]")),
    "fhir": ("/v1/fhir/RiskAssessment", many("subject", "[]")),
}


@pytest.mark.parametrize("name", FLOODS)
def test_no_list_map_or_report_of_a_body_is_unbounded(client: TestClient, name: str) -> None:
    """One such body held the event loop for a minute and two gigabytes (finding N1)."""
    path, body = FLOODS[name]
    started = time.process_time()
    tracemalloc.start()
    reply = client.post(path, content=body, headers={"content-type": "application/json"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reply.status_code in (400, 413, 422)
    assert len(reply.content) < 10_000
    assert peak < 60_000_000
    assert time.process_time() - started < 5


def test_a_body_of_prose_is_not_counted_by_its_commas() -> None:
    texts = json.dumps({"texts": ['Red, firm, [old] {scar}, "sore", ' * 400] * 20}).encode()
    assert texts.count(b",") > 1_000
    assert not has_more_values(texts, 1_000)
    assert has_more_values(b"[" + b"1," * 1_000 + b"1]", 1_000)


def test_overload_timeout_and_recovery(small: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    observe, go = Classifier.observe, threading.Event()
    monkeypatch.setattr(Classifier, "observe", lambda self, texts: go.wait(5) and observe(self, texts))

    def ask(i: int) -> tuple[int, str | None, str]:
        reply = small.post("/v1/classify", json={"panel": PANEL, "texts": [TEXT, f"{TEXT} {i}"]})
        return reply.status_code, reply.headers.get("retry-after"), reply.json().get("type", "")

    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(ask, i) for i in range(10)]
        got = [f.result() for f in asked]
    go.set()
    kinds = {kind.rsplit(":", 1)[-1] for status, _, kind in got if status != 200}
    assert kinds <= {"timeout", "overloaded", "too-many-requests"}
    assert {"timeout", "overloaded"} <= kinds
    assert all(retry is not None and int(retry) >= 1 for status, retry, _ in got if status in (429, 503))
    # The held call ends, abandoned ones are skipped.
    until(lambda: small.post("/v1/classify", json=ASK).status_code == 200, 10)


# --------------------------------------------------------------------------- on the wire


def test_an_upgrade_to_http_2_does_not_lose_the_body(tmp_path: Path) -> None:
    """curl offers h2c; the body behind the offer was waited for and never read (finding N14)."""
    body = json.dumps(ASK).encode()
    head = (
        f"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with (
        Live(create_app(make_config(tmp_path))) as service,
        socket.create_connection(service.address, timeout=5) as wire,
    ):
        wire.sendall(head.encode() + body)
        assert wire.recv(4_096).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))


def test_nothing_in_an_answer_or_a_log_line_steers_a_terminal(client: TestClient) -> None:
    steering = "\x1b[2J\x9b31m\u202eA bluish swelling of the lip.\x07"
    reply = client.post("/v1/classify", json={"panel": PANEL, "text": steering})
    assert reply.status_code == 200
    assert "\u202e" in json.dumps(reply.json(), ensure_ascii=False)  # the case's own words are in the answer
    assert all(0x20 <= byte < 0x7F for byte in reply.content)
    assert plain(f"panel {steering}\n") == "panel \\x1b[2J\\x9b31m\\u202eA bluish swelling of the lip.\\x07\n"
