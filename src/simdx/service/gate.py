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
from collections.abc import Callable
from random import Random

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simdx.errors import BadInput, place_of
from simdx.service.auth import LOCAL, Caller, ClientKeys, TokenFile
from simdx.service.config import Limits
from simdx.service.wire import Meters, Problem, as_problem

log = logging.getLogger("simdx.service")

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CSP),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
    (b"cache-control", b"no-store"),
)
# What a proxy adds to a request, beside everything that starts with x-forwarded.
FORWARDING = frozenset(
    (b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"client-ip", b"true-client-ip", b"cf-connecting-ip",
     b"fastly-client-ip", b"x-cluster-client-ip", b"x-envoy-external-address", b"x-original-forwarded-for",
     b"x-original-host", b"x-proxyuser-ip", b"x-appengine-user-ip", b"x-azure-clientip")
)  # fmt: skip
REFUSALS = frozenset({"no-token", "bad-token", "wrong-scope", "wrong-panel", "forwarded"})
# For ids of requests, which are no secrets: each call of os.urandom would let the engine go first.
_IDS = Random(os.urandom(32))
# A string of JSON, skipped whole, or a character that begins another value.
_VALUE = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?|[,\[{]')


class Gate:
    """`on_refused(address, kind of problem)` hears of everyone not let in, as often as strangers like."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        meters: Meters,
        tokens: TokenFile | None,  # None: whoever reaches this machine may ask
        on_refused: Callable[[str, str], None] | None = None,
        clients: ClientKeys | None = None,
        public_url: str | None = None,
    ) -> None:
        self._app, self._limits, self._meters = app, limits, meters
        self._tokens, self._on_refused, self._clients = tokens, on_refused, clients
        self._public_url = (public_url or "").rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        number = scope["simdx.request"] = _IDS.randbytes(16).hex()

        async def out(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = (*HEADERS, (b"x-request-id", number.encode("ascii")))
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            await self._serve(scope, receive, out)
        except Exception as error:
            problem = as_problem(error)
            if problem.kind == "internal":
                log.error("request %s failed: %s", number, place_of(error))
            self._meters.refused.labels(problem.kind).inc()
            if self._on_refused is not None and problem.kind in REFUSALS:
                self._on_refused(scope["client"][0] if scope.get("client") else "", problem.kind)
            if status == 0:
                response = problem.response(scope["path"])
                if "simdx.body" not in scope:  # the rest of it is not read
                    response.headers["connection"] = "close"
                await response(scope, receive, out)
        route = getattr(scope.get("route"), "path", None) or "unmatched"
        elapsed = time.perf_counter() - started
        self._meters.requests.labels(route, str(status)).inc()
        self._meters.seconds.labels(route).observe(elapsed)
        log.info("%s %s %s %d %.1f ms", number, scope["method"], route, status, elapsed * 1e3)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"][::-1])  # the first of a name counts
        if self._tokens is None and any(
            name in FORWARDING or name.startswith(b"x-forwarded") for name in headers
        ):
            raise Problem(
                "forwarded",
                "This service asks for no tokens, so it answers callers on its own machine alone, and this "
                "request came through a proxy: start it with --require-token.",
            )
        empty = headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        try:
            scope["simdx.caller"] = await self._caller(authorization, scope["path"])
        except Problem as problem:
            if not (empty and scope["method"] in ("GET", "HEAD", "OPTIONS")):
                raise
            scope["simdx.caller"] = problem  # some addresses are open to everybody
        if not empty and b"upgrade" in headers:  # uvicorn's parser reads no body behind it
            raise Problem("bad-request", "Only HTTP/1.1 is served: send the body without an Upgrade header.")
        scope["simdx.body"] = b"" if empty else await self._read(headers, receive)
        await self._app(scope, receive, send)

    async def _caller(self, authorization: str, path: str) -> Caller:
        """Who sends this header."""
        if self._tokens is None:
            return LOCAL
        if not authorization:
            raise Problem("no-token", "Send 'Authorization: Bearer TOKEN'; 'simdx token new' makes one.")
        kind, _, text = authorization.partition(" ")
        text = text.strip() if kind.lower() == "bearer" else ""
        # Only CDS Hooks has calls that a record system signs.
        if self._clients and text.count(".") == 2 and path.startswith("/cds-services/"):
            client = await self._clients.check(text, self._public_url + path, time.time())
            return Caller(client.issuer, ("classify",), client.panels)
        try:
            caller = self._tokens.check(text)
        except BadInput as error:
            log.error("%s", error)
            said = "The token file cannot be read; the log says which."
            raise Problem("not-ready", said, retry_after=5) from None
        if caller is None:
            raise Problem("bad-token", "The token is unknown, expired or revoked.")
        return caller

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        media = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if not re.fullmatch(rb"application/(.*\+)?json", media):
            raise Problem("wrong-type", "Send the body as application/json.")
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 19:  # thousands of digits cannot be read at all
            raise Problem("bad-request", "The content length is not a number.")
        most, body, more = self._limits.body_bytes, bytearray(), True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more and max(len(body), int(declared)) <= most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("bad-request", "The connection closed before the body ended.")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Problem("slow-body", "The body did not arrive in time.") from None
        if max(len(body), int(declared)) > most:
            raise Problem("too-large", f"A body is at most {most:,} bytes; send fewer or shorter texts.")
        if has_more_values(body, self._limits.body_values):
            raise Problem("too-large", f"A body has at most {self._limits.body_values:,} values.")
        return bytes(body)


def has_more_values(body: bytes | bytearray, most: int) -> bool:
    """Does this JSON hold more values than that? Looked at before any of them is made."""
    if sum(map(body.count, (b",", b"[", b"{"))) < most:  # inside strings too: enough for most bodies
        return False
    marks = (m for m in _VALUE.finditer(body) if not m[0].startswith(b'"'))
    return any(count > most for count, _ in enumerate(marks, 1))
