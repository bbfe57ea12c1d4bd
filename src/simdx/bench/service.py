"""How many requests a second the service answers, how evenly, and whether its memory stays flat.

The service runs in a process of its own on loopback, or as several replicas with one audit log, with the
default embedder. This process is the load: 64 clients that each send a request, wait for the answer and send
the next, over kept-alive connections.
Both share the machine's cores, so the load generator does as little as it can: one protocol object a
client, requests encoded in advance, answers counted by their headers and checked by status. `explained`
says how many answers came with their sentences: a busy service leaves those out. `quality_rps` is the rate of
one process with MiniLM as the second expert.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdx.errors import RunFailed
from simdx.models.verify import is_installed

CLIENTS = 64  # as many as the service answers in one engine call
SECONDS = 30.0  # long enough for a 99th percentile of thousands of requests
WARM_UP_ROUNDS = 3
START_SECONDS = 120.0  # a panel whose policy must be tuned first takes some tens
PANEL = "oral-lesions"


def run(
    *,
    seconds: float = SECONDS,
    clients: int = CLIENTS,
    requests: int | None = None,
    replicas: int = 1,
    panel: str = PANEL,
) -> dict[str, Any]:
    """Measure; with `requests`, until that many are answered instead of for `seconds`.

    The clients are shared out among the replicas, as a proxy in front would; the replicas share one log.
    """
    texts = clinic_texts()
    direct = _direct(panel, texts)
    with tempfile.TemporaryDirectory(prefix="simdx-bench-") as folder, ExitStack() as stack:
        services = [stack.enter_context(running_service(Path(folder), panel)) for _ in range(replicas)]

        def spend(seconds: float | None, requests: int | None) -> _Load:
            return asyncio.run(
                _load([(s.host, s.port) for s in services], panel, texts, clients, seconds, requests)
            )

        def total(figure: Callable[[int], float]) -> float:
            return sum(figure(service.pid) for service in services)

        # Every text once and again, so that what the service remembers of words is there before it counts.
        spend(None, WARM_UP_ROUNDS * len(texts) * replicas)
        start, spent = total(rss_mb), total(cpu_seconds)
        outcome = spend(None if requests else seconds, requests)
        end, spent = total(rss_mb), total(cpu_seconds) - spent
    quality = _with_minilm(panel, texts, clients, None if requests else seconds, requests)
    if not outcome.milliseconds:
        raise RunFailed("the service answered nothing while it was measured")
    answered = len(outcome.milliseconds)
    return {
        "rps": round(answered / outcome.seconds, 1),
        "p50_ms": round(quantile(outcome.milliseconds, 0.5), 2),
        "p99_ms": round(quantile(outcome.milliseconds, 0.99), 2),
        "quality_rps": quality,
        "requests_per_cpu_s": round(answered / spent, 1) if spent > 0 else None,
        "errors": outcome.errors,
        "rss_start_mb": round(start, 1),
        "rss_end_mb": round(end, 1),
        "direct_cases_per_s": round(direct, 1),
        "requests": answered,
        "explained": outcome.explained,
        "clients": clients,
        "replicas": replicas,
        "seconds": round(outcome.seconds, 2),
        "cores": os.cpu_count(),
    }


def _with_minilm(
    panel: str, texts: Sequence[str], clients: int, seconds: float | None, requests: int | None
) -> float | None:
    """Requests a second of one process whose answers hear MiniLM too, where its weights are installed."""
    if not is_installed("minilm"):
        return None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simdx-bench-")))
        service = stack.enter_context(running_service(folder, panel, "--embedder", "wordllama+minilm"))
        place = [(service.host, service.port)]
        asyncio.run(_load(place, panel, texts, clients, None, len(texts)))  # before it counts
        found = asyncio.run(_load(place, panel, texts, clients, seconds, requests))
    return round(len(found.milliseconds) / found.seconds, 1)


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    host: str
    port: int


@contextmanager
def running_service(home: Path, panel: str, *options: str) -> Iterator[Running]:
    """A service as a user would start it, on a free port, with an audit log of its own."""
    command = [
        sys.executable, "-m", "simdx", "serve", "--port", "0", "--panel", panel,
        "--audit", f"sqlite:///{home / 'audit.sqlite3'}", "--audit-key", str(home / "audit.key"), *options,
    ]  # fmt: skip
    with tempfile.NamedTemporaryFile(
        dir=home, delete=False
    ) as said:  # a pipe that nobody reads would stop it
        process, log = subprocess.Popen(command, stderr=said, stdout=subprocess.DEVNULL), Path(said.name)
    try:
        yield Running(process.pid, *_announced(process, log))
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _announced(process: subprocess.Popen[bytes], log: Path) -> tuple[str, int]:
    """The address in the line the service prints once it listens."""
    said, until = "", time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        ended = process.poll() is not None
        said = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"http://([\d.]+):(\d+)", said):
            return found[1], int(found[2])
        if ended:
            break
        time.sleep(0.1)
    raise RunFailed(f"the service did not start: {' '.join(said.split())[-200:] or 'no word from it'}")


# --------------------------------------------------------------------------- the load


class _Client(asyncio.Protocol):
    """One connection that always has one request under way until it is told to stop."""

    def __init__(self, bodies: Sequence[bytes], first: int, step: int, load: _Load) -> None:
        self._bodies, self._next, self._step, self._load = bodies, first, step, load
        self._buffer = bytearray()
        self._left: int | None = None
        self._good = False
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._sent = time.perf_counter()
        self._transport.write(self._bodies[self._next % len(self._bodies)])
        self._next += self._step

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._left is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            length = re.search(rb"content-length: (\d+)", head)
            self._good = head.startswith(b"http/1.1 200") and length is not None
            self._left = end + 4 + (int(length.group(1)) if length else 0)
        if len(self._buffer) < self._left:
            return
        explained = b'"sentences":null' not in self._buffer
        del self._buffer[: self._left]
        self._left = None
        if self._load.note(1e3 * (time.perf_counter() - self._sent), self._good, explained):
            self._send()
        elif self._transport is not None:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.gone()


class _Load:
    def __init__(self, clients: int, seconds: float | None, requests: int | None) -> None:
        self.milliseconds: list[float] = []
        self.explained = self.errors = 0
        self.seconds = 0.0
        self.done = asyncio.Event()
        self._clients = clients
        self._requests = requests
        self._started = time.perf_counter()
        self._until = self._started + seconds if seconds is not None else float("inf")

    def note(self, milliseconds: float, good: bool, explained: bool) -> bool:
        """Count an answer; False tells the client to stop."""
        if good:
            self.milliseconds.append(milliseconds)
            self.explained += explained
        else:
            self.errors += 1
        self.seconds = time.perf_counter() - self._started
        if self._requests is not None and len(self.milliseconds) >= self._requests:
            return False
        return time.perf_counter() < self._until

    def gone(self) -> None:
        self._clients -= 1
        if self._clients == 0:
            self.done.set()


async def _load(
    services: Sequence[tuple[str, int]],
    panel: str,
    texts: Sequence[str],
    clients: int,
    seconds: float | None,
    requests: int | None,
) -> _Load:
    load, loop = _Load(clients, seconds, requests), asyncio.get_running_loop()
    bodies = {
        (host, port): [classify_request(f"{host}:{port}", panel, text) for text in texts]
        for host, port in services
    }
    for i in range(clients):
        where = services[i % len(services)]
        await loop.create_connection(lambda i=i, w=where: _Client(bodies[w], i, clients, load), *where)  # type: ignore[misc]
    await load.done.wait()
    return load


def classify_request(host: str, panel: str, text: str, token: str | None = None) -> bytes:
    body = json.dumps({"panel": panel, "text": text}).encode("utf-8")
    return post_head(host, len(body), token) + body


def post_head(host: str, length: int, token: str | None = None) -> bytes:
    who = f"authorization: Bearer {token}\r\n" if token else ""
    head = f"POST /v1/classify HTTP/1.1\r\nhost: {host}\r\n{who}content-type: application/json\r\n"
    return f"{head}content-length: {length}\r\n\r\n".encode("ascii")


def clinic_texts() -> list[str]:
    """The packaged oral benchmark's cases: the texts a clinic would send, 90 words on average."""
    from simdx.datasets import load_oral

    return list(load_oral().cases.texts)


def _direct(panel: str, texts: Sequence[str], seconds: float = 3.0, batch: int = 64) -> float:
    """Cases a second through the Python front door, whole answers, in batches, without HTTP."""
    from simdx.classifier import Classifier

    classifier = Classifier(panel)
    classifier.infer(list(texts[:batch]))
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        start = done % max(1, len(texts) - batch)
        done += len(classifier.infer(list(texts[start : start + batch])))
    return done / (time.perf_counter() - started)


def rss_mb(pid: int) -> float:
    """Memory of a process, where the system says it."""
    found = re.search(r"VmRSS:\s+(\d+) kB", _file_of(pid, "status"))
    return int(found[1]) / 1024 if found else float("nan")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process: on a shared machine the rate says more of others."""
    ticks = _file_of(pid, "stat").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") if ticks else float("nan")


def _file_of(pid: int, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    return ""


def quantile(values: Sequence[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")
