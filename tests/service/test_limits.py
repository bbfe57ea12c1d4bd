"""Size, time and load: too much is refused with the right status, and nothing falls over."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.service.config import Limits
from tests.loopback import until
from tests.service.conftest import ASK, PANEL, TEXT, kind, serving

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
