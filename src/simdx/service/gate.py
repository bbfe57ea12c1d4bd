"""What every request passes first and every response last, whatever the route: one small ASGI layer.

Host name, caller, number and rate of requests, size and pace of the body on the way in; security headers,
the request's id, a count and a log line on the way out. Who is calling is known before a byte of a body is
read: a stranger's is not. An error nobody foresaw becomes a problem here, and its message, which might quote
a case, goes nowhere.
"""

import asyncio
import ipaddress
import logging
import math
import time
import uuid
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simdx.errors import place_of
from simdx.service.auth import HEALTH, Caller, Guard
from simdx.service.config import ServiceConfig
from simdx.service.meters import Meters
from simdx.service.problems import Problem
from simdx.service.rates import Rate
from simdx.service.wire import again

log = logging.getLogger("simdx.service")

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = tuple(
    (name.encode("ascii"), value.encode("ascii"))
    for name, value in {
        "content-security-policy": CSP,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
        "cache-control": "no-store",
    }.items()
)
PAGES_SECONDS = 3.0  # worth of a stranger's requests at once: the page has sixteen files
# What a proxy adds to a request, beside everything that starts with x-forwarded.
FORWARDING = frozenset(
    name.encode("ascii")
    for name in (
        "forwarded", "via", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "cf-connecting-ip",
        "fastly-client-ip", "x-cluster-client-ip", "x-envoy-external-address", "x-original-forwarded-for",
        "x-original-host", "x-proxyuser-ip", "x-appengine-user-ip", "x-azure-clientip",
    )
)  # fmt: skip


class _Request:
    """One request's id and clock, and a `send` that adds our headers to whatever goes out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self.receive, self._send = scope, receive, send
        self.id = uuid.uuid4().hex
        self.started = time.perf_counter()
        self.status = 0
        scope["simdx.request"] = self.id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.id.encode("ascii"))]
            present = {name for name, _ in headers}
            headers += [pair for pair in HEADERS if pair[0] not in present]
            message = {**message, "headers": headers}
        await self._send(message)


class Gate:
    def __init__(self, app: ASGIApp, config: ServiceConfig, meters: Meters, guard: Guard) -> None:
        self._app, self._meters, self._guard = app, meters, guard
        limits = self._limits = config.limits
        self._hosts = config.host_names
        self._rate = Rate(limits.rate if guard.asks_for_tokens else 0)
        # Behind a proxy, where addresses are not limited, they are nobody's.
        self._stranger_rate = Rate(limits.stranger_rate if limits.address_sockets else 0, PAGES_SECONDS)
        self._open = self._strangers = 0
        self._by_caller: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websocket is served
            await send({"type": "websocket.close", "code": 1003})
            return
        request = _Request(scope, receive, send)
        who = scope["simdx.caller"] = self._guard.identify(_header(scope, b"authorization"))
        stranger = isinstance(who, Problem)
        # What was only claimed counts for nothing: made-up tokens share their address's places.
        place = address_of(scope) if isinstance(who, Problem) else f"token {who.id}"
        self._open += 1
        self._strangers += stranger
        self._by_caller[place] += 1
        self._meters.open.set(self._open)
        try:
            await self._serve(request, place)
        finally:
            self._open -= 1
            self._strangers -= stranger
            self._by_caller[place] -= 1
            if not self._by_caller[place]:
                del self._by_caller[place]
            self._meters.open.set(self._open)
            self._account(request)

    async def _serve(self, request: _Request, place: str) -> None:
        try:
            await self._look_at_signature(request.scope, place)
            self._admit(request.scope, place)
            body = await self._body(request.scope, request.receive)
            if body and not _is_json(request.scope):
                raise Problem("wrong-type", "Send the body as application/json.")
            try:
                body.decode("utf-8")
            except UnicodeDecodeError:
                raise Problem("not-json", "The body is not UTF-8: send JSON encoded as UTF-8.") from None
            whole = {"type": "http.request", "body": body, "more_body": False}
            await self._app(request.scope, again(whole, request.receive), request.send)
        except Problem as problem:
            await self._refuse(request, problem)
        except Exception as error:
            log.error("request %s failed: %s", request.id, place_of(error))
            said = f"An unforeseen failure; the log names it by request {request.id}."
            await self._refuse(request, Problem("internal", said))

    async def _look_at_signature(self, scope: Scope, place: str) -> None:
        """Who signed the call, where it is one. Until that is known it has its address's place."""
        authorization, path = _header(scope, b"authorization"), scope["path"]
        if not self._guard.is_signed(authorization, path):
            return
        self._count(place, self._limits.caller_requests)
        scope["simdx.caller"] = await self._guard.signed_by(authorization, path)

    def _admit(self, scope: Scope, place: str) -> None:
        who, health = scope["simdx.caller"], scope["path"] in HEALTH
        self._check_way(scope, health)
        asks = scope["method"] in ("GET", "HEAD", "OPTIONS") and not _has_body(scope)
        if isinstance(who, Problem) and not asks:
            raise who
        if health:  # a probe must not be told that the service is busy: that would have it killed
            return
        known, limits = isinstance(who, Caller), self._limits
        self._count(place, limits.caller_requests if known else limits.stranger_requests)
        # Strangers have half of the house at most: whoever has a token finds room.
        if self._open > limits.open_requests or self._strangers > limits.open_requests // 2:
            raise Problem("overloaded", "Too many requests are open; try again.", retry_after=1)
        wait = self._rate.wait(who.id) if known else self._stranger_rate.wait(place)
        if wait:
            raise Problem("too-many-requests", "You ask too fast; wait.", retry_after=math.ceil(wait))
        if known and (connection := scope.get("simdx.connection")):
            connection.known()

    def _count(self, place: str, most: int) -> None:
        if self._by_caller[place] > most:
            raise Problem(
                "too-many-requests", "You have too many requests open; wait for some.", retry_after=1
            )

    def _check_way(self, scope: Scope, health: bool) -> None:
        """Did the request come by a name, and by a way, that this service is to be reached by?"""
        host = _host(scope)
        # A probe names a pod by its address. No web page can: re-pointing (see host_names) needs a name.
        if self._hosts is not None and host not in self._hosts and not (health and _is_address(host)):
            raise Problem(
                "bad-host", "Name the service as it is bound, or start it with --allowed-host NAME."
            )
        if not self._guard.asks_for_tokens and any(
            name in FORWARDING or name.startswith(b"x-forwarded") for name, _ in scope["headers"]
        ):
            raise Problem(
                "forwarded",
                "This service asks for no tokens, so it answers callers on its own machine alone, and this "
                "request came through a proxy: start it with --require-token.",
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, refused as soon as it is known to be too large or comes too slowly."""
        large = Problem(
            "too-large", f"A body is at most {self._limits.body_bytes:,} bytes; send fewer or shorter texts."
        )
        declared = _header(scope, b"content-length")
        # "²" is a digit too, and a number of thousands of digits cannot be read at all.
        if declared and not (declared.isascii() and declared.isdigit() and len(declared) < 20):
            raise Problem("bad-request", "The content length is not a number.")
        if declared and int(declared) > self._limits.body_bytes:
            raise large
        if not _has_body(scope):
            return b""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("bad-request", "The connection closed before the body ended.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._limits.body_bytes:
                        raise large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Problem("slow-body", "The body did not arrive in time.") from None

    async def _refuse(self, request: _Request, problem: Problem) -> None:
        self._meters.refused.labels(problem.kind).inc()
        self._guard.refused(address_of(request.scope), problem.kind)
        if problem.status < 500 and (connection := request.scope.get("simdx.connection")):
            connection.blame()
        if request.status == 0:
            response = problem.response(request.scope["path"])
            response.headers["connection"] = "close"  # the rest of a refused body is not read
            await response(request.scope, request.receive, request.send)

    def _account(self, request: _Request) -> None:
        route = getattr(request.scope.get("route"), "path", None) or "unmatched"
        elapsed = time.perf_counter() - request.started
        self._meters.requests.labels(route, str(request.status)).inc()
        self._meters.seconds.labels(route).observe(elapsed)
        if log.isEnabledFor(logging.INFO):
            told = (request.id, request.scope["method"], route, request.status, elapsed * 1e3)
            log.info("%s %s %s %d %.1f ms", *told)


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _is_json(scope: Scope) -> bool:
    media = _header(scope, b"content-type").split(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def _host(scope: Scope) -> str:
    host = _header(scope, b"host").lower()
    if host.startswith("["):
        return host.split("]")[0] + "]"
    return host.rsplit(":", 1)[0] if ":" in host else host


def _has_body(scope: Scope) -> bool:
    return _header(scope, b"content-length") not in ("", "0") or bool(_header(scope, b"transfer-encoding"))


def _is_address(host: str) -> bool:
    try:
        return host in ("", "localhost") or bool(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return False


def address_of(scope: Scope) -> str:
    """The peer's address; never what a header says it is."""
    client = scope.get("client")
    return client[0] if client else ""
