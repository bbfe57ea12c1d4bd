"""A service with one real panel, in a folder of its own, for all tests of the room."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from simdx.service import app as application
from simdx.service.auth import TokenFile
from simdx.service.config import Limits, ServiceConfig
from simdx.service.state import Registry
from simdx.service.wire import Meters
from tests.loopback import until
from tests.service.audit_logs import open_log, raw, server, url  # noqa: F401  # fixtures

PANEL = "oral-lesions"
TEXT = "A soft, bluish, painless swelling of the lower lip that came two weeks after a bite."
URL = "http://127.0.0.1"
ASK = {"panel": PANEL, "text": TEXT}
Guarded = tuple[TestClient, str, str, TokenFile]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def kind(reply: Any) -> str:
    """The kind of problem a reply states, in the words of either face."""
    body = reply.json()
    if body.get("resourceType") == "OperationOutcome":
        return str(body["issue"][0]["details"]["coding"][0]["code"])
    return str(body["type"]).rsplit(":", 1)[-1]


def told(meters: Meters, name: str) -> float:
    """A figure as Prometheus reads it, over all its labels; nought where there is none yet."""
    lines = meters.exposition().body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


@contextmanager
def serving(folder: Path, **changes: object) -> Iterator[TestClient]:
    with TestClient(create_app(make_config(folder, **changes)), base_url=URL) as client:
        yield client


class Live:
    """An application on a socket of its own until the end of its block."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.server = application.server_for(app, Limits())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],), daemon=True)
        self.thread.start()
        until(lambda: self.server.started)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=20)
        self.listener.close()


def tickets(folder: Path) -> tuple[Path, Path]:
    """A panel of support tickets, and a bank too small to find thresholds on."""
    panel, bank = folder / "tickets.yaml", folder / "bank.jsonl"
    panel.write_text("register: general\nlabels: [delivery, billing]\n", encoding="utf-8")
    words = {
        "delivery": "parcel courier late address van tracking lost doorstep depot signature",
        "billing": "invoice charge refund card payment twice discount account receipt amount",
    }
    rows = [
        {"label": label, "text": f"About the {a} and the {b}: ask again."}
        for label, said in words.items()
        for a, b in pairwise(said.split())
    ]
    bank.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return panel, bank


def make_config(folder: Path, **changes: object) -> ServiceConfig:
    config = ServiceConfig(
        panels={PANEL: None},
        audit_url=f"sqlite:///{folder / 'audit.sqlite3'}",
        audit_key=folder / "audit.key",
        token_file=folder / "tokens.json",
    )
    return replace(config, **changes)


@cache
def _registry() -> Registry:
    return Registry(ServiceConfig(panels={PANEL: None}))


def create_app(config: ServiceConfig) -> FastAPI:
    """An application on the panel that was loaded once for all tests."""
    return application.create_app(config, _registry())


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(make_config(tmp_path_factory.mktemp("service")))


@pytest.fixture(scope="session")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url=URL) as client:
        yield client


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A service that asks for tokens: the client, a classify token, an admin token, their file."""
    tokens = TokenFile(tmp_path / "tokens.json")
    plain, _ = tokens.new("clinic", ("classify",))
    admin, _ = tokens.new("operator", ("classify", "admin"))
    with serving(tmp_path, require_token=True) as client:
        yield client, plain, admin, tokens
