"""Size, time and load: too much is refused with the right status, and nothing falls over."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.service.config import Limits
from tests.service.conftest import PANEL, TEXT, URL, create_app, make_config

LIMITS = Limits(
    body_bytes=20_000, text_characters=1_000, texts=4, seconds=0.4, body_seconds=0.2, waiting_texts=3,
    open_requests=6, caller_requests=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    config = make_config(tmp_path_factory.mktemp("small"), limits=LIMITS)
    with TestClient(create_app(config), base_url=URL) as client:
        yield client


def test_sizes(small: TestClient) -> None:
    body = {"panel": PANEL, "text": "x" * 30_000}
    assert small.post("/v1/classify", json=body).json()["type"] == "urn:simdx:problem:too-large"
    long = small.post("/v1/classify", json={"panel": PANEL, "text": "word " * 300})
    assert (long.status_code, long.json()["type"]) == (413, "urn:simdx:problem:too-large")
    many = small.post("/v1/classify", json={"panel": PANEL, "texts": [TEXT] * 5})
    assert many.status_code == 413


def test_a_body_without_a_length_is_counted(small: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 1_000

    reply = small.post("/v1/classify", content=pieces(), headers={"content-type": "application/json"})
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
    for _ in range(100):  # the held call ends, abandoned ones are skipped
        if small.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).status_code == 200:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the service did not recover from overload")
