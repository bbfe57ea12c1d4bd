"""What every request passes first and every response last, whatever the route: one small ASGI layer.

Host name, number of open requests, size and pace of the body on the way in; security headers, the
request's id, a count and a log line on the way out. An error nobody foresaw becomes a problem here, and
its message, which might quote a case, goes nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
import uuid
from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simdx.service.config import ServiceConfig
from simdx.service.meters import Meters
from simdx.service.problems import Problem

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
    }.items()
)


class Gate:
    def __init__(self, app: ASGIApp, config: ServiceConfig, meters: Meters) -> None:
        self._app, self._limits, self._meters = app, config.limits, meters
        self._hosts = config.host_names
        self._open = 0
        self._by_caller: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websocket is served
            await send({"type": "websocket.close", "code": 1003})
            return
        request = _Request(scope, send)
        caller = _who(scope)
        self._open += 1
        self._by_caller[caller] += 1
        self._meters.open.set(self._open)
        try:
            await self._serve(request, caller, receive)
        finally:
            self._open -= 1
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            self._meters.open.set(self._open)
            self._account(request)

    async def _serve(self, request: _Request, caller: str, receive: Receive) -> None:
        try:
            self._admit(request.scope, caller)
            body = await self._body(request.scope, receive)
            if body and not _is_json(request.scope):
                raise Problem("wrong-type", "Send the body as application/json.")
            if not _is_utf8(body):
                raise Problem("not-json", "The body is not UTF-8: send JSON encoded as UTF-8.")
            await self._app(request.scope, _Replay(body, receive), request.send)
        except Problem as problem:
            await self._refuse(request, problem)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error(
                "request %s failed: %s at %s:%s",
                request.id,
                type(error).__name__,
                where.filename,
                where.lineno,
            )
            await self._refuse(
                request,
                Problem("internal", f"An unforeseen failure; the log names it by request {request.id}."),
            )

    def _admit(self, scope: Scope, caller: str) -> None:
        if self._hosts is not None and _host(scope) not in self._hosts:
            raise Problem(
                "bad-host", "Name the service as it is bound, or start it with --allowed-host NAME."
            )
        if self._by_caller[caller] > self._limits.caller_requests:
            raise Problem(
                "too-many-requests", "You have too many requests open; wait for some.", retry_after=1
            )
        if self._open > self._limits.open_requests:
            raise Problem("overloaded", "Too many requests are open; try again.", retry_after=1)

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
        if declared in ("", "0") and not _header(scope, b"transfer-encoding"):
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
        if request.status == 0:
            response = problem.response(request.scope["path"])
            response.headers["connection"] = "close"  # the rest of a refused body is not read
            await response(request.scope, _nothing, request.send)

    def _account(self, request: _Request) -> None:
        route = getattr(request.scope.get("route"), "path", None) or "unmatched"
        elapsed = time.perf_counter() - request.started
        self._meters.requests.labels(route, str(request.status)).inc()
        self._meters.seconds.labels(route).observe(elapsed)
        if log.isEnabledFor(logging.INFO):
            log.info(
                "%s %s %s %d %.1f ms",
                request.id,
                request.scope["method"],
                route,
                request.status,
                elapsed * 1e3,
            )


class _Request:
    """One request's id and clock, and a `send` that adds our headers to whatever goes out."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope, self._send = scope, send
        self.id = uuid.uuid4().hex
        self.started = time.perf_counter()
        self.status = 0
        scope["simdx.request"] = self.id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            present = {name for name, _ in headers}
            headers += [pair for pair in HEADERS if pair[0] not in present]
            headers.append((b"x-request-id", self.id.encode("ascii")))
            if b"cache-control" not in present:
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await self._send(message)


class _Replay:
    """The body read before, once, and then whatever the connection says."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


async def _nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def _header(scope: Scope, name: bytes) -> str:
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_json(scope: Scope) -> bool:
    media = _header(scope, b"content-type").split(";")[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def _host(scope: Scope) -> str:
    host = _header(scope, b"host").lower()
    if host.startswith("["):
        return host.split("]")[0] + "]"
    return host.rsplit(":", 1)[0] if ":" in host else host


def _who(scope: Scope) -> str:
    """Whose open requests count together: a token's, or an address's."""
    client = scope.get("client")
    return _header(scope, b"authorization") or (client[0] if client else "")
