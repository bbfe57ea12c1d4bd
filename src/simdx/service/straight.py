"""The straight way to an answer: POST /v1/classify, from gate to engine without the framework between.

Routing, dependencies and response models cost a framework more than an answer costs the engine. The route
stays as it is (`routes.classify`): OpenAPI describes it, this layer calls it, and every body that is not a
good one goes the usual way, so that a refusal is worded in one place.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from simdx.service import routes
from simdx.service.auth import Guard
from simdx.service.schemas import ClassifyBody
from simdx.service.wire import again

PATH = "/v1/classify"
_ROUTE = next(route for route in routes.router.routes if getattr(route, "path", "") == PATH)


class Straight:
    def __init__(self, app: ASGIApp, guard: Guard, handlers: Mapping[Any, Callable[..., Any]]) -> None:
        """`handlers`: the application's own, by kind of exception."""
        self._app, self._guard = app, guard
        self._answering = ExceptionMiddleware(self._answer, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH or scope.get("method") != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()  # the gate has read all of it
        body = _read(message.get("body", b""))
        if body is None:
            await self._app(scope, again(message, receive), send)
            return
        scope["route"], scope["simdx.body"] = _ROUTE, body
        await self._answering(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._guard.allow(scope["simdx.caller"], "classify")
        response = await routes.classify(scope["simdx.body"], Request(scope), caller)
        await response(scope, receive, send)


def _read(body: bytes) -> ClassifyBody | None:
    """As the framework reads it; None where that has something to say against it."""
    try:
        return ClassifyBody.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError):
        return None
