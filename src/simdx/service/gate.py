"""What every request passes first and every response last: one small ASGI layer.

On the way in: who is calling, then the body, within a size, a number of values and a time. A stranger's body
is not read. On the way out: security headers, the request's id, a count and a log line. An unforeseen error
becomes a problem here; its message, which might quote a case, goes nowhere. Slow heads, idle sockets and
request rates are nginx's work (deploy/nginx.conf).
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Mapping
from random import Random

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simdx.errors import place_of
from simdx.service.auth import Guard
from simdx.service.config import Limits
from simdx.service.meters import Meters
from simdx.service.problems import Problem, as_problem

log = logging.getLogger("simdx.service")

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
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
]
# What a proxy adds to a request, beside everything that starts with x-forwarded.
FORWARDING = frozenset(
    ("forwarded", "via", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "cf-connecting-ip",
     "fastly-client-ip", "x-cluster-client-ip", "x-envoy-external-address", "x-original-forwarded-for",
     "x-original-host", "x-proxyuser-ip", "x-appengine-user-ip", "x-azure-clientip")
)  # fmt: skip
# For ids of requests, which are no secrets: each call of os.urandom would let the engine go first.
_IDS = Random(os.urandom(32))
# A string of JSON, skipped whole, or a character that begins another value.
_VALUE = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?|[,\[{]')


class Gate:
    def __init__(self, app: ASGIApp, limits: Limits, meters: Meters, guard: Guard) -> None:
        self._app, self._limits, self._meters, self._guard = app, limits, meters, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        number = scope["simdx.request"] = _IDS.randbytes(16).hex()

        async def out(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], [*message.get("headers", ())]
                present = {name for name, _ in headers}
                headers += [pair for pair in HEADERS if pair[0] not in present]
                message = {**message, "headers": [*headers, (b"x-request-id", number.encode("ascii"))]}
            await send(message)

        try:
            await self._serve(scope, receive, out)
        except Exception as error:
            problem = as_problem(error)
            if problem.kind == "internal":
                log.error("request %s failed: %s", number, place_of(error))
            self._meters.refused.labels(problem.kind).inc()
            self._guard.refused(scope["client"][0] if scope.get("client") else "", problem.kind)
            if status == 0:
                response = problem.response(scope["path"])
                if "simdx.body" not in scope:  # the rest of it is not read
                    response.headers["connection"] = "close"
                await response(scope, receive, out)
        route, elapsed = getattr(scope.get("route"), "path", None), time.perf_counter() - started
        self._meters.requests.labels(route or "unmatched", str(status)).inc()
        self._meters.seconds.labels(route or "unmatched").observe(elapsed)
        log.info("%s %s %s %d %.1f ms", number, scope["method"], route or "unmatched", status, elapsed * 1e3)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        # `Headers` would decode and search the list at each question. The first of a name counts.
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"][::-1]}
        if not self._guard.asks_for_tokens and any(
            name in FORWARDING or name.startswith("x-forwarded") for name in headers
        ):
            raise Problem(
                "forwarded",
                "This service asks for no tokens, so it answers callers on its own machine alone, and this "
                "request came through a proxy: start it with --require-token.",
            )
        who = scope["simdx.caller"] = await self._guard.identify(
            headers.get("authorization", ""), scope["path"]
        )
        empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        if isinstance(who, Problem) and not (empty and scope["method"] in ("GET", "HEAD", "OPTIONS")):
            raise who
        if not empty and "upgrade" in headers:  # uvicorn's parser reads no body behind it
            raise Problem("bad-request", "Only HTTP/1.1 is served: send the body without an Upgrade header.")
        body = b"" if empty else await self._read(headers, receive)
        scope["simdx.body"] = body
        await self._app(scope, receive, send)

    async def _read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        media = headers.get("content-type", "").split(";")[0].strip().lower()
        if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
            raise Problem("wrong-type", "Send the body as application/json.")
        most, size, parts = self._limits.body_bytes, 0, []
        declared = headers.get("content-length", "0")
        # "²" is a digit too, and a number of thousands of digits cannot be read at all.
        if not (declared.isascii() and declared.isdigit() and len(declared) < 20):
            raise Problem("bad-request", "The content length is not a number.")
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                more = True
                while more and max(size, int(declared)) <= most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("bad-request", "The connection closed before the body ended.")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
        except TimeoutError:
            raise Problem("slow-body", "The body did not arrive in time.") from None
        if max(size, int(declared)) > most:
            raise Problem("too-large", f"A body is at most {most:,} bytes; send fewer or shorter texts.")
        body = b"".join(parts)
        if has_more_values(body, self._limits.body_values):
            raise Problem("too-large", f"A body has at most {self._limits.body_values:,} values.")
        return body


def has_more_values(body: bytes, most: int) -> bool:
    """Does this JSON hold more values than that? Looked at before any of them is made."""
    if sum(map(body.count, (b",", b"[", b"{"))) < most:  # inside strings too: enough for most bodies
        return False
    marks = (m for m in _VALUE.finditer(body) if not m[0].startswith(b'"'))
    return any(count > most for count, _ in enumerate(marks, 1))
