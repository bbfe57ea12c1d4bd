"""The application: everything loaded, every route mounted, every error a problem."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from simdx import __version__
from simdx.errors import BadInput
from simdx.service import record_systems, routes
from simdx.service.audit import AuditKey, AuditStore, AuditUnavailable
from simdx.service.audit.checkpoints import CHECKPOINT_SECONDS
from simdx.service.auth import Guard, TokenFile
from simdx.service.batching import Batcher
from simdx.service.cds_clients import ClientKeys
from simdx.service.config import ServiceConfig, checkpoint_file
from simdx.service.gate import Gate, address_of
from simdx.service.house import House, Readiness
from simdx.service.meters import Meters
from simdx.service.observations import ObservationCache
from simdx.service.problems import RESPONSE_SCHEMA, Problem, from_status, from_validation
from simdx.service.record_servers import RecordServers
from simdx.service.registry import Registry
from simdx.service.straight import Straight
from simdx.service.wire import Json, dump
from simdx.service.workers import Worker

log = logging.getLogger("simdx.service")
TEND_SECONDS = CHECKPOINT_SECONDS
# The framework's own, which a variable of the environment would send elsewhere: what it says of a request
# is not ours to give. /metrics and the log say what may be said.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
DESCRIPTION = (
    "Calibrated posteriors over a closed panel of diagnoses, from simulations by a language model. "
    "Every refusal is a problem+json body whose type says what to do."
)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


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
    audit = None
    if config.audit_url != "none":
        key = AuditKey.from_file(Path(config.audit_key), create=True)
        noted = config.audit_checkpoints or checkpoint_file(config.audit_url, Path(config.audit_key))
        audit = AuditStore(config.audit_url, key, checkpoints=noted)
        audit.resume()
    meters = Meters()
    workers = [Worker(config) for _ in range(config.workers)]  # they load while this process does
    try:
        registry = registry or Registry(config)
        for worker in workers:
            worker.ready(registry.served)
    except BaseException:
        for worker in workers:
            worker.close(0)
        raise
    limits = config.limits
    batcher = Batcher(
        registry.get, (lambda entries: audit.append(entries)) if audit else (lambda entries: None), meters,
        batch_texts=limits.batch_texts, waiting_texts=limits.waiting_texts, seconds=limits.seconds,
        explained_texts=limits.explained_texts, workers=workers,
    )  # fmt: skip
    guard = Guard(tokens, audit.note_refusal if audit else None, clients, config.public_url)
    observations = ObservationCache(limits.observations, limits.observation_seconds)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        stop = asyncio.Event()
        tending = asyncio.create_task(_tend(audit, stop)) if audit is not None else None
        try:
            yield
        finally:
            batcher.close()
            for worker in workers:
                worker.close()
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
    app.state.house = House(
        config, registry, batcher, observations, guard, meters, audit, Readiness(audit),
        RecordServers(config.fhir_servers, limits),
    )  # fmt: skip
    app.include_router(routes.router)
    app.include_router(record_systems.router)
    _mount_page(app)
    _answer_errors(app)
    app.openapi = cache(lambda: _openapi(app, config.tokens_needed))  # type: ignore[method-assign]
    described = cache(lambda: dump(app.openapi()))  # everyone may ask for it: it is written once

    async def openapi() -> Response:
        return Json(described())

    app.add_api_route("/openapi.json", openapi, include_in_schema=False)
    app.add_middleware(Straight, guard=guard, handlers=app.exception_handlers)
    app.add_middleware(Gate, config=config, meters=meters, guard=guard)
    # Around the gate, so that a page of a named origin can read the gate's refusals too.
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(config.cors_origins), allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"], expose_headers=["Simdx-Answer", "Retry-After"],
        )  # fmt: skip
    return app


def _mount_page(app: FastAPI) -> None:
    """The page's files, from the package, read once: `/` is index.html, the rest lies under /static/.

    No template and no build step: what is there is served.
    """
    files = {
        item.name: item.read_bytes()
        for item in (resources.files("simdx.service") / "static").iterdir()
        if item.name.rsplit(".", 1)[-1] in _TYPES
    }
    tags = {name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in files.items()}

    def send(name: str, request: Request) -> Response:
        # Revalidated at every load: after an upgrade no page runs with last week's script.
        headers = {"etag": tags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(files[name], headers={**headers, "content-type": _TYPES[name.rsplit(".", 1)[-1]]})

    async def index(request: Request) -> Response:
        return send("index.html", request)

    async def static(name: str, request: Request) -> Response:
        if name not in files:
            raise Problem("not-found", "There is no such file.")
        return send(name, request)

    app.add_api_route("/", index, include_in_schema=False)
    app.add_api_route("/static/{name}", static, include_in_schema=False)


async def _tend(audit: AuditStore, stop: asyncio.Event) -> None:
    """Once a second, asked or not: records get their checkpoint, refusals their record."""
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


def _answer_errors(app: FastAPI) -> None:
    house: House = app.state.house

    def answer(kind: type[Exception], problem_of: Callable[[Any], Problem]) -> None:
        async def handler(request: Request, error: Exception) -> Response:
            problem = problem_of(error)
            house.meters.refused.labels(problem.kind).inc()
            house.guard.refused(address_of(request.scope), problem.kind)
            return problem.response(request.url.path)

        app.add_exception_handler(kind, handler)

    unrecorded = "No answer leaves without its record; try again."
    answer(Problem, lambda problem: problem)
    answer(RequestValidationError, lambda error: from_validation(error.errors()))
    answer(HTTPException, lambda error: from_status(error.status_code, error.headers))
    answer(BadInput, lambda error: Problem("bad-input", str(error)))
    answer(AuditUnavailable, lambda error: Problem("audit-unavailable", unrecorded, retry_after=5))


def _openapi(app: FastAPI, tokens_needed: bool) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    parts = schema["components"]
    parts["schemas"]["Problem"] = RESPONSE_SCHEMA
    # The framework documents its own error shape, which this service never sends.
    for unused in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(unused, None)
    parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for operation in (o for methods in schema["paths"].values() for o in methods.values()):
        if "401" not in operation["responses"]:
            continue
        if tokens_needed:
            operation["security"] = [{"bearer": []}]
        else:
            for status in ("401", "403"):
                operation["responses"].pop(status, None)
    return schema
