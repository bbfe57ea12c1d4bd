"""The API: classify, panels, the library, feedback, the audit log, health and metrics."""

import asyncio
import hmac
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import PlainTextResponse

from simdx import __version__, library
from simdx.answer import Answer
from simdx.archive import texts_to_ask
from simdx.service import schemas
from simdx.service.audit import KINDS
from simdx.service.batching import InferenceResult
from simdx.service.made import panel_of, panel_with_bank
from simdx.service.problems import Problem
from simdx.service.registry import described
from simdx.service.schemas import MADE
from simdx.service.state import (
    MayAdmin,
    MayClassify,
    MayReadMetrics,
    answered,
    caller_of,
    check_panel,
    judgement,
    request_id,
    state_of,
)
from simdx.service.wire import Json, dump
from simdx.types import NONE_OF_THESE

router = APIRouter()
FOUND = 12  # conditions that a search gives
CLASSIFY = "/v1/classify"
AnswerId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}\.[0-9]{1,4}$")]
PanelName = Annotated[str, Field(max_length=200)]
_SAID = "The answer's id, for POST /v1/feedback; text N of several is <id>.N, from 0."
Answered = Answer | schemas.ManyOut | schemas.PageOut | schemas.PreviewOut
ANSWER_HEADER = {"Simdx-Answer": {"description": _SAID, "schema": {"type": "string"}}}


@router.post(
    CLASSIFY,
    summary="Posterior, uncertainty, decision and evidence for one case or several",
    description=(
        "Each answer is what `simdx classify --json` prints. With several texts and a method other than the "
        "default, and for any request while the service is busy, `sentences` and `flip` are null; a note in "
        "the provenance says so in the latter case. With `draws` the answer comes with what the page shows "
        "beside it; with `preview` the posterior comes alone, for a slider that moves: no answer, no record."
    ),
    responses={200: {"model": Answered, "description": "The answer", "headers": ANSWER_HEADER}},
    openapi_extra=schemas.takes(schemas.ClassifyBody),
)
async def classify(request: Request) -> Response:
    state = state_of(request)
    request.scope.setdefault("route", router.routes[0])  # for the meters: `app` asks past the framework
    caller = caller_of(request, "classify")
    body = schemas.parse(schemas.ClassifyBody, request)
    page = body.text is not None and (body.draws is not None or body.preview is not None)
    asked_of = "\n".join((body.panel, *(body.labels or ())))
    code = state.preview_code(caller, asked_of, body.text or "") if page else ""
    if body.preview is not None and not hmac.compare_digest(body.preview, code):
        raise Problem("bad-input", "preview: it is not of an answer you got for this text; ask without it.")

    made = None
    if body.labels is not None:
        check_panel(caller, body.panel)
        made = await state.workshop.get(caller.name, panel_with_bank, dict.fromkeys(body.labels, ""))

    def write(told: InferenceResult) -> bytes:
        if body.preview is not None:
            return dump(told.beside)
        if body.draws is not None:
            answer_id = None if state.audit is None else f"{request_id(request)}.0"
            return dump({"answer_id": answer_id, "preview": code, "answer": told.answers[0], **told.beside})
        return told.bodies[0] if body.text is not None else b'{"results":[' + b",".join(told.bodies) + b"]}"

    asked = state.asked(
        request, caller, body.panel, body.method, body.prior, body.all_texts(), write=write,
        explain=body.explain, draws=body.draws, preview=body.preview is not None, made=made,
    )  # fmt: skip
    told = await state.tell(asked)
    return Json(told.sent) if asked.preview else answered(request, told)


@router.get("/v1/panels", summary="The panels this service answers for")
async def panels(request: Request, caller: MayClassify) -> Response:
    registry = state_of(request).registry
    return Json({"panels": [registry.description(name) for name in registry.names if caller.may_ask(name)]})


@router.get("/v1/panels/{panel}", summary="One panel: its labels, codes, bank and methods")
async def panel(panel: PanelName, request: Request, caller: MayClassify) -> Response:
    check_panel(caller, panel)
    return Json(state_of(request).registry.description(panel))


@router.get("/v1/library", summary="Conditions and topics of the library, by name, alias, code or meaning")
async def search(request: Request, caller: MayClassify, q: Annotated[schemas.Name, Query()]) -> Response:
    if not q.strip():
        raise Problem("bad-input", "q: give a name, a code or some words.")
    # Beside the engine, one at a time: a meaning is embedded.
    found = await state_of(request).workshop.run(caller.name, library.find, q, FOUND)
    return Json({"found": [{**asdict(match.condition), "how": match.how} for match in found]})


@router.get("/v1/library/panel", summary="A panel of labels that the library knows, and its file")
async def library_panel(
    caller: MayClassify,
    label: Annotated[list[schemas.Name], Query(min_length=2, max_length=schemas.MOST_LABELS)],
) -> Response:
    check_panel(caller, MADE)
    made, file = panel_of(label)
    more = {"title": "Your panel: " + ", ".join(made.names), "methods": ["auto"]}
    return Json({"panel": {**described(made), **more}, "file": file})


@router.post(
    "/v1/ask",
    summary="Which of some unlabelled texts to label first",
    description=(
        "Places in `texts`, chosen by strata of the scores, for `simdx panel calibrate --data`. No posterior "
        "leaves the service, so nothing is recorded."
    ),
    responses={200: {"model": schemas.AskOut, "description": "Places in `texts`, from 0"}},
    openapi_extra=schemas.takes(schemas.AskBody),
)
async def ask(request: Request, caller: MayClassify) -> Response:
    body, state = schemas.parse(schemas.AskBody, request), state_of(request)
    check_panel(caller, body.panel)
    classifier = state.registry.check(body.panel, state.registry.methods[0])
    state.check_length(body.texts)
    chosen = await state.workshop.run(caller.name, texts_to_ask, classifier, body.texts, body.count)
    return Json({"ask": [int(i) for i in chosen]})


@router.post(
    "/v1/feedback",
    summary="The final diagnosis of an answered case, once it is known",
    status_code=201,
    openapi_extra=schemas.takes(schemas.FeedbackBody),
)
async def feedback(request: Request, caller: MayClassify) -> Response:
    body, state = schemas.parse(schemas.FeedbackBody, request), state_of(request)
    found = await state.find(body.answer if "." in body.answer else f"{body.answer}.0", caller)
    if found.answer is None:
        raise Problem("unknown-answer", "No answer with this id is in the audit log.")
    names = state.registry.panel(found.panel).names
    if body.label is not None and body.label not in names:
        raise Problem("bad-input", f"label: give one of {', '.join(names)}, or null for none of them.")
    final = NONE_OF_THESE if body.label is None else body.label
    agrees = found.to_json()["answer"]["label"] == final
    entry = judgement(request, caller, "feedback", found, {"label": body.label, "agrees": agrees})
    await asyncio.to_thread(state.log().append, [entry])
    state.meters.feedback.labels(found.panel, str(agrees).lower()).inc()
    return Json({"id": entry.id, "agrees": agrees}, 201)


@router.get(
    "/v1/answers/{answer}", summary="What the audit log has of one answer: for the caller it was given to"
)
async def answer(answer: AnswerId, request: Request, caller: MayClassify) -> Response:
    return Json({"record": (await state_of(request).find(answer, caller)).to_json()})


@router.get("/v1/audit", summary="The audit log, latest first (scope admin)")
async def audit(
    request: Request,
    caller: MayAdmin,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    kind: Annotated[str | None, Query(pattern=f"^({'|'.join(KINDS)})$")] = None,
    id: Annotated[AnswerId | None, Query()] = None,
) -> Response:
    state = state_of(request)
    store = state.log()
    if id is not None:
        found = await asyncio.to_thread(store.find, id)
        records = [found] if found else []
    else:
        records = await asyncio.to_thread(lambda: store.page(limit=limit, before=before, kind=kind))
    count, head = await asyncio.to_thread(store.head)
    await state.record_read(request, caller, id=id, kind=kind, before=before, limit=limit)
    return Json({"records": [r.to_json() for r in records], "count": count, "head": head})


@router.get(
    "/v1/audit/verify", summary="Walk the whole hash chain, past this service's checkpoints (scope admin)"
)
async def audit_verify(request: Request, caller: MayAdmin) -> Response:
    state = state_of(request)
    verdict = await asyncio.to_thread(state.log().verify)
    await state.record_read(request, caller)
    return Json(asdict(verdict))


@router.get("/healthz", summary="The process is alive")
async def healthz() -> Response:
    return Json({"status": "ok", "version": __version__})


@router.get("/readyz", summary="Panels are loaded and the audit log answers")
async def readyz(request: Request) -> Response:
    state = state_of(request)
    if state.audit is not None:
        await asyncio.to_thread(state.audit.ready)
    return Json({"status": "ready", "panels": list(state.registry.names)})


@router.get(
    "/metrics",
    summary="Prometheus metrics (scope metrics or admin where tokens are needed)",
    response_class=PlainTextResponse,
)
async def metrics(request: Request, caller: MayReadMetrics) -> Response:
    return state_of(request).meters.exposition()
