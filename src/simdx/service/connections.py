"""What connections may take before anyone knows who is calling: places, time, bytes.

uvicorn's parser (httptools) has no limit on headers, a connection that says nothing stays, and so does a
reply that nobody reads. Here every connection has a time by which it must have got on, and there are only so
many of them. When all places are taken, a newcomer gets the place of the oldest connection that has shown no
valid token, or else of the one that has been idle for longest: strangers may push each other out, but not a
caller whose request is under way. An address that is refused again and again is left without an answer for a
while: a request of it that shows no valid token waits until its time is up, which costs nothing and keeps it
from coming back at once. Whoever has a token is heard from there too: a ward shares one address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import httptools
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from simdx.service.config import Limits
from simdx.service.meters import Meters
from simdx.service.problems import MEDIA_TYPE, Problem
from simdx.service.rates import Rate
from simdx.service.wire import dump

SWEEP_SECONDS = 0.1
SWEPT = 50  # late connections ended in one sweep: a thousand at once would hold everyone else up
UNREAD = 16_384  # bytes of a reply that may wait in a connection before it counts as not taken
PIECE = 8_192  # bytes of a head parsed at a time, between two looks at its length
PIPELINED = 2  # requests of one connection that may wait for the one before

MISDEED_SECONDS = 3.0  # worth of misdeeds that are overlooked: one bad token in a ward of many is no attack

STRANGER, IDLE, BUSY = range(3)

# Authorization header and path of a request -> is it one that is heard from any address?
Heard = Callable[[str, str], bool]


def server_for(app: ASGIApp, limits: Limits, meters: Meters, heard: Heard) -> uvicorn.Server:
    """A server whose connections keep to the limits. It does not listen yet."""
    protocol = partial(Connection, sockets=Sockets(limits, meters, heard))
    return uvicorn.Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, log_level="warning", server_header=False, ws="none",
            timeout_keep_alive=math.ceil(limits.idle_seconds), timeout_graceful_shutdown=10,
            http=protocol,  # type: ignore[arg-type]
            proxy_headers=False,  # a caller's address is its peer's, not what a header says
        )
    )  # fmt: skip


class Sockets:
    """All open connections, oldest first, and by address; who stays when there is no room; who is late."""

    def __init__(self, limits: Limits, meters: Meters, heard: Heard) -> None:
        self.limits, self.heard = limits, heard
        self._meters = meters
        # Behind a proxy, where addresses are not limited, they are nobody's.
        self._misdeeds = Rate(limits.misdeeds if limits.address_sockets else 0, MISDEED_SECONDS)
        self._all: dict[Connection, None] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._sweeping = False

    def admit(self, connection: Connection) -> bool:
        mine = self._by_address.setdefault(connection.address, {})
        limit = self.limits.address_sockets
        for pool, size in ((mine, limit or math.inf), (self._all, self.limits.sockets)):
            if len(pool) >= size and not self._make_room(pool):
                self._meters.dropped.labels("no room").inc()
                if not mine:
                    self._by_address.pop(connection.address, None)
                return False
        self._by_address.setdefault(connection.address, {})[connection] = None
        self._all[connection] = None
        self._meters.sockets.set(len(self._all))
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)
        return True

    def forget(self, connection: Connection) -> None:
        if connection not in self._all:
            return
        del self._all[connection]
        mine = self._by_address[connection.address]
        del mine[connection]
        if not mine:
            del self._by_address[connection.address]
        self._meters.sockets.set(len(self._all))

    def blame(self, connection: Connection) -> None:
        self._misdeeds.wait(connection.address)

    def is_blamed(self, connection: Connection) -> bool:
        return self._misdeeds.spent(connection.address)

    def drop(self, connection: Connection, why: str) -> None:
        """End a connection without waiting for its peer; its place is free at once."""
        self._meters.dropped.labels(why).inc()
        if why in ("late", "unread", "refused"):
            self.blame(connection)
        self.forget(connection)
        connection.transport.abort()

    def _make_room(self, pool: Iterable[Connection]) -> bool:
        for rank in (STRANGER, IDLE):
            if found := next((c for c in pool if c.rank == rank), None):
                self.drop(found, "made room")
                return True
        return False

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(islice((c for c in self._all if c.due < now), SWEPT)):
            self.drop(connection, "unheard" if connection.unheard else "late")
        unread = {c: c.transport.get_write_buffer_size() for c in self._all if c.flow.write_paused}
        excess = sum(unread.values()) - self.limits.unread_bytes
        for connection in sorted(unread, key=unread.__getitem__, reverse=True):
            if excess > 0:
                excess -= unread[connection]
                self.drop(connection, "unread")
        self._sweeping = bool(self._all)
        if self._sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


class Connection(HttpToolsProtocol):
    """One connection: uvicorn's, with a limit on its headers and a time by which it must get on."""

    def __init__(self, *args: Any, sockets: Sockets, **named: Any) -> None:
        super().__init__(*args, **named)
        self.sockets, self.limits = sockets, sockets.limits
        self.address = ""
        self.rank = STRANGER
        self.unheard = False  # a stranger's, of an address that was refused too often: it gets no answer
        self.due = math.inf  # the loop's time after which the sweep ends it; inf: the gate has it in hand
        self._known = False
        self._in_head = True
        self._seen = 0  # bytes of this head, or of the body after it as it came over the wire
        self._most_of_a_body = 2 * self.limits.body_bytes + PIECE  # chunked, with what lies between chunks

    # ------------------------------------------------------------- the connection's own events

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(UNREAD)
        self.address = network_of(self.client[0]) if self.client else ""
        self._wait_for_head()
        if not self.sockets.admit(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.sockets.forget(self)
        if self.scope is not None:
            self.scope.pop("simdx.connection", None)  # type: ignore[typeddict-item]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.unheard:
            self.flow.pause_reading()
            return
        self._unset_keepalive_if_required()
        view = memoryview(data)
        try:
            while view:
                if self.transport.is_closing():
                    return
                piece = view[:PIECE] if self._in_head else view
                self._seen += len(piece)
                self.parser.feed_data(piece)
                if self._seen > (self.limits.head_bytes if self._in_head else self._most_of_a_body):
                    raise _TooLarge
                view = view[len(piece) :]
        except _TooLarge:
            self._refuse(_HEAD_TOO_LARGE)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _Unheard):
                self._leave_unheard()
            else:
                self._refuse(_HEAD_TOO_LARGE if isinstance(error.__context__, _TooLarge) else _NOT_HTTP)
        except httptools.HttpParserUpgrade:  # to a protocol that is not served: answered as plain HTTP
            pass

    def pause_writing(self) -> None:
        super().pause_writing()
        self.due = self.loop.time() + self.limits.reply_seconds

    def resume_writing(self) -> None:
        super().resume_writing()
        self._wait_for_next()

    # ------------------------------------------------------------- the parser's events

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._seen, self._in_head = 0, True
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_head()
        self.scope["simdx.connection"] = self  # type: ignore[typeddict-unknown-key]

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= self.limits.head_count:
            raise _TooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            raise _TooLarge
        if self.sockets.is_blamed(self) and not self._is_heard():
            raise _Unheard
        self._seen, self._in_head = 0, False
        super().on_headers_complete()
        self._wait_for_next()

    def on_message_complete(self) -> None:
        self._seen, self._in_head = 0, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.rank = IDLE if self._known else STRANGER
        super().on_response_complete()
        self._wait_for_next()

    # ------------------------------------------------------------- what the gate says

    def known(self) -> None:
        """A caller with a valid token has a request under way."""
        self._known, self.rank = True, BUSY

    def blame(self) -> None:
        """The request was refused before its body was read."""
        self.sockets.blame(self)

    # ------------------------------------------------------------- beside them

    def _wait_for_head(self) -> None:
        self.due = self.loop.time() + self.limits.head_seconds

    def _wait_for_next(self) -> None:
        """No limit while a request is under way: the gate and the engine have theirs."""
        if self.flow.write_paused:  # the time for the reply runs
            return
        if self._under_way and not self.transport.is_closing():
            self.due = math.inf
            return
        # uvicorn closes an idle connection by then. What is there a second later has a reply nobody reads.
        self.due = self.loop.time() + max(self.limits.idle_seconds, self.limits.reply_seconds) + 1

    @property
    def _under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_heard(self) -> bool:
        said = next((value for name, value in self.headers if name == b"authorization"), b"")
        path = self.url.partition(b"?")[0]
        return self._under_way or self.sockets.heard(said.decode("latin-1"), path.decode("latin-1"))

    def _leave_unheard(self) -> None:
        self.unheard = True
        self.flow.pause_reading()
        self._wait_for_head()

    def _refuse(self, answer: bytes) -> None:
        if self._under_way:
            self.sockets.drop(self, "refused")  # an answer into the middle of another would be no answer
            return
        if self.sockets.is_blamed(self):
            self._leave_unheard()
            return
        self.blame()
        self.transport.write(answer)
        self.transport.close()


class _Unheard(Exception):
    """A stranger's request, from an address that was refused too often."""


class _TooLarge(Exception):
    """A head with too many bytes, or too many headers."""


def network_of(address: str) -> str:
    """Whose connections count together: an IPv4 address, or the /64 that an IPv6 host has to itself."""
    try:
        found = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))


def _raw(problem: Problem) -> bytes:
    body = dump(problem.body())
    head = (
        f"HTTP/1.1 {problem.status} {problem.body()['title']}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


_NOT_HTTP = _raw(Problem("bad-request", "This is not HTTP as it should be."))
_HEAD_TOO_LARGE = _raw(Problem("headers-too-large", "The request's headers are too long or too many."))
