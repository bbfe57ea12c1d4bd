"""Connections: too many, too slow, too long. What strangers may take of the service, over real sockets."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from simdx.service.config import Limits
from simdx.service.connections import PIPELINED, server_for
from simdx.service.meters import Meters
from tests.loopback import until
from tests.service.conftest import told

LIMITS = Limits(
    sockets=6, address_sockets=0, head_bytes=20_000, head_count=20, head_seconds=0.6, idle_seconds=1.0,
    reply_seconds=1.0, unread_bytes=400_000, body_bytes=100_000,
)  # fmt: skip
BIG = b"x" * 300_000
GOOD = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def application(scope: dict, receive: Callable, send: Callable) -> None:
    """A path with `known` is a caller's with a token, one with `body` waits for it; `/big` is long."""
    if scope["type"] == "lifespan":
        for answer in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{answer}.complete"})
        return
    if "known" in scope["path"]:
        scope["simdx.connection"].known()
    if "refused" in scope["path"]:
        scope["simdx.connection"].blame()
    if "body" in scope["path"]:
        while (await receive()).get("more_body"):
            pass
    body = BIG if scope["path"] == "/big" else b"ok"
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(limits: Limits = LIMITS) -> Iterator[tuple[Callable[..., socket.socket], Meters]]:
    """A server on loopback with these limits: a function that connects to it, and its meters."""
    meters = Meters()
    server = server_for(application, limits, meters, lambda _, path: "known" in path)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    opened: list[socket.socket] = []

    def connect(source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(listener.getsockname(), 5, source_address=(source, 0))
        opened.append(made)
        return made

    try:
        yield connect, meters
    finally:
        for made in opened:
            made.close()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def reply(client: socket.socket) -> bytes:
    """All that comes until the other side closes; b"" where it just closed."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def ask(client: socket.socket, path: bytes = b"/") -> bytes:
    client.sendall(GOOD.replace(b"/ ", path + b" ", 1))
    return answered(client)


def answered(client: socket.socket) -> bytes:
    """One short answer, whole: its head and its body may come apart. What came, where it closed before."""
    got = b""
    while not got.endswith(b"ok"):
        part = client.recv(65_536)
        if not part:
            break
        got += part
    return got


def dropped(meters: Meters, why: str) -> float:
    return told(meters, f'simdx_dropped_sockets_total{{why="{why}"}}')


def pour(client: socket.socket, piece: bytes, most: int) -> int:
    """Send a piece again and again until the other side has had enough; how many bytes it took."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            client.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize(
    ("start", "piece", "most"),
    [
        (b"GET / HTTP/1.1\r\nlong: ", b"x" * 65_536, 100_000_000),
        (b"GET /", b"x" * 65_536, 100_000_000),
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 1_000, 6_000_000),
        (b"", b"\r\n" * 1_000, 6_000_000),
    ],
    ids=["one long header", "a long address", "a million headers", "blank lines"],
)
def test_a_head_without_end_is_cut_off(start: bytes, piece: bytes, most: int) -> None:
    with serving() as (connect, _):
        client = connect()
        client.sendall(start)
        assert pour(client, piece, most) < most / 2
        assert ask(connect()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nlong: " + b"x" * 30_000, 431, "headers-too-large"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 21, 431, "headers-too-large"),
        (b"\x16\x03\x01 hello\r\n\r\n", 400, "bad-request"),
    ],
    ids=["long", "many", "no HTTP"],
)
def test_a_head_that_is_too_large_gets_a_problem(sent: bytes, status: int, kind: str) -> None:
    with serving() as (connect, _):
        client = connect()
        client.sendall(sent)
        head, body = reply(client).split(b"\r\n\r\n", 1)
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert json.loads(body)["type"] == f"urn:simdx:problem:{kind}"


def test_a_head_just_below_the_limits_is_answered_whatever_its_pieces() -> None:
    head = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 18 + b"c: " + b"x" * 19_000 + b"\r\n\r\n"
    with serving() as (connect, _):
        for size in (100_000, 1_000):
            client = connect()
            for start in range(0, len(head), size):
                client.sendall(head[start : start + size])
            assert answered(client).startswith(b"HTTP/1.1 200")
            long = b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n" + b"x" * 90_000
            for whole in (head, long, long):  # each head is counted alone, and no body for one
                client.sendall(whole)
                assert answered(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("start", "trickle"), [(b"", b""), (b"GET / HT", b""), (b"GET / HTTP/1.1\r\n", b"a")]
)
def test_a_half_open_connection_is_closed_although_something_always_comes(
    start: bytes, trickle: bytes
) -> None:
    with serving() as (connect, meters):
        client = connect()
        client.sendall(start)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while trickle and time.monotonic() - began < 4:
                client.sendall(trickle)
                time.sleep(0.05)
        assert reply(client) == b""
        assert time.monotonic() - began < 4
        assert dropped(meters, "late") == 1


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    with serving() as (connect, _):
        client, other = connect(), connect()
        assert ask(client).startswith(b"HTTP/1.1 200")
        for _ in range(8):
            assert ask(other).startswith(b"HTTP/1.1 200")
            time.sleep(0.3)
        assert reply(client) == b""


def test_a_newcomer_gets_the_place_of_the_oldest_stranger() -> None:
    with serving(replace(LIMITS, head_seconds=60)) as (connect, meters):
        known = connect()
        assert ask(known, b"/known").startswith(b"HTTP/1.1 200")
        strangers = [connect() for _ in range(5)]
        newcomer = connect()
        assert ask(newcomer).startswith(b"HTTP/1.1 200")
        assert reply(strangers[0]) == b""
        assert ask(known, b"/known").startswith(b"HTTP/1.1 200")
        assert ask(strangers[1]).startswith(b"HTTP/1.1 200")
        assert dropped(meters, "made room") == 1


def test_an_idle_caller_makes_room_where_there_is_no_stranger_and_a_busy_one_never() -> None:
    with serving(replace(LIMITS, head_seconds=60, idle_seconds=60)) as (connect, meters):
        busy = [connect() for _ in range(5)]
        for client in busy:
            client.sendall(b"POST /known/body HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhel")
        idle = connect()
        assert ask(idle, b"/known").startswith(b"HTTP/1.1 200")
        newcomer = connect()
        newcomer.sendall(b"POST /known/body HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhel")
        assert reply(idle) == b""
        assert dropped(meters, "made room") == 1
        time.sleep(0.2)
        assert reply(connect()) == b""
        assert dropped(meters, "no room") == 1
        for client in (*busy, newcomer):
            client.sendall(b"lo")
            assert answered(client).startswith(b"HTTP/1.1 200")


def test_one_address_has_its_own_places_and_leaves_the_others_theirs() -> None:
    limits = replace(LIMITS, sockets=50, address_sockets=3, head_seconds=60)
    with serving(limits) as (connect, meters):
        other = connect("127.0.0.2")
        mine = [connect() for _ in range(5)]
        assert ask(mine[-1]).startswith(b"HTTP/1.1 200")
        assert reply(mine[0]) == b""
        assert reply(mine[1]) == b""
        assert ask(other).startswith(b"HTTP/1.1 200")
        assert dropped(meters, "made room") == 2


def test_an_address_that_is_only_refused_is_not_heard_for_a_while() -> None:
    limits = replace(LIMITS, sockets=50, address_sockets=20, misdeeds=0.5)
    with serving(limits) as (connect, meters):
        kept = connect()
        assert ask(kept, b"/known").startswith(b"HTTP/1.1 200")
        for _ in range(20):
            assert ask(kept, b"/known/refused").startswith(b"HTTP/1.1 200")
        unheard = connect()
        unheard.sendall(GOOD)
        assert reply(unheard) == b""
        assert dropped(meters, "unheard") == 1
        assert ask(kept, b"/known").startswith(b"HTTP/1.1 200")
        assert ask(connect(), b"/known").startswith(b"HTTP/1.1 200")  # a caller is heard from there too
        assert ask(connect("127.0.0.2")).startswith(b"HTTP/1.1 200")
        time.sleep(2.5)
        assert ask(connect()).startswith(b"HTTP/1.1 200")
    with serving(replace(limits, address_sockets=0)) as (connect, _):  # behind a proxy
        kept = connect()
        for _ in range(30):
            assert ask(kept, b"/refused").startswith(b"HTTP/1.1 200")
        assert ask(connect()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("changes", "readers", "why"),
    [({"unread_bytes": 10**9}, 1, "late"), ({"reply_seconds": 60, "idle_seconds": 60}, 5, "unread")],
    ids=["in its time", "all together"],
)
def test_replies_that_nobody_takes_are_given_up(changes: dict[str, int], readers: int, why: str) -> None:
    with serving(replace(LIMITS, **changes)) as (connect, meters):
        for _ in range(readers):
            client = connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.sendall(GOOD.replace(b"/ ", b"/big ", 1) * 3)
        until(lambda: dropped(meters, why) >= 1)
        assert ask(connect()).startswith(b"HTTP/1.1 200")


def test_pipelined_requests_are_answered_in_order_and_only_so_many() -> None:
    waiting = b"POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n"
    with serving() as (connect, meters):
        client = connect()
        client.sendall(GOOD * (1 + PIPELINED))
        got = b""
        while got.count(b"\r\n\r\nok") < 1 + PIPELINED:
            got += answered(client)
        client.sendall(waiting + b"hello" + GOOD * 5_000)
        assert reply(client).count(b"HTTP/1.1 200") < 5_000
        assert dropped(meters, "refused") == 1


def test_trailers_do_not_get_round_the_limits() -> None:
    head = b"POST /body HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nlong: "
    with serving() as (connect, _):
        client = connect()
        client.sendall(head)
        assert pour(client, b"x" * 65_536, 50_000_000) < 25_000_000


def test_ipv6_hosts_count_by_their_network() -> None:
    from simdx.service.connections import network_of

    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"  # as a listener for both families sees it
    assert network_of("") == ""


def test_a_closed_connection_leaves_nothing_behind() -> None:
    with serving(replace(LIMITS, sockets=500)) as (connect, meters):
        for _ in range(50):
            client = connect()
            client.sendall(b"GET / HT")
            client.close()
        until(lambda: told(meters, "simdx_open_sockets") == 0)
