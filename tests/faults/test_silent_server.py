"""A server that accepts, reads and never says a word: every verb that asks it ends, and says why."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from simdx.errors import BadInput
from simdx.simulators.base import Request, ask
from simdx.simulators.openai import OpenAISimulator, time_limit
from tests.faults.conftest import Cli


class Silent:
    """Takes connections and keeps them open."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self.taken.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()
        for connection in self.taken:
            connection.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


def test_a_request_is_given_up(silent: Silent) -> None:
    simulator = OpenAISimulator("m", silent.url, timeout=0.05)
    completion = ask(simulator, Request("Say hello."))
    assert completion.error == "the server did not answer in time"
    assert not simulator.capabilities.logprobs  # asked once, and nothing more after that
    simulator.close()
    assert silent.taken


def test_a_build_ends_and_goes_on_elsewhere(silent: Silent, world: Path, cli: Cli) -> None:
    out = world / "bank"
    asked = ("bank", "build", "--panel", world / "panel.yaml", "--per-label", "1", "--out", out)
    ended = cli(*asked, "--simulator", f"openai:m@{silent.url}", "--timeout", "0.05")
    assert ended.code == 1
    assert "did not answer in time" in ended.err.strip().splitlines()[-1]
    assert not (out / "manifest.json").exists()
    assert cli(*asked, "--simulator", "scripted").code == 0


def test_asking_and_embedding_end_too(
    silent: Silent, world: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMDX_TIMEOUT", "0.05")
    name = f"openai:m@{silent.url}"
    for choice in (("--embedder", name), ("--method", "elicited", "--simulator", name)):
        ended = cli("classify", "red fruit", "--panel", world / "with-bank.yaml", *choice)
        assert ended.code == 1, ended.err  # the prior must not pass for an answer
        (line,) = ended.err.strip().splitlines()
        assert "did not answer in time" in line


def test_the_time_limit_is_checked(world: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert time_limit() == 300
    assert time_limit(2) == 2
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv("SIMDX_TIMEOUT", wrong)
        with pytest.raises(BadInput, match="SIMDX_TIMEOUT"):
            time_limit()
    monkeypatch.delenv("SIMDX_TIMEOUT")
    with pytest.raises(BadInput, match="give seconds above 0"):
        time_limit(0)
    refused = cli("bank", "build", "--panel", world / "panel.yaml", "--per-label", "1", "--out",
                  world / "b", "--simulator", "scripted", "--timeout", "3")  # fmt: skip
    assert "--timeout is for servers" in refused.complaint
