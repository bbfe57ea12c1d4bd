"""One simulator out of several servers of the same model, for building a bank faster.

Each request goes to the server with the most room. A server that fails a request is passed over for a
while, longer each time, and the request is asked of another one; only when every server has failed it is
it a failure. The builder sees an ordinary simulator, so there is one store, one manifest and one order of
requests whatever the number of servers, and a server may come or go between runs.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from simdx.egress import is_remote
from simdx.errors import BadInput
from simdx.simulators.base import Capabilities, Completion, Request, Simulator, ask, failed, stream

FIRST_REST = 2.0  # seconds a server is passed over after a failure; doubles with each in a row
LONGEST_REST = 120.0


@dataclass(slots=True, eq=False)
class _Server:
    simulator: Simulator
    under_way: int = 0
    answered: int = 0
    failed: int = 0
    failures_in_a_row: int = 0
    resting_until: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What one server did."""

    server: str
    answered: int
    failed: int


class Endpoints:
    """A simulator that spreads requests over others. `model` names what they all serve."""

    lockstep = False

    def __init__(self, model: str, simulators: Sequence[Simulator], *, first_rest: float = FIRST_REST):
        if not simulators:
            raise BadInput("give at least one --endpoint")
        self.id = f"endpoints:{model}"  # not the addresses: answers stay good when a server moves
        self.concurrency = sum(s.concurrency for s in simulators)
        self.remote = any(is_remote(s) for s in simulators)
        self._servers = [_Server(s) for s in simulators]
        self._first_rest = first_rest
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """What every server can do."""
        found = [server.simulator.capabilities for server in self._servers]
        return Capabilities(*(all(getattr(c, f.name) for c in found) for f in fields(Capabilities)))

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self._answer, self.concurrency)

    def close(self) -> None:
        for server in self._servers:
            server.simulator.close()

    def report(self) -> list[ServerReport]:
        return [ServerReport(s.simulator.id, s.answered, s.failed) for s in self._servers]

    def _answer(self, request: Request) -> Completion:
        left, completion = list(self._servers), failed("no server was asked")
        while left and not completion.ok:
            server = self._take(left)
            left.remove(server)
            completion = failed("the server broke off")
            try:
                completion = ask(server.simulator, request)
            finally:
                self._give_back(server, completion.ok)
        return completion

    def _take(self, servers: Sequence[_Server]) -> _Server:
        """The least loaded of them; one that rests only where no other is left."""
        with self._lock:
            now = time.monotonic()

            def readiness(s: _Server) -> tuple[bool, float, float]:
                return s.resting_until > now, s.under_way / s.simulator.concurrency, s.resting_until

            chosen = min(servers, key=readiness)
            chosen.under_way += 1
            return chosen

    def _give_back(self, server: _Server, ok: bool) -> None:
        with self._lock:
            server.under_way -= 1
            if ok:
                server.answered += 1
                server.failures_in_a_row, server.resting_until = 0, 0.0
                return
            rest = min(LONGEST_REST, self._first_rest * 2**server.failures_in_a_row)
            server.failed += 1
            server.failures_in_a_row += 1
            server.resting_until = time.monotonic() + rest


def open_endpoints(names: Sequence[str]) -> Endpoints:
    """`openai:MODEL@URL` names, all of one model; a scripted simulator stands in for a server in trials."""
    from simdx.simulators import get_simulator

    models = sorted({_model_of(name) for name in names})
    if len(models) > 1:
        raise BadInput(
            f"the endpoints serve different models ({', '.join(models)}): a bank is drawn from one"
        )
    if len(set(names)) < len(names):
        raise BadInput("an --endpoint is named twice")
    # Labels alone are sent, to servers the caller names: naming them is the permission.
    return Endpoints("".join(models), [get_simulator(name, allow_remote=True) for name in names])


def _model_of(name: str) -> str:
    if name.startswith("openai:"):
        return name.removeprefix("openai:").partition("@")[0]
    if name.startswith("scripted"):
        return "scripted"
    raise BadInput(f"'{name[:200]}' is not an endpoint: write openai:MODEL@http://host:port/v1")
