"""An environment without proxies, with a key to lose, and a canary that listens."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.canary import FAR, SECRET, Canary, lead


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMDX_API_KEY", SECRET)
    monkeypatch.setenv("SIMDX_TIMEOUT", "10")
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def canary(alone: None, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    lead(monkeypatch, FAR, "127.0.0.1")
    with Canary() as listening:
        yield listening


@pytest.fixture
def elsewhere_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine's own addresses can be reached; anything else fails the test."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else address
        assert host in ("127.0.0.1", "::1"), f"a connection to {host} was tried"
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", never)
    monkeypatch.setattr(socket, "create_connection", never)
    monkeypatch.setattr(socket, "getaddrinfo", never)
