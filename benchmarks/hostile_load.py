"""Does an honest client keep its answers while a thousand connections misbehave? Loopback only.

The service runs in a process of its own, as a user would start it with --require-token. This process is the
honest client: two connections that ask, wait for the answer and think for 100 ms, so that they do not fill
the service by themselves; one request in ten goes over a new connection, connecting included. A third process
is hostile: so many connections of one kind from ten other addresses (127.0.1.1 to .10), each opened again a
second after the service has ended it.

    slow headers    a byte of a header every second
    half open       connected, and silent
    huge headers    one header of up to 100 MB
    many headers    up to a million of them
    large bodies    4 MB, without a token
    slow bodies     a byte a second, with a valid token of another caller
    bogus tokens    another made-up token for each request
    slow readers    three long replies asked for at once, and a byte read every second
    all at once     so many of each

Quiet and hostile windows take turns, so that what else the machine does falls on both. The aim: no error, a
99th percentile at most three times the quiet one, and less than 100 MB more memory.

    python -m benchmarks.hostile_load                 # 60 s and 1,000 connections of each kind
    python -m benchmarks.hostile_load --seconds 4 --connections 100 --windows 1 --kind "half open" --out -
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from simdx.bench.service import (
    classify_request,
    clinic_texts,
    cpu_seconds,
    post_head,
    quantile,
    rss_mb,
    running_service,
)

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "service" / "hostile_load.json"
HOST = "127.0.0.1"
PANEL = "oral-lesions"
HONEST = 2  # connections
THINK = 0.1  # seconds between an answer and the next question
NEW_CONNECTION = 10  # one request in so many goes over a new connection
ADDRESSES = 10  # that the hostile come from
AGAIN = 1.0  # seconds until a hostile connection that was ended is opened again
WARM_UP = 5.0
AIM = {"errors": 0, "p99_ratio": 3.0, "growth_mb": 100.0}
PATIENCE = 30.0  # seconds after which an honest request is an error

# --------------------------------------------------------------------------- the hostile


@dataclass(slots=True)
class Target:
    port: int
    token: str
    until: float

    @property
    def left(self) -> float:
        return self.until - time.monotonic()


Record = dict[str, Any]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _trickle(stream: Stream, start: bytes, byte: bytes) -> None:
    stream[1].write(start)
    while not stream[0].at_eof():
        stream[1].write(byte)
        await stream[1].drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stream[0].read(1_000), 1.0)


async def _pour(stream: Stream, start: bytes, piece: bytes, times: int) -> None:
    stream[1].write(start)
    for _ in range(times):
        stream[1].write(piece)
        await stream[1].drain()
    await stream[0].read()


async def _read_slowly(stream: Stream) -> None:
    stream[1].write(f"GET /openapi.json HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode() * 3)
    while await stream[0].read(1):
        await asyncio.sleep(1)


def _made_up() -> str:
    return f"sdx_{random.randrange(16**8):08x}_{random.randrange(16**40):040x}"


GET = b"GET / HTTP/1.1\r\n"
KINDS: dict[str, Callable[[Stream, Target], Awaitable[Any]]] = {
    "slow headers": lambda stream, _: _trickle(stream, GET + f"host: {HOST}\r\nx: ".encode(), b"x"),
    "half open": lambda stream, _: stream[0].read(),
    "huge headers": lambda stream, _: _pour(stream, GET + b"x: ", b"x" * 100_000, 1_000),
    "many headers": lambda stream, _: _pour(stream, GET, b"a: b\r\n" * 1_000, 1_000),
    "large bodies": lambda stream, _: _pour(stream, post_head(HOST, 4_000_000), b" " * 100_000, 40),
    "slow bodies": lambda stream, target: _trickle(stream, post_head(HOST, 100_000, target.token), b" "),
    "bogus tokens": lambda stream, _: _pour(stream, post_head(HOST, 2, _made_up()), b"{}", 1),
    "slow readers": lambda stream, _: _read_slowly(stream),
}
ALL = "all at once"


async def _connection(kind: str, target: Target, counts: dict[str, int]) -> None:
    await asyncio.sleep(random.random() * AGAIN)
    while target.left > 0:
        writer = None
        try:
            async with asyncio.timeout(target.left):
                made = socket.socket()
                made.setblocking(False)
                made.bind((f"127.0.1.{random.randint(1, ADDRESSES)}", 0))
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
                await asyncio.get_running_loop().sock_connect(made, (HOST, target.port))
                reader, writer = await asyncio.open_connection(sock=made, limit=4_096)
                counts["opened"] += 1
                await KINDS[kind]((reader, writer), target)
            counts["ended by the service"] += 1
        except TimeoutError:
            counts["open at the end"] += 1
        except OSError:
            counts["ended by the service"] += 1
        if writer is not None:
            writer.transport.abort()
        await asyncio.sleep(min(AGAIN * (0.5 + random.random()), max(0.0, target.left)))


async def _attack(kind: str, connections: int, target: Target) -> dict[str, int]:
    counts = {"opened": 0, "ended by the service": 0, "open at the end": 0}
    kinds = list(KINDS) if kind == ALL else [kind]
    await asyncio.gather(*(_connection(k, target, counts) for k in kinds for _ in range(connections)))
    return counts


def attack(kind: str, connections: int, seconds: float, port: int) -> None:
    """The hostile process: prints what it did, as JSON. The token comes through standard input."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    target = Target(port, sys.stdin.readline().strip(), time.monotonic() + seconds)
    print(json.dumps(asyncio.run(_attack(kind, connections, target))))


# --------------------------------------------------------------------------- the honest


@dataclass(slots=True)
class Seen:
    cpu: float = 0.0  # seconds of the service's
    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Honest:
    """Clients that ask and think, for as long as they are let."""

    def __init__(self, port: int, token: str, texts: Sequence[str]) -> None:
        self._port = port
        self._requests = [classify_request(HOST, PANEL, text, token) for text in texts]

    async def run(self, seconds: float) -> Seen:
        seen, until = Seen(), time.monotonic() + seconds
        await asyncio.gather(*(self._client(i, until, seen) for i in range(HONEST)))
        return seen

    async def _client(self, first: int, until: float, seen: Seen) -> None:
        stream: Stream | None = None
        for i in takewhile(lambda _: time.monotonic() < until, count()):
            started = time.perf_counter()
            try:
                async with asyncio.timeout(PATIENCE):
                    if stream is None or i % NEW_CONNECTION == 0:
                        _close(stream)
                        stream = await asyncio.open_connection(HOST, self._port)
                    status = await self._ask(stream, first + i * HONEST)
                if status == 200:
                    seen.milliseconds.append(1e3 * (time.perf_counter() - started))
                else:
                    seen.errors.append(f"status {status}")
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                seen.errors.append(type(error).__name__)
                _close(stream)
                stream = None
            await asyncio.sleep(THINK)
        _close(stream)

    async def _ask(self, stream: Stream, i: int) -> int:
        stream[1].write(self._requests[i % len(self._requests)])
        head = await stream[0].readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        await stream[0].readexactly(int(length[1]) if length else 0)
        return int(head.split(b" ", 2)[1])


def _close(stream: Stream | None) -> None:
    if stream is not None:
        stream[1].transport.abort()


# --------------------------------------------------------------------------- both


async def _window(
    service: Service, seconds: float, attacker: Sequence[str] | None
) -> tuple[Seen, float, dict[str, int]]:
    """One window: what the honest client saw, the service's highest memory, what the hostile did."""
    process = None
    if attacker is not None:
        process = subprocess.Popen(
            attacker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdin is not None
        process.stdin.write(service.other_token + "\n")
        process.stdin.flush()
    peak, done = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, rss_mb(service.pid))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 0.25)

    watcher, cpu = asyncio.create_task(watch()), cpu_seconds(service.pid)
    seen = await service.honest.run(seconds)
    said = "{}"
    if process is not None:
        said, _ = await asyncio.to_thread(process.communicate, timeout=60)
    seen.cpu = cpu_seconds(service.pid) - cpu
    done.set()
    await watcher
    return seen, peak, json.loads(said)


async def measure(kind: str, connections: int, seconds: float, windows: int, service: Service) -> Record:
    attacker = [
        sys.executable, "-m", "benchmarks.hostile_load", "--attack", kind, "--connections", str(connections),
        "--seconds", str(seconds / windows), "--port", str(service.port),
    ]  # fmt: skip
    quiet, hostile, peak, did = Seen(), Seen(), 0.0, dict[str, int]()
    for _ in range(windows):
        for seen, command in ((quiet, None), (hostile, attacker)):
            got, rss, counts = await _window(service, seconds / windows, command)
            seen.milliseconds += got.milliseconds
            seen.errors += got.errors
            seen.cpu += got.cpu
            peak = max(peak, rss)
            did = {k: did.get(k, 0) + v for k, v in counts.items()} or did
    ratio = quantile(hostile.milliseconds, 0.99) / quantile(quiet.milliseconds, 0.99)
    return {
        "quiet": _summary(quiet),
        "hostile": _summary(hostile),
        "p99_ratio": round(ratio, 2),
        "rss_peak_mb": round(peak, 1),
        "hostile_connections": did,
    }


def _summary(seen: Seen) -> Record:
    return {
        "requests": len(seen.milliseconds),
        "errors": len(seen.errors),
        **({"which": sorted(set(seen.errors))} if seen.errors else {}),
        "p50_ms": round(quantile(seen.milliseconds, 0.5), 1),
        "p99_ms": round(quantile(seen.milliseconds, 0.99), 1),
        "max_ms": round(max(seen.milliseconds, default=float("nan")), 1),
        "service_cpu_s": round(seen.cpu, 1),
    }


@dataclass(slots=True)
class Service:
    pid: int
    port: int
    honest: Honest
    other_token: str


@contextlib.contextmanager
def _service(folder: Path) -> Iterator[Service]:
    from simdx.service.auth import TokenFile

    tokens = TokenFile(folder / "tokens.json")
    mine, other = (tokens.new(name, ("classify",))[0] for name in ("honest", "other"))
    options = ("--require-token", "--token-file", str(folder / "tokens.json"))
    with running_service(folder, PANEL, *options) as service:
        yield Service(service.pid, service.port, Honest(service.port, mine, clinic_texts()), other)


def run(connections: int, seconds: float, windows: int, kinds: Sequence[str]) -> dict[str, Any]:
    from simdx import __version__
    from simdx.runs.record import current_commit

    with tempfile.TemporaryDirectory(prefix="simdx-hostile-") as folder, _service(Path(folder)) as service:
        asyncio.run(service.honest.run(WARM_UP))
        start = rss_mb(service.pid)
        found: dict[str, Any] = {}
        for kind in kinds:
            found[kind] = asyncio.run(measure(kind, connections, seconds, windows, service))
            print(kind, json.dumps(found[kind]), file=sys.stderr, flush=True)
    return {
        "command": "python -m benchmarks.hostile_load",
        "commit": current_commit(),
        "version": __version__,
        "machine": f"{os.cpu_count()} cores, shared by the service, both clients and other work",
        "load_after": [round(x, 2) for x in os.getloadavg()],
        "connections_of_each_kind": connections,
        "hostile_seconds_of_each_kind": seconds,
        "windows": windows,
        "rss_start_mb": round(start, 1),
        "aim": AIM,
        "each_kind_alone": verdict([f for kind, f in found.items() if kind != ALL], start),
        "all_at_once": verdict([f for kind, f in found.items() if kind == ALL], start),
        "kinds": found,
    }


def verdict(found: Sequence[dict[str, Any]], start: float) -> dict[str, Any] | None:
    """The worst of these, and whether it is within the aim; None where nothing was measured."""
    if not found:
        return None
    growth = max(f["rss_peak_mb"] for f in found) - start
    errors = sum(f[w]["errors"] for f in found for w in ("quiet", "hostile"))
    ratio = max(f["p99_ratio"] for f in found)
    return {
        "errors": errors,
        "worst_p99_ratio": ratio,
        "growth_mb": round(growth, 1),
        "reached": errors == 0 and ratio <= AIM["p99_ratio"] and growth < AIM["growth_mb"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="An honest client beside hostile connections, on loopback.")
    parser.add_argument("--connections", type=int, default=1_000, help="hostile ones of each kind")
    parser.add_argument("--seconds", type=float, default=60.0, help="of hostility for each kind")
    parser.add_argument("--windows", type=int, default=3, help="into which these seconds are cut")
    parser.add_argument("--kind", action="append", choices=[*KINDS, ALL], help="default: every kind")
    parser.add_argument("--out", default=str(OUT), help="the record; - for standard output alone")
    parser.add_argument("--attack", choices=[*KINDS, ALL], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.attack:
        attack(asked.attack, asked.connections, asked.seconds, asked.port)
        return
    record = run(asked.connections, asked.seconds, asked.windows, asked.kind or [*KINDS, ALL])
    text = json.dumps(record, indent=1) + "\n"
    if asked.out == "-":
        sys.stdout.write(text)
    else:
        Path(asked.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
