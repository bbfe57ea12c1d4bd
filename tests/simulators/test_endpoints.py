"""Several servers as one simulator: the work is shared, a dead server costs nothing but time."""

from pathlib import Path

import pytest

from simdx.bank.builder import build_bank
from simdx.bank.plan import BuildSettings
from simdx.errors import BadInput
from simdx.simulators import open_endpoints
from simdx.simulators.base import Completion, Request, ask_all, failed
from simdx.simulators.openai import Endpoints
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Panel

SETTINGS = BuildSettings(per_label=6, background=4)


class Mortal(ScriptedSimulator):
    """A server that dies after so many answers."""

    def __init__(self, answers: int) -> None:
        super().__init__(delay=0.002)
        self._left = answers

    def answer(self, request: Request) -> Completion:
        self._left -= 1
        return super().answer(request) if self._left >= 0 else failed("connection refused")


def requests(count: int) -> list[Request]:
    return [Request(prompt=f"case {i}", seed=i) for i in range(count)]


def test_the_load_is_shared() -> None:
    servers = Endpoints("m", [ScriptedSimulator(delay=0.005) for _ in range(3)])
    answers = ask_all(servers, requests(60))
    assert all(a.ok for a in answers)
    shares = [s["answered"] for s in servers.report()]
    assert sum(shares) == 60
    assert min(shares) >= 10


def test_a_dead_server_loses_nothing_and_is_passed_over() -> None:
    dead, alive = Mortal(0), ScriptedSimulator(delay=0.002)
    servers = Endpoints("m", [dead, alive], first_rest=60)
    answers = ask_all(servers, requests(40))
    assert all(a.ok for a in answers)
    reports = servers.report()
    assert reports[1]["answered"] == 40
    assert reports[0]["failed"] <= dead.concurrency  # those under way when it was found out, and no more


def test_a_server_that_comes_back_is_used_again() -> None:
    class Flaky(ScriptedSimulator):
        down = True

        def answer(self, request: Request) -> Completion:
            return failed("busy") if self.down else super().answer(request)

    flaky = Flaky(concurrency=50)
    servers = Endpoints("m", [flaky, ScriptedSimulator(concurrency=1)], first_rest=0.0)
    assert all(a.ok for a in ask_all(servers, requests(5)))
    Flaky.down = False
    assert all(a.ok for a in ask_all(servers, requests(20)))
    assert servers.report()[0]["answered"] > 0


def test_when_all_are_dead_the_request_fails() -> None:
    servers = Endpoints("m", [Mortal(0), Mortal(0)], first_rest=0.0)
    answers = ask_all(servers, requests(3))
    assert [a.error for a in answers] == ["connection refused"] * 3


def test_the_bank_does_not_depend_on_how_many_servers_made_it(toy_panel: Panel, tmp_path: Path) -> None:
    assert not build_bank(toy_panel, Endpoints("m", [Mortal(9)]), SETTINGS, tmp_path / "dead").complete
    pools = {
        "one": [ScriptedSimulator()],
        "three": [ScriptedSimulator(delay=0.001) for _ in range(3)],
        "dying": [Mortal(5), ScriptedSimulator(delay=0.002)],
        "dead": [ScriptedSimulator()] * 2,  # goes on with other servers
    }
    reports = [build_bank(toy_panel, Endpoints("m", s), SETTINGS, tmp_path / n) for n, s in pools.items()]
    assert all(report.complete for report in reports)
    assert len({report.hash for report in reports}) == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["openai:a@http://127.0.0.1:1/v1", "openai:b@http://127.0.0.1:2/v1"], "different models"),
        (["openai:a@http://127.0.0.1:1/v1"] * 2, "twice"),
        (["smollm2"], "not an endpoint"),
        ([], "at least one"),
    ],
)
def test_endpoints_that_are_no_one_model_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        open_endpoints(names)
