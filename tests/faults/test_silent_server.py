"""A server that accepts, reads and never says a word: every verb that asks it ends, and says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simdx.errors import BadInput
from simdx.simulators.base import Request, ask
from simdx.simulators.openai import OpenAISimulator, time_limit
from tests.faults.conftest import Cli
from tests.simulators.faults import FaultyServer


@pytest.fixture
def silent() -> Iterator[FaultyServer]:
    with FaultyServer(["hang"] * 1_000) as server:
        yield server


def test_a_request_is_given_up(silent: FaultyServer) -> None:
    simulator = OpenAISimulator("m", silent.url, timeout=0.05)
    completion = ask(simulator, Request("Say hello."))
    assert completion.error == "the server did not answer in time"
    assert not simulator.capabilities.logprobs  # asked once, and nothing more after that
    simulator.close()
    assert silent.seen


def test_a_build_ends_and_goes_on_elsewhere(silent: FaultyServer, world: Path, cli: Cli) -> None:
    out = world / "bank"
    asked = ("bank", "build", "--panel", world / "panel.yaml", "--per-label", "1", "--out", out)
    ended = cli(*asked, "--simulator", f"openai:m@{silent.url}", "--timeout", "0.05")
    assert ended.code == 1
    assert "did not answer in time" in ended.err.strip().splitlines()[-1]
    assert not (out / "manifest.json").exists()
    assert cli(*asked, "--simulator", "scripted").code == 0


def test_asking_and_embedding_end_too(
    silent: FaultyServer, world: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
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
