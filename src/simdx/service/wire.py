"""What comes in and what leaves: bodies and their checks, JSON, problems (RFC 9457), figures for Prometheus.

A refusal has a stable type, a status and one sentence, and never quotes the request's values: a bad body may
be a patient's text. The FHIR face says it as an OperationOutcome, typed decisions in a shape of their own.
`parse` is the one way in: a body is read and checked once. `gate` bounds its size and number of values.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from simdx import __version__
from simdx.errors import BadInput, RunFailed
from simdx.service.audit_chain import AuditUnavailable

# --------------------------------------------------------------------------- JSON that leaves


def dump(value: Any) -> bytes:
    """Compact JSON, in ASCII so that no label or case steers a terminal; infinite numbers are null."""
    return to_json(value, inf_nan_mode="null", ensure_ascii=True)


class Json(Response):
    """Bytes are sent as they are: they were dumped, and recorded, before."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else dump(content)


# --------------------------------------------------------------------------- problems

MEDIA_TYPE = "application/problem+json"
FHIR_MEDIA_TYPE = "application/fhir+json"
FHIR_BASE = "/v1/fhir"
TYPED = "/v1/systemone"  # whose clients read refusals of a shape of their own
_URN = "urn:simdx:problem:"
MOST_ERRORS = 20  # of a body

# slug -> (status, title, FHIR's IssueType). The slugs are a contract: clients may branch on them.
KINDS: dict[str, tuple[int, str, str]] = {
    "not-json": (400, "The body is not JSON", "structure"),
    "bad-request": (400, "The request cannot be read", "structure"),
    "no-token": (401, "A token is needed", "login"),
    "bad-token": (401, "The token is not valid", "login"),
    "wrong-scope": (403, "The token does not allow this", "forbidden"),
    "wrong-panel": (403, "The token is for other panels", "forbidden"),
    "forwarded": (403, "A service without tokens answers no forwarded request", "forbidden"),
    "not-found": (404, "There is nothing here", "not-found"),
    "unknown-panel": (404, "The panel is not served", "not-found"),
    "unknown-answer": (404, "No such answer", "processing"),
    "method-not-allowed": (405, "The address does not take this method", "not-supported"),
    "slow-body": (408, "The body came too slowly", "timeout"),
    "no-audit": (409, "This service keeps no audit log", "processing"),
    "missing-prefetch": (412, "The service needs the prefetched text", "processing"),
    "too-large": (413, "The request is too large", "too-long"),
    "wrong-type": (415, "The body must be JSON", "structure"),
    "invalid-body": (422, "The body does not have the right form", "invalid"),
    "empty-text": (422, "The case is empty", "required"),
    "bad-input": (422, "The request cannot be answered as it was put", "invalid"),
    "too-many-requests": (429, "Too many requests from this caller", "throttled"),
    "internal": (500, "The service failed", "exception"),
    "upstream": (502, "A server behind this one failed", "transient"),
    "overloaded": (503, "The service is busy", "transient"),
    "not-ready": (503, "The service is starting", "transient"),
    "audit-unavailable": (503, "The audit log cannot be written", "no-store"),
    "no-keys": (503, "The client's keys cannot be fetched", "transient"),
    "timeout": (503, "The answer took too long", "timeout"),
}
_ERROR_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 415: "invalid_request_error", 429: "rate_limit_error",
}  # fmt: skip
_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed", 415: "wrong-type"}


@dataclass
class Problem(Exception):
    """Raised anywhere in the service; becomes the response."""

    kind: str
    detail: str
    errors: Sequence[Mapping[str, str]] = ()
    retry_after: int | None = None
    headers: Mapping[str, str] | None = None

    def body(self) -> dict[str, Any]:
        status, title, _ = KINDS[self.kind]
        out = {"type": _URN + self.kind, "title": title, "status": status, "detail": self.detail}
        return {**out, "errors": [dict(e) for e in self.errors]} if self.errors else out

    def outcome(self) -> dict[str, Any]:
        """The same as a FHIR OperationOutcome: an issue for each thing that is wrong."""
        said = [f"{e['where']}: {e['why']}." for e in self.errors] or [self.detail]
        _, title, code = KINDS[self.kind]
        coding = [{"system": _URN.rstrip(":"), "code": self.kind}]
        issue = {
            "severity": "fatal" if self.kind == "internal" else "error", "code": code,
            "details": {"coding": coding, "text": title},
        }  # fmt: skip
        return {"resourceType": "OperationOutcome", "issue": [{**issue, "diagnostics": s} for s in said]}

    def typed(self, status: int) -> dict[str, Any]:
        """The same for clients of typed decisions: what is wrong with a body is listed, place by place."""
        if status != 422:
            error_type = _ERROR_TYPES.get(status, "api_error")
            return {"detail": {"error_type": error_type, "message": self.detail}}
        return {
            "detail": [
                {
                    "loc": f"body.{e['where']}".removesuffix(".body").split("."),
                    "msg": e["why"],
                    "type": self.kind,
                }
                for e in self.errors or ({"where": "body", "why": self.detail},)
            ]
        }

    def response(self, path: str) -> Json:
        """The refusal, in the words of the face it was asked of."""
        status, headers = KINDS[self.kind][0], dict(self.headers or {})
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="simdx"'
        if path == FHIR_BASE or path.startswith(f"{FHIR_BASE}/"):
            return Json(self.outcome(), status, headers, FHIR_MEDIA_TYPE)
        if path == TYPED:
            status = 422 if self.kind == "not-json" else status
            return Json(self.typed(status), status, headers)
        return Json(self.body(), status, headers, MEDIA_TYPE)


def as_problem(error: Exception) -> Problem:
    """What the caller is told of an error. The message of an unforeseen one might quote a case."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, BadInput):
        return Problem("bad-input", str(error))
    if isinstance(error, AuditUnavailable):
        return Problem("audit-unavailable", "An unrecorded answer is not sent; try again.", retry_after=5)
    if isinstance(error, RunFailed):
        return Problem("upstream", "A server that this one asks did not answer.")
    if isinstance(error, RequestValidationError):
        declared = {str(e["loc"][1]) for e in error.errors()}  # parameters that we do not know are not read
        return _from_validation(error.errors(), declared)
    if isinstance(error, HTTPException):
        kind = _BY_STATUS.get(error.status_code, "bad-request" if error.status_code < 500 else "internal")
        return Problem(kind, KINDS[kind][1] + ".", headers=error.headers)
    return Problem("internal", "An unforeseen failure; the log names it by the x-request-id of this reply.")


_TEXT = {"type": "string"}
_ERROR = {"type": "object", "required": ["where", "why"], "properties": {"where": _TEXT, "why": _TEXT}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {**_TEXT, "enum": sorted(_URN + kind for kind in KINDS)},
        "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT,
        "errors": {"type": "array", "items": _ERROR},
    },
}  # fmt: skip


def refusals(media: str, **schema: str) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of refusals."""
    return {"default": {"description": "A refusal", "content": {media: {"schema": schema}}}}


REFUSALS = refusals(MEDIA_TYPE, **{"$ref": "#/components/schemas/Problem"})

# --------------------------------------------------------------------------- bodies

EXAMPLE_TEXT = (
    "A 24-year-old noticed a soft, bluish, painless swelling of the lower lip two weeks after biting it; "
    "it emptied once and came back."
)
Model = TypeVar("Model", bound=BaseModel)
BODIES: list[type[BaseModel]] = []  # that some route parses


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route that parses this body; `app` adds the schema itself."""
    BODIES.append(model)
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def parse(model: type[Model], request: Request) -> Model:
    """The request's body, which the gate has read, as this model; or a Problem."""
    try:
        return model.model_validate_json(request.scope["simdx.body"])
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise _from_validation(found, _names(model)) from None


@cache
def _names(model: type[BaseModel]) -> frozenset[str]:
    """Every field of a body and of its parts."""
    schema = model.model_json_schema()
    parts = (schema, *schema.get("$defs", {}).values())
    return frozenset(name for part in parts for name in part.get("properties", ()))


def _from_validation(errors: Sequence[Mapping[str, Any]], names: Set[str]) -> Problem:
    """The problem for a body that failed its schema: where and why, never the value itself.

    Keys of the request's own making (a prior's label names) are values too: only our `names` are repeated.
    """
    kinds = {str(e["type"]) for e in errors}
    if "json_invalid" in kinds:
        return Problem("not-json", "The body is not valid JSON: send an object, encoded as UTF-8.")
    listed = []
    for error in errors[:MOST_ERRORS]:
        loc = [str(part) for part in error["loc"] if isinstance(part, int) or part in names]
        listed.append({"where": ".".join(loc) or "body", "why": _reason(error)})
    kind = "empty-text" if "empty_text" in kinds else "invalid-body"
    return Problem(kind, f"{listed[0]['where']}: {listed[0]['why']}.", errors=listed)


def _reason(error: Mapping[str, Any]) -> str:
    kind, field = str(error["type"]), str((error["loc"] or ("",))[-1])
    if kind == "string_pattern_mismatch" and field in _FORMS:
        return _FORMS[field]
    return _PLAIN.get(kind) or (str(error["msg"]) if kind in _SAFE_TYPES else f"invalid ({kind})")


# What a validator says of Python's types, in a caller's words. A UUID's message quotes a sent character.
_PLAIN = {
    **dict.fromkeys(("model_attributes_type", "model_type", "dict_type"), "a JSON object is expected"),
    "list_type": "a JSON list is expected",
    "too_long": "it has more items than this address takes",
    "string_type": "a string is expected",
    "missing": "it is required and was not sent",
    "extra_forbidden": "a field was sent that this address does not take",
    "string_pattern_mismatch": "it does not have the form that GET /openapi.json gives for it",
    "uuid_parsing": "a UUID is expected",
}
_FORMS = {
    "answer": "the id of an answer is expected: its Simdx-Answer header, with .N for text N of several",
    "preview": "the `preview` of an answer to this text is expected",
    "reference": "a FHIR reference is expected: Patient/ID as the subject, Encounter/ID as the encounter",
    "patientId": "the id of a FHIR Patient is expected",
    "encounterId": "the id of a FHIR Encounter is expected",
}
# pydantic's further error types whose message holds no part of the input.
_SAFE_TYPES = {
    "string_too_long", "string_too_short", "string_unicode", "too_short", "float_type",
    "float_parsing", "int_type", "int_parsing", "finite_number", "greater_than_equal", "less_than_equal",
    "greater_than", "less_than", "empty_text", "text_or_texts", "bool_type", "literal_error", "json_type",
    "uuid_type", "cds_rule", "made_panel", "nothing_asked", "bool_parsing", "datetime_type", "timezone_aware",
    "int_from_float",
}  # fmt: skip


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty_text", "give the description of a case")
    return text


Text = Annotated[
    str, Field(min_length=1, description="The description of one case."), AfterValidator(_filled)
]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Body(BaseModel):
    """Strict: a number is not a string, and true is not 1."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OfPanel(Body):
    panel: str = Field(max_length=200, description="A panel of GET /v1/panels.")


class OfCase(OfPanel):
    prior: dict[str, Probability] | None = Field(
        None,
        max_length=2_000,
        description="Prior probability by label; labels not named share the rest. Default: uniform.",
    )
    method: str = Field("auto", max_length=40, description="A method of GET /v1/panels/{id}.")


# --------------------------------------------------------------------------- figures


class Meters:
    """Routes, statuses, panels and decisions: never a text, never a caller. One set for each application."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        seconds = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)

        def made(kind: Any, name: str, about: str, *labels: str, **more: Any) -> Any:
            return kind(f"simdx_{name}", about, labels, registry=registry, **more)

        self.requests = made(Counter, "requests", "Requests by route and status.", "route", "status")
        about = "Time from the first byte in to the last byte out."
        self.seconds = made(Histogram, "request_seconds", about, "route", buckets=seconds)
        self.waiting = made(Gauge, "waiting_texts", "Texts waiting for the engine.")
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.batch = made(Histogram, "batch_texts", "Texts in one engine call.", buckets=sizes)
        self.engine = made(Histogram, "engine_seconds", "Time of one engine call.", buckets=seconds)
        self.answers = made(Counter, "answers", "Answers by panel and decision.", "panel", "action")
        about = "Final diagnoses reported, by whether they agree."
        self.feedback = made(Counter, "feedback", about, "panel", "agrees")
        self.refused = made(Counter, "refused", "Requests refused, by kind of problem.", "kind")
        made(Info, "build", "The version that is running.").info({"version": __version__})

    def exposition(self) -> Response:
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})
