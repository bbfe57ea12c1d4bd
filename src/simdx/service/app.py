"""The application: everything loaded, every route mounted, every error a problem."""

import asyncio
import contextlib
import hmac
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
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
from simdx.service import cds, fhir, own_panels, routes, schemas, systemone
from simdx.service.audit import CHECKPOINT_SECONDS, AuditKey, AuditStore, AuditUnavailable
from simdx.service.auth import HEALTH, Guard, TokenFile
from simdx.service.batching import Batcher
from simdx.service.cds_clients import ClientKeys
from simdx.service.config import BACKLOG, Limits, ServiceConfig, checkpoint_file
from simdx.service.gate import Gate
from simdx.service.meters import Meters
from simdx.service.problems import FHIR_BASE, SCHEMA, as_problem, documented
from simdx.service.record_servers import RecordServers
from simdx.service.registry import Registry
from simdx.service.state import AppState
from simdx.service.wire import Json, dump

log = logging.getLogger("simdx.service")
TEND_SECONDS = CHECKPOINT_SECONDS
# The framework would send telemetry about requests wherever an environment variable says. It is off: /metrics
# and the log hold all that may be known outside.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
DESCRIPTION = (
    "Calibrated probabilities of a panel's labels and of none of these, from simulated texts. "
    "Every refusal is a problem+json body whose type says what to do."
)

BODIES = (schemas.ClassifyBody, schemas.AskBody, schemas.FeedbackBody, schemas.FhirBody, cds.Invocation,
          cds.Feedback, systemone.SystemOneBody)  # fmt: skip
OPEN = {*HEALTH, "/cds-services", f"{FHIR_BASE}/metadata"}  # no token is asked for there
_REF = "#/components/schemas/{model}"


def create_app(config: ServiceConfig, registry: Registry | None = None) -> FastAPI:
    """Load panels, banks and models, open the audit log, and put the routes around them.

    A registry loaded before for the same panels can be given, so that several applications share it.
    """
    tokens = TokenFile(Path(config.token_file)) if config.tokens_needed else None
    clients = ClientKeys(config.cds_clients) if config.cds_clients else None
    if tokens is not None and clients is None and not tokens.list():
        raise BadInput(
            "the service needs tokens when it is bound off loopback, has a --public-url or --allowed-host, "
            "or is started with --require-token: make one with 'simdx token new NAME'"
        )
    audit = _open_audit(config)
    # Replicas share the audit key, so a preview may be asked of another one than gave the answer.
    secret = Path(config.audit_key).read_bytes() if audit else os.urandom(32)
    meters, registry = Meters(), registry or Registry(config)
    batcher = Batcher(
        registry.get, (lambda entries: audit.append(entries)) if audit else (lambda entries: None), meters,
        config.limits,
    )  # fmt: skip
    guard = Guard(tokens, audit.note_refusal if audit else None, clients, config.public_url)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        stop = asyncio.Event()
        tending = asyncio.create_task(_tend(audit, stop)) if audit is not None else None
        try:
            yield
        finally:
            batcher.close()
            app.state.workshop.close()
            if audit is not None and tending is not None:
                stop.set()
                await tending
                try:
                    await asyncio.to_thread(audit.close)
                except AuditUnavailable as error:
                    log.error("the audit log was closed in disorder: %s", error)

    # Our own pages only: the framework's documentation pages load scripts from another host.
    app = FastAPI(
        title="simdx", version=__version__, description=DESCRIPTION, lifespan=lifespan, docs_url=None,
        redoc_url=None, openapi_url=None, redirect_slashes=False, telemetry=NO_TELEMETRY,
    )  # fmt: skip
    app.state.simdx = AppState(
        config, registry, batcher, guard, meters, audit,
        RecordServers(config.fhir_servers, config.limits), hmac.digest(secret, b"simdx preview", "sha256"),
    )  # fmt: skip
    app.state.workshop = systemone.Workshop(config.embedder, config.allow_remote, config.limits)
    for router in (routes.router, own_panels.router, systemone.router, cds.router, fhir.router):
        app.include_router(router)
    # The page, from the package: no template and no build step.
    app.mount("/static", page := StaticFiles(packages=[("simdx.service", "static")]))

    async def index(request: Request) -> Response:
        return await page.get_response("index.html", request.scope)

    app.add_api_route("/", index, include_in_schema=False)
    for kind in (HTTPException, RequestValidationError):  # the framework would answer them in its own form
        app.add_exception_handler(kind, _to_the_gate)
    app.openapi = cache(lambda: _openapi(app, config.tokens_needed))  # type: ignore[method-assign]
    described = cache(lambda: dump(app.openapi()))  # anybody may ask for it, so it is written once

    async def openapi() -> Response:
        return Json(described())

    app.add_api_route("/openapi.json", openapi, include_in_schema=False)
    app.add_middleware(HotRoute)
    app.add_middleware(KnownHosts, allowed_hosts=config.host_names, www_redirect=False)
    app.add_middleware(Gate, limits=config.limits, meters=meters, guard=guard)
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
    """Takes POST /v1/classify past the framework's router and resolver, which cost half an answer."""

    route = next(route for route in routes.router.routes if getattr(route, "path", "") == routes.CLASSIFY)

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != routes.CLASSIFY or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self.route  # for the meters
        response = await routes.classify(Request(scope))
        await response(scope, receive, send)


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


def _open_audit(config: ServiceConfig) -> AuditStore | None:
    if config.audit_url == "none":
        return None
    key = AuditKey.from_file(Path(config.audit_key), create=True)
    noted = config.audit_checkpoints or checkpoint_file(config.audit_url, Path(config.audit_key))
    audit = AuditStore(config.audit_url, key, checkpoints=noted)
    audit.checkpoint()  # a log that contradicts its last checkpoint is not written to
    return audit


async def _tend(audit: AuditStore, stop: asyncio.Event) -> None:
    """Once a second: note a checkpoint of new records, and record refusals."""
    failing = False
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TEND_SECONDS)
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
    bodies = models_json_schema([(model, "validation") for model in BODIES], ref_template=_REF)[1]["$defs"]
    parts["schemas"] |= {**bodies, "Problem": SCHEMA}
    # The framework documents its own error shape, which this service never sends.
    for unused in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(unused, None)
    parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = documented(path)
            if tokens_needed and path not in OPEN:
                operation["security"] = [{"bearer": []}]
    return schema
