"""How many requests a second the service answers, how evenly, and whether its memory stays flat.

The service runs in a process of its own on loopback, or as several replicas with one audit log, with the
default embedder. This process is the load: 64 clients that each send a request, wait for the answer and send
the next, over kept-alive connections.
Both share the cores, so the load generator does as little as it can: requests are encoded in advance,
answers counted by their headers and checked by status. `explained`
says how many answers came with their sentences: a busy service leaves those out. `quality_rps` is the rate of
one process with MiniLM as the second expert.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from simdx.errors import RunFailed
from simdx.models.registry import is_installed

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
    """Measure for `seconds`, or until so many `requests` are answered. Replicas share one log."""
    texts = clinic_texts()
    direct = _direct(panel, texts)
    enough = (None, requests) if requests else (seconds, None)
    with tempfile.TemporaryDirectory(prefix="simdx-bench-") as folder, ExitStack() as stack:
        services = [stack.enter_context(running_service(Path(folder), panel)) for _ in range(replicas)]

        def total(figure: Callable[[int], float]) -> float:
            return sum(figure(service.pid) for service in services)

        # Every text once and again, so that what the service remembers of words is there before it counts.
        spend(services, panel, texts, clients, requests=WARM_UP_ROUNDS * len(texts) * replicas)
        start, spent = total(rss_mb), total(cpu_seconds)
        outcome = spend(services, panel, texts, clients, *enough)
        end, spent = total(rss_mb), total(cpu_seconds) - spent
    if not outcome.milliseconds:
        raise RunFailed("the service answered nothing while it was measured")
    answered = len(outcome.milliseconds)
    return {
        "rps": round(answered / outcome.seconds, 1),
        "p50_ms": round(quantile(outcome.milliseconds, 0.5), 2),
        "p99_ms": round(quantile(outcome.milliseconds, 0.99), 2),
        "quality_rps": _with_minilm(panel, texts, clients, *enough),
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
    with (
        tempfile.TemporaryDirectory(prefix="simdx-bench-") as folder,
        running_service(Path(folder), panel, "--embedder", "wordllama+minilm") as service,
    ):
        spend([service], panel, texts, clients, requests=len(texts))  # before it counts
        found = spend([service], panel, texts, clients, seconds, requests)
    return round(len(found.milliseconds) / found.seconds, 1)


class Running(NamedTuple):
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


class Load:
    """What clients that each send a request, wait for the answer and send the next saw."""

    def __init__(self, seconds: float | None, requests: int | None) -> None:
        self.milliseconds: list[float] = []
        self.explained = self.errors = 0
        self.seconds = 0.0
        self._requests = requests or math.inf
        self._started = time.perf_counter()
        self._limit = math.inf if seconds is None else seconds

    async def client(self, place: tuple[str, int], bodies: Sequence[bytes], first: int, step: int) -> None:
        """One connection that always has one request under way until it is enough."""
        reader, writer = await asyncio.open_connection(*place)
        with suppress(OSError, asyncio.IncompleteReadError):
            while self.seconds < self._limit and len(self.milliseconds) < self._requests:
                sent = time.perf_counter()
                writer.write(bodies[first % len(bodies)])
                first += step
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                now = time.perf_counter()
                if length is not None and head.startswith(b"http/1.1 200"):
                    self.milliseconds.append(1e3 * (now - sent))
                    self.explained += b'"sentences":null' not in body
                else:
                    self.errors += 1
                self.seconds = now - self._started
        writer.close()


def spend(
    services: Sequence[Running], panel: str, texts: Sequence[str], clients: int,
    seconds: float | None = None, requests: int | None = None,
) -> Load:  # fmt: skip
    """The clients are shared out among the services, as a proxy in front would."""
    places = [(service.host, service.port) for service in services]
    bodies = [[classify_request(f"{host}:{port}", panel, text) for text in texts] for host, port in places]

    async def everyone() -> Load:
        load = Load(seconds, requests)
        which = [i % len(places) for i in range(clients)]
        await asyncio.gather(*(load.client(places[w], bodies[w], i, clients) for i, w in enumerate(which)))
        return load

    return asyncio.run(everyone())


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
