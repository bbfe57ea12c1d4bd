"""deploy/nginx.conf in a real nginx before two replicas: an honest client beside many hostile ones."""

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from simdx.bench.service import classify_request, clinic_texts, post_head, quantile, running_service
from simdx.service.auth import TokenFile
from tests.loopback import until

ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx-light)"),
]

WINDOWS, SECONDS = 2, 5.0  # of quiet and hostile times that take turns
TIMES, FLOOR = 3.0, 50.0  # the honest client's p99 may grow so much, from at least so many milliseconds
HOST = "simdx.clinic.example"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Front:
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Two replicas with one audit log, and nginx in front of them."""
    folder = tmp_path_factory.mktemp("nginx")
    token, _ = TokenFile(folder / "tokens.json").new("honest", ("classify",))
    options = ("--token-file", str(folder / "tokens.json"), "--allowed-host", HOST, "--require-token")
    with contextlib.ExitStack() as stack:
        replicas = [stack.enter_context(running_service(folder, "oral-lesions", *options)) for _ in range(2)]
        port = free_port()
        stack.enter_context(running_nginx(folder, port, [replica.port for replica in replicas]))
        yield Front(port, token)


@contextlib.contextmanager
def running_nginx(folder: Path, port: int, replicas: list[int]) -> Iterator[None]:
    """The shipped configuration, with other ports, no TLS, and its files in this folder."""
    said = (ROOT / "deploy" / "nginx.conf").read_text()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    here = "".join(f" {kind}_temp_path {folder / kind};" for kind in kinds)
    changes = [
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        (r"\n +ssl_[^\n]*", ""),
        (r"127\.0\.0\.1:8000;", f"127.0.0.1:{replicas[0]};"),
        (r"127\.0\.0\.1:8001;", f"127.0.0.1:{replicas[1]};"),
        (r"http \{", f"http {{{here}"),
    ]
    for pattern, other in changes:
        said, count = re.subn(pattern, other, said)
        assert count, pattern
    (folder / "nginx.conf").write_text(f"pid {folder / 'nginx.pid'};\ndaemon off;\n{said}")
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: process.poll() is not None or reachable(port))
        assert process.poll() is None, process.stderr.read()
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stderr.close()


def reachable(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def ask(front: Front, body: bytes, **headers: str) -> int:
    who = {"host": HOST, "authorization": f"Bearer {front.token}", "content-type": "application/json"}
    request = urllib.request.Request(f"{front.url}/v1/classify", body, {**who, **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return int(refused.code)


def test_sizes_names_and_upgrades(front: Front) -> None:
    good = json.dumps({"panel": "oral-lesions", "text": "A soft, bluish swelling of the lip."}).encode()
    assert ask(front, good) == 200
    assert ask(front, good, upgrade="h2c", connection="Upgrade") == 200
    assert ask(front, b" " * 5_000_000) == 413
    assert ask(front, good, x="x" * 70_000) == 400
    assert ask(front, good, authorization="Bearer made-up") == 401


# --------------------------------------------------------------------------- the hostile: another process


async def drip(address: str, port: int, start: bytes, more: bytes) -> None:
    """A head, a body or nothing at all that never ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(start)
    for _ in range(1_000):
        writer.write(more)
        await asyncio.sleep(0.5)
        if reader.at_eof():
            return


async def flood(address: str, port: int, start: bytes, more: bytes) -> None:
    """A hundred requests a second over one connection, which nginx answers with 401 and then with 429."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    while True:
        writer.write(start)
        await asyncio.sleep(0.01)
        if not await reader.read(65_536):
            return


KINDS = (
    (drip, b"POST /v1/classify HTTP/1.1\r\nHost: x\r\n", b"x: y\r\n", 300),
    (drip, post_head(HOST, 9_000), b" ", 300),
    (drip, b"", b"", 300),
    (flood, f"GET /v1/panels HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode(), b"", 8),
)
ADDRESSES = [f"127.0.1.{i}" for i in range(1, 9)]


def attack(port: int, ready: Any, over: Any) -> None:
    async def again(kind: Any, i: int, *said: bytes) -> None:
        while True:
            with contextlib.suppress(OSError):
                await kind(ADDRESSES[i % len(ADDRESSES)], port, *said)
            await asyncio.sleep(0.2)

    async def everyone() -> None:
        tasks = [
            asyncio.create_task(again(kind, i, *said)) for kind, *said, count in KINDS for i in range(count)
        ]
        await asyncio.sleep(1.0)
        ready.set()
        await asyncio.to_thread(over.wait, 30)
        for task in tasks:
            task.cancel()

    asyncio.run(everyone())


# --------------------------------------------------------------------------- the honest client


async def honest(front: Front, seconds: float) -> list[float]:
    """Milliseconds of one request after another, some ten a second, over a connection that is kept."""
    requests = [classify_request(HOST, "oral-lesions", text, front.token) for text in clinic_texts()[:20]]
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    until, took = time.monotonic() + seconds, list[float]()
    while time.monotonic() < until:
        started = time.perf_counter()
        writer.write(requests[len(took) % len(requests)])
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        length = re.search(rb"content-length: (\d+)", head.lower())
        assert head.startswith(b"HTTP/1.1 200")
        assert length
        await reader.readexactly(int(length[1]))
        took.append(1e3 * (time.perf_counter() - started))
        await asyncio.sleep(0.05)
    writer.close()
    return took


def test_the_hostile_do_not_slow_an_honest_client_down(front: Front) -> None:
    quiet, hostile, processes = list[float](), list[float](), get_context("spawn")
    asyncio.run(honest(front, 1.0))  # warm
    for _ in range(WINDOWS):
        quiet += asyncio.run(honest(front, SECONDS))
        ready, over = processes.Event(), processes.Event()
        attackers = processes.Process(target=attack, args=(front.port, ready, over))
        attackers.start()
        assert ready.wait(30)
        hostile += asyncio.run(honest(front, SECONDS))
        over.set()
        attackers.join(timeout=20)
        assert attackers.exitcode == 0
    before, during = quantile(quiet, 0.99), quantile(hostile, 0.99)
    print(f"p99: quiet {before:.0f} ms, hostile {during:.0f} ms", file=sys.stderr)
    assert len(hostile) >= 10
    assert during <= TIMES * max(before, FLOOR)


def test_slow_heads_are_ended_and_fast_callers_told_to_wait(front: Front) -> None:
    with socket.create_connection(("127.0.0.1", front.port), timeout=15) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        started = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert wire.recv(100) == b""
        assert time.monotonic() - started < 14
    codes = [ask(front, b"{}", authorization="Bearer none") for _ in range(300)]
    assert codes.count(429) > 20
    assert set(codes) == {401, 429}
