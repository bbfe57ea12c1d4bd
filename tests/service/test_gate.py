"""The gate: who may pass, by which way, how often, with how much; a stranger's body is not read."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.service.auth import Guard, TokenFile
from simdx.service.config import Limits
from simdx.service.gate import Gate
from simdx.service.meters import Meters
from simdx.service.rates import MOST_NAMES, Rate
from tests.loopback import until
from tests.service.conftest import ASK, PANEL, TEXT, Guarded, bearer, create_app, kind, make_config, serving

# --------------------------------------------------------------------------- behind a proxy


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Anything",
     "X-Real-IP", "Via", "CF-Connecting-IP", "True-Client-IP", "X-Client-IP"],
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
    headers = {"authorization": f"Bearer {plain}", "x-forwarded-for": "192.0.2.1", "via": "1.1 proxy"}
    assert client.post("/v1/classify", json=ASK, headers=headers).status_code == 200


# --------------------------------------------------------------------------- host names and probes


@pytest.fixture
def named(tmp_path: Path) -> Iterator[TestClient]:
    """A service bound everywhere that answers to one name."""
    config = make_config(tmp_path, host="0.0.0.0", allowed_hosts=("simdx.clinic.example",))
    TokenFile(Path(config.token_file)).new("clinic", ("classify",))
    with TestClient(create_app(config), base_url="http://simdx.clinic.example") as client:
        yield client


@pytest.mark.parametrize(
    "host", ["10.1.2.3:8000", "10.1.2.3", "localhost:8000", "127.0.0.1", "[fd00::1]:8000"]
)
def test_a_probe_may_name_the_pod_by_its_address(named: TestClient, host: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert named.get(path, headers={"host": host}).status_code == 200
    assert named.get("/cds-services", headers={"host": host}).status_code == 421


def test_no_other_name_reaches_anything(named: TestClient) -> None:
    for path in ("/healthz", "/readyz", "/", "/cds-services"):
        assert named.get(path, headers={"host": "evil.example"}).status_code == 421
        assert named.get(path).status_code == 200


def test_one_look_at_the_audit_log_serves_every_probe_of_a_second(
    named: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    audit = named.app.state.house.audit
    monkeypatch.setattr(type(audit), "ready", lambda self: looks.append(1))
    for _ in range(20):
        assert named.get("/readyz").status_code == 200
    assert 1 <= len(looks) <= 5


# --------------------------------------------------------------------------- before the body


class Wire:
    """An ASGI server of one request: counts how often the body was asked for."""

    def __init__(
        self, gate: Gate, path: str = "/v1/classify", method: str = "POST", peer: str = "192.0.2.7",
        **headers: str,
    ) -> None:  # fmt: skip
        pairs = {"host": "localhost", "content-type": "application/json", **headers}
        self.scope = {
            "type": "http", "method": method, "path": path, "client": (peer, 5),
            "headers": [(k.encode(), v.encode()) for k, v in pairs.items()],
        }  # fmt: skip
        self.gate, self.read, self.trickles = gate, 0, False
        self.sent: list[dict[str, Any]] = []

    async def run(self) -> int:
        async def receive() -> dict[str, object]:
            self.read += 1
            await asyncio.sleep(0.05 if self.trickles else 0)
            return {"type": "http.request", "body": b"{}", "more_body": self.trickles}

        async def send(message: dict[str, Any]) -> None:
            self.sent.append(message)

        await self.gate(self.scope, receive, send)
        return int(self.sent[0]["status"])


async def answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


class Held:
    """An application that answers nobody until everybody has come."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        await self.release.wait()
        await answers(scope, receive, send)

    def statuses(self, *groups: Sequence[Wire]) -> list[list[int]]:
        """What each of a group gets, sorted; the groups come one after another, and nobody leaves."""

        async def scenario() -> list[list[int]]:
            tasks = []
            for group in groups:
                tasks.append([asyncio.create_task(wire.run()) for wire in group])
                await asyncio.sleep(0)
            self.release.set()
            return [sorted(await asyncio.gather(*some)) for some in tasks]

        return asyncio.run(scenario())


def made(tmp_path: Path, app: Any = answers, **limits: Any) -> tuple[Gate, str, list[tuple[str, str]]]:
    """A gate with these limits, the header of a caller it knows, and whom it refuses."""
    tokens, heard = TokenFile(tmp_path / "tokens.json"), []
    config = make_config(tmp_path, require_token=True, limits=replace(Limits(), **limits))
    guard = Guard(tokens, lambda address, why: heard.append((address, why)))
    return Gate(app, config, Meters(), guard), f"Bearer {tokens.new('clinic', ('classify',))[0]}", heard


@pytest.mark.parametrize("body", [{"content-length": "2"}, {"transfer-encoding": "chunked"}])
def test_a_strangers_body_is_not_read(tmp_path: Path, body: dict[str, str]) -> None:
    gate, known, heard = made(tmp_path)
    for authorization in ({}, {"authorization": "Bearer sdx_00000000_x"}):
        for path in ("/v1/classify", "/healthz"):
            wire = Wire(gate, path, **authorization, **body)
            assert (asyncio.run(wire.run()), wire.read) == (401, 0)
    assert heard == [("192.0.2.7", "no-token")] * 2 + [("192.0.2.7", "bad-token")] * 2
    caller = Wire(gate, authorization=known, **body)
    assert (asyncio.run(caller.run()), caller.read, len(heard)) == (200, 1, 4)


def test_made_up_tokens_do_not_multiply_a_strangers_places(tmp_path: Path) -> None:
    """Each counted as a caller of its own, and so they held every place there was."""
    app = Held()
    gate, known, _ = made(tmp_path, app, open_requests=20, caller_requests=8, stranger_requests=3)
    strangers = [Wire(gate, "/", "GET", authorization=f"Bearer sdx_{i:08}_x") for i in range(30)]
    callers = [Wire(gate, authorization=known) for _ in range(9)]
    assert app.statuses(strangers, callers) == [[200] * 3 + [429] * 27, [200] * 8 + [429]]


def test_strangers_from_everywhere_have_half_of_the_house(tmp_path: Path) -> None:
    app = Held()
    gate, known, _ = made(tmp_path, app, open_requests=10)
    strangers = [Wire(gate, "/", "GET", f"192.0.2.{i}") for i in range(9)]
    assert app.statuses(strangers, [Wire(gate, authorization=known)]) == [[200] * 5 + [503] * 4, [200]]


def test_one_caller_may_not_take_every_place_and_all_places_are_counted(tmp_path: Path) -> None:
    app = Held()
    gate, _, _ = made(tmp_path, app, open_requests=6, caller_requests=4)
    tokens = TokenFile(tmp_path / "tokens.json")
    first, second, third = (bearer(tokens.new(name, ("classify",))[0]) for name in "abc")
    came = (first, 5), (second, 2), (third, 1)
    groups = [[Wire(gate, **who) for _ in range(count)] for who, count in came]
    assert app.statuses(*groups) == [[200] * 4 + [429], [200] * 2, [503]]


def test_a_body_that_trickles_is_given_up(tmp_path: Path) -> None:
    gate, known, _ = made(tmp_path, body_seconds=0.2)
    wire = Wire(gate, authorization=known, **{"transfer-encoding": "chunked"})
    wire.trickles = True
    assert asyncio.run(wire.run()) == 408


def test_a_damaged_token_file_is_no_internal_failure(tmp_path: Path) -> None:
    gate, known, _ = made(tmp_path)
    (tmp_path / "tokens.json").write_text("{")
    assert asyncio.run(Wire(gate, authorization=known).run()) == 503


# --------------------------------------------------------------------------- how often


def test_a_bucket_gives_two_seconds_at_once_and_then_its_rate() -> None:
    now = [0.0]
    rate = Rate(4, clock=lambda: now[0])
    assert [rate.wait("a") for _ in range(8)] == [0] * 8
    assert rate.wait("a") == pytest.approx(0.25)
    assert rate.wait("b") == 0
    now[0] = 0.25
    assert rate.wait("a") == 0
    assert rate.wait("a") == pytest.approx(0.25)
    now[0] = 1_000
    assert [rate.wait("a") > 0 for _ in range(9)] == [False] * 8 + [True]
    assert not any(Rate(0).wait("a") for _ in range(1_000))
    assert Rate(0.1, clock=lambda: 0).wait("a") == 0
    assert rate.spent("a")
    assert not rate.spent("nobody")
    now[0] += 0.25
    assert not rate.spent("a")


def test_names_without_end_neither_fill_the_memory_nor_wash_a_name_clean() -> None:
    rate = Rate(1, clock=lambda: 0.0)
    assert [rate.wait("hasty") > 0 for _ in range(3)] == [False, False, True]
    for i in range(3 * MOST_NAMES):
        rate.wait(str(i))
        if i % 1_000 == 0:
            assert rate.wait("hasty") > 0
    assert rate.wait("0") == 0  # forgotten long ago: another bucket has its place


def test_a_token_has_its_rate_and_is_told_when_to_come_back(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    first, second = (bearer(tokens.new(name, ("classify",))[0]) for name in ("a", "b"))
    with serving(tmp_path, require_token=True, limits=replace(Limits(), rate=0.5)) as client:
        assert client.get("/v1/panels", headers=first).status_code == 200
        again = client.get("/v1/panels", headers=first)
        assert (again.status_code, kind(again)) == (429, "too-many-requests")
        assert int(again.headers["retry-after"]) in (1, 2)
        assert client.get("/v1/panels", headers=second).status_code == 200
        for _ in range(5):
            assert client.get("/healthz", headers=first).status_code == 200


def test_a_stranger_may_load_the_page_and_not_hammer_it(tmp_path: Path) -> None:
    gate, _, _ = made(tmp_path, stranger_rate=4.0)

    def get(path: str, address: str) -> int:
        return asyncio.run(Wire(gate, path, "GET", address).run())

    statuses = [get("/", "192.0.2.1") for _ in range(40)]
    assert statuses[:12] == [200] * 12
    assert statuses.count(429) > 10
    assert get("/", "192.0.2.2") == 200
    assert get("/healthz", "192.0.2.1") == 200


def test_a_page_of_a_named_origin_can_read_the_gates_refusals(tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json").new("clinic", ("classify",))
    with serving(tmp_path, require_token=True, cors_origins=("https://ehr.example",)) as client:
        reply = client.post("/v1/classify", json=ASK, headers={"origin": "https://ehr.example"})
        assert reply.status_code == 401
        assert reply.headers["access-control-allow-origin"] == "https://ehr.example"


# --------------------------------------------------------------------------- how much


LIMITS = Limits(
    body_bytes=20_000, text_characters=1_000, texts=4, seconds=0.4, body_seconds=0.2, waiting_texts=3,
    open_requests=6, caller_requests=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("small"), limits=LIMITS) as client:
        yield client


def test_sizes(small: TestClient) -> None:
    for text in ({"text": "x" * 30_000}, {"text": "word " * 300}, {"texts": [TEXT] * 5}):
        reply = small.post("/v1/classify", json={"panel": PANEL, **text})
        assert (reply.status_code, kind(reply)) == (413, "too-large")
    pieces = (b" " * 1_000 for _ in range(30))  # without a length
    reply = small.post("/v1/classify", content=pieces, headers={"content-type": "application/json"})
    assert reply.status_code == 413


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
