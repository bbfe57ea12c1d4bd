"""The application: everything loaded, every route mounted, every error a problem; and running it."""

import asyncio
import contextlib
import gc
import hmac
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from simdx import __version__
from simdx.errors import BadInput
from simdx.service import cds, fhir, routes, systemone
from simdx.service.audit import CHECKPOINT_SECONDS, AuditStore
from simdx.service.audit_chain import AuditKey, AuditUnavailable
from simdx.service.auth import ClientKeys, TokenFile
from simdx.service.batching import Batcher
from simdx.service.config import Limits, ServiceConfig, checkpoint_file
from simdx.service.gate import Gate
from simdx.service.made import Workshop
from simdx.service.state import AppState, Registry, refuse_remote
from simdx.service.wire import BODIES, FHIR_BASE, REFUSALS, SCHEMA, Meters, as_problem

log = logging.getLogger("simdx.service")
BACKLOG = 1_024  # connections the kernel keeps until they are accepted
HEALTH = ("/healthz", "/readyz")  # open to anybody: an orchestrator's probes carry no token
OPEN = {*HEALTH, "/cds-services", f"{FHIR_BASE}/metadata"}  # no token is asked for there
DESCRIPTION = (
    "Calibrated probabilities of a panel's labels and of none of these, from simulated texts. "
    "Every refusal is a problem+json body whose type says what to do."
)
# The framework would send telemetry about requests wherever an environment variable says. It is off: /metrics
# and the log hold all that may be known outside.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(config: ServiceConfig, registry: Registry | None = None) -> FastAPI:
    """Load panels, banks and models, open the audit log, and put the routes around them.

    A registry loaded before for the same panels can be given, so that several applications share it.
    """
    tokens = TokenFile(config.token_file) if config.tokens_needed else None
    clients = ClientKeys(config.cds_clients) if config.cds_clients else None
    if tokens is not None and clients is None and not tokens.list():
        raise BadInput(
            "the service needs tokens when it is bound off loopback, has a --public-url or --allowed-host, "
            "or is started with --require-token: make one with 'simdx token new NAME'"
        )
    audit = _open_audit(config)
    # Replicas share the audit key, so a preview may be asked of another one than gave the answer.
    secret = config.audit_key.read_bytes() if audit else os.urandom(32)
    meters, registry, workshop = Meters(), registry or Registry(config), Workshop(config)
    batcher = Batcher(registry.get, audit.append if audit else None, meters, config.limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        stop = asyncio.Event()
        tending = asyncio.create_task(_tend(audit, stop)) if audit else None
        try:
            yield
        finally:
            await batcher.close()
            workshop.close()
            if audit and tending:
                stop.set()
                await tending
                try:
                    await asyncio.to_thread(audit.close)
                except AuditUnavailable as error:
                    log.error("the audit log was closed in disorder: %s", error)

    # Our own pages only: the framework's documentation pages load scripts from another host.
    app = FastAPI(
        title="simdx", version=__version__, description=DESCRIPTION, lifespan=lifespan, docs_url=None,
        redoc_url=None, redirect_slashes=False, telemetry=NO_TELEMETRY, responses=REFUSALS,
    )  # fmt: skip
    app.state.simdx = AppState(
        config, registry, batcher, meters, audit, workshop, hmac.digest(secret, b"simdx preview", "sha256")
    )
    for router in (routes.router, systemone.router, cds.router, fhir.router):
        app.include_router(router)
    # The page, from the package: no template and no build step.
    app.mount("/static", page := StaticFiles(packages=[("simdx.service", "static")]))

    async def index(request: Request) -> Response:
        return await page.get_response("index.html", request.scope)

    app.add_api_route("/", index, include_in_schema=False)
    for kind in (HTTPException, RequestValidationError):  # the framework would answer them in its own form
        app.add_exception_handler(kind, _to_the_gate)
    app.openapi = cache(lambda: _openapi(app, config.tokens_needed))  # type: ignore[method-assign]
    app.add_middleware(HotRoute)
    app.add_middleware(KnownHosts, allowed_hosts=config.host_names, www_redirect=False)
    app.add_middleware(
        Gate, limits=config.limits, meters=meters, tokens=tokens, clients=clients,
        on_refused=audit.note_refusal if audit else None, public_url=config.public_url,
    )  # fmt: skip
    # Around the gate, so that a page of a named origin can read the gate's refusals too.
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(config.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"], expose_headers=["Simdx-Answer", "Retry-After"],
        )  # fmt: skip
    return app


class KnownHosts(TrustedHostMiddleware):
    """Health probes are answered under any host name: an orchestrator calls a pod by its address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        known = scope.get("path") in HEALTH
        await (self.app(scope, receive, send) if known else super().__call__(scope, receive, send))


class HotRoute:
    """Takes POST /v1/classify past the framework's router and resolver: half the cost beside the engine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hot = scope["type"] == "http" and scope["path"] == routes.CLASSIFY and scope["method"] == "POST"
        answer = await routes.classify(Request(scope)) if hot else self._app
        await answer(scope, receive, send)


def server_for(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """uvicorn with its own limits. It does not listen yet."""
    return uvicorn.Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, log_level="error", server_header=False, ws="none",
            http="httptools", limit_concurrency=limits.connections, backlog=BACKLOG,
            timeout_keep_alive=limits.idle_seconds, timeout_graceful_shutdown=10,
            proxy_headers=False,  # a caller's address is its peer's, not what a header says
        )
    )  # fmt: skip


def serve(config: ServiceConfig, announce: Callable[[str], None], access_log: bool = False) -> None:
    """Bind, load, answer until interrupted. Raises BadInput for what the operator can mend."""
    refuse_remote(config)
    with _listening(config.host, config.port) as listener:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
        logging.basicConfig(handlers=[handler])
        logging.getLogger("simdx.service").setLevel(logging.INFO if access_log else logging.WARNING)
        if sys.stderr.isatty():  # a person waits some seconds here; a log has no use for it
            announce("loading panels and their banks …")
        app = create_app(config)
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        announce(plain(f"simdx service on {url} (panels: {', '.join(app.state.simdx.registry.names)})"))
        # uvicorn re-raises the signal that stopped it; a stop by SIGTERM is an orderly end, not a failure.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        # The engine lets go of the interpreter at every product of matrices, and beside a busy event loop
        # would get it back after 5 ms each time.
        sys.setswitchinterval(0.0005)
        gc.freeze()  # what is loaded stays
        server_for(app, config.limits).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]  # the address is said once
        raise BadInput(
            f"cannot listen on {host} port {port}: {why}; choose another with --port "
            "(0 takes a free one) or --host"
        ) from None


def plain(text: str) -> str:
    """The text with control characters, line ends aside, as escapes: nothing in it steers a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


def _open_audit(config: ServiceConfig) -> AuditStore | None:
    if config.audit_url == "none":
        return None
    key = AuditKey.from_file(config.audit_key, create=True)
    noted = config.audit_checkpoints or checkpoint_file(config.audit_url, config.audit_key)
    audit = AuditStore(config.audit_url, key, checkpoints=noted)
    audit.checkpoint()  # a log that contradicts its last checkpoint is not written to
    return audit


async def _tend(audit: AuditStore, stop: asyncio.Event) -> None:
    """Once a second: note a checkpoint of new records, and record refusals."""
    failing = False
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), CHECKPOINT_SECONDS)
        try:
            await asyncio.to_thread(audit.tend)
            failing = False
        except AuditUnavailable as error:
            if not failing:  # once for each outage
                log.error("%s", error)
            failing = True


async def _to_the_gate(request: Request, error: Exception) -> Response:
    raise as_problem(error)


def _openapi(app: FastAPI, tokens_needed: bool) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    parts = schema["components"]
    asked: Any = [(model, "validation") for model in BODIES]
    _, bodies = models_json_schema(asked, ref_template="#/components/schemas/{model}")
    parts["schemas"] |= {**bodies["$defs"], "Problem": SCHEMA}
    parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, methods in schema["paths"].items():
        for operation in methods.values() if tokens_needed and path not in OPEN else ():
            operation["security"] = [{"bearer": []}]
    return schema
