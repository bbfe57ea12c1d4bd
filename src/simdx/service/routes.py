"""The API: classify, explore under other priors, panels, feedback, the audit log, health and metrics."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from simdx import __version__
from simdx.answer import Answer
from simdx.service import schemas
from simdx.service.asks import Ask, Told
from simdx.service.audit.record import KINDS
from simdx.service.auth import Caller
from simdx.service.house import (
    House,
    MayAdmin,
    MayClassify,
    MayReadMetrics,
    answered,
    check_panel,
    house_of,
    judgement,
    prior_of,
    request_id,
)
from simdx.service.intervals import posterior_intervals
from simdx.service.problems import Problem, documented
from simdx.service.wire import Json, dump

router = APIRouter()
JSON = "application/json"
ASKING = documented(400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503)
_AGAIN = {**ASKING, **documented(410)}
_READING = documented(400, 401, 403, 404, 421, 422, 429, 500, 503)
OPEN = documented(400, 421, 429, 500, 503)
ObservationId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
AnswerId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}\.[0-9]{1,4}$")]
PanelName = Annotated[str, Field(max_length=200)]
_SAID = "The answer's id, for POST /v1/feedback; text N of several is <id>.N, from 0."
ANSWER_HEADER = {"Simdx-Answer": {"description": _SAID, "schema": {"type": "string"}}}


def shaped(description: str, media: str = JSON) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": {"type": "object"}}}}


@router.post(
    "/v1/classify",
    summary="Posterior, uncertainty, decision and evidence for one case or several",
    description=(
        "Each answer is what `simdx classify --json` prints. With several texts and a method other than the "
        "default, and for any request while the service is busy, `sentences` and `flip` are null; a note in "
        "the provenance says so in the latter case."
    ),
    tags=["classify"],
    responses={
        200: {"model": Answer | schemas.ManyOut, "description": "The answer", "headers": ANSWER_HEADER},
        **ASKING,
    },
)
async def classify(body: schemas.ClassifyBody, request: Request, caller: MayClassify) -> Response:
    def write(told: Told) -> bytes:
        return told.bodies[0] if body.text is not None else b'{"results":[' + b",".join(told.bodies) + b"]}"

    house, texts = house_of(request), body.all_texts()
    ask = house.asked(request, caller, body.panel, body.method, body.prior, texts, write=write)
    return answered(request, await house.tell(ask))


@router.post(
    "/v1/explore",
    summary="Classify one case and keep it in memory for a while, to be asked again under other priors",
    tags=["classify"],
    responses={200: {"model": schemas.ExploreOut, "description": "The answer"}, **ASKING},
)
async def explore(body: schemas.ExploreBody, request: Request, caller: MayClassify) -> Response:
    house = house_of(request)
    name = house.cache.name(body.panel, caller.name, body.text)
    write = _explored(house, request, name)
    ask = house.asked(request, caller, body.panel, body.method, body.prior, [body.text], write=write)
    told = await house.tell(replace(ask, kind="explore", draws=body.draws))
    assert told.observations is not None  # what is explored is answered in this process
    house.cache.put(name, body.panel, caller.name, told.observations)
    return answered(request, told)


@router.post(
    "/v1/explore/{observation}",
    summary="Another prior for a case kept by POST /v1/explore: nothing is embedded again",
    tags=["classify"],
    responses={200: {"model": schemas.ExploreOut, "description": "The answer"}, **_AGAIN},
)
async def reinfer(
    observation: ObservationId, body: schemas.ReinferBody, request: Request, caller: MayClassify
) -> Response:
    house = house_of(request)
    ask = replace(
        _of_kept(house, request, caller, observation, body),
        kind="explore",
        draws=body.draws,
        explain=body.explain,
        alone=body.explain and body.method != house.registry.methods[0],
        write=_explored(house, request, observation),
    )
    return answered(request, await house.tell(ask))


@router.post(
    "/v1/explore/{observation}/preview",
    summary="The posterior alone while a slider moves: no answer, no decision, no record",
    tags=["classify"],
    responses={200: {"model": schemas.PreviewOut, "description": "The posterior"}, **_AGAIN},
)
async def preview(
    observation: ObservationId, body: schemas.PreviewBody, request: Request, caller: MayClassify
) -> Response:
    house = house_of(request)
    ask = _of_kept(house, request, caller, observation, body)
    told = await house.tell(replace(ask, explain=False, preview=True))
    return Json(told.answers[0])


def _of_kept(
    house: House, request: Request, caller: Caller, observation: str, body: schemas.PreviewBody
) -> Ask:
    """What is asked of a case this caller brought before, while it is kept, under another method or prior."""
    kept = house.cache.get(observation, caller.name)
    if kept is None:
        raise Problem(
            "gone", "This observation is not kept any more; send the text to POST /v1/explore again."
        )
    classifier = house.classifier_for(caller, kept.panel, body.method, kept.observations.texts)
    return Ask(
        kept.panel, body.method, prior_of(classifier, body.prior), kept.observations.texts, caller.name,
        request_id(request), observed=kept.observations,
    )  # fmt: skip


def _explored(house: House, request: Request, name: str) -> Callable[[Told], bytes]:
    def write(told: Told) -> bytes:
        draws = [] if told.draws is None else [[round(float(v), 4) for v in row] for row in told.draws]
        return dump(
            {
                "observation": name,
                "expires_in_s": house.cache.seconds,
                "answer_id": None if house.audit is None else f"{request_id(request)}.0",
                "answer": told.answers[0],
                "intervals": posterior_intervals(told.answers[0]),
                **told.beside[0],
                "draws": draws,
            }
        )

    return write


@router.get(
    "/v1/panels",
    summary="The panels this service answers for",
    tags=["panels"],
    responses={200: {"model": schemas.PanelsOut, "description": "All panels"}, **_READING},
)
async def panels(request: Request, caller: MayClassify) -> Response:
    registry = house_of(request).registry
    return Json({"panels": [registry.description(name) for name in registry.names if caller.may_ask(name)]})


@router.get(
    "/v1/panels/{panel}",
    summary="One panel: its labels, codes, bank and methods",
    tags=["panels"],
    responses={200: {"model": schemas.PanelOut, "description": "The panel"}, **_READING},
)
async def panel(panel: PanelName, request: Request, caller: MayClassify) -> Response:
    check_panel(caller, panel)
    return Json(house_of(request).registry.description(panel))


@router.post(
    "/v1/feedback",
    summary="The final diagnosis of an answered case, once it is known",
    tags=["feedback"],
    status_code=201,
    responses={201: {"model": schemas.FeedbackOut, "description": "Recorded"}, **ASKING, **documented(409)},
)
async def feedback(body: schemas.FeedbackBody, request: Request, caller: MayClassify) -> Response:
    house = house_of(request)
    found = await house.find(body.answer if "." in body.answer else f"{body.answer}.0", caller)
    if found.answer is None:
        raise Problem("unknown-answer", "No answer with this id is in the audit log.")
    names = house.registry.panel(found.panel).names
    if body.label is not None and body.label not in names:
        raise Problem("bad-input", f"label: give one of {', '.join(names)}, or null for none of them.")
    agrees = found.to_json()["answer"]["label"] == body.label
    entry = judgement(request, caller, "feedback", found, {"label": body.label, "agrees": agrees})
    await asyncio.to_thread(house.log().append, [entry])
    house.meters.feedback.labels(found.panel, str(agrees).lower()).inc()
    return Json({"id": entry.id, "agrees": agrees}, 201)


@router.get(
    "/v1/answers/{answer}",
    summary="What the audit log has of one answer: for the caller it was given to",
    tags=["feedback"],
    responses={200: shaped("The record"), **_READING, **documented(409)},
)
async def answer(answer: AnswerId, request: Request, caller: MayClassify) -> Response:
    return Json({"record": (await house_of(request).find(answer, caller)).to_json()})


@router.get(
    "/v1/audit",
    summary="The audit log, latest first (scope admin)",
    tags=["audit"],
    responses={200: shaped("Records"), **_READING, **documented(409)},
)
async def audit(
    request: Request,
    caller: MayAdmin,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    kind: Annotated[str | None, Query(pattern=f"^({'|'.join(KINDS)})$")] = None,
    id: Annotated[AnswerId | None, Query()] = None,
) -> Response:
    house = house_of(request)
    store = house.log()
    if id is not None:
        found = await asyncio.to_thread(store.find, id)
        records = [found] if found else []
    else:
        records = await asyncio.to_thread(lambda: store.page(limit=limit, before=before, kind=kind))
    count, head = await asyncio.to_thread(store.head)
    await house.record_read(request, caller, id=id, kind=kind, before=before, limit=limit)
    return Json({"records": [r.to_json() for r in records], "count": count, "head": head})


@router.get(
    "/v1/audit/verify",
    summary="Walk the whole hash chain, past this service's checkpoints (scope admin)",
    tags=["audit"],
    responses={200: shaped("The verdict"), **_READING, **documented(409)},
)
async def audit_verify(request: Request, caller: MayAdmin) -> Response:
    house = house_of(request)
    store = house.log()
    verdict = await asyncio.to_thread(store.verify)
    await house.record_read(request, caller)
    return Json(asdict(verdict))


@router.get(
    "/healthz",
    summary="The process is alive",
    tags=["operations"],
    responses={200: {"content": {JSON: {"example": {"status": "ok"}}}, "description": "Alive"}, **OPEN},
)
async def healthz() -> Response:
    return Json({"status": "ok", "version": __version__})


@router.get(
    "/readyz",
    summary="Panels are loaded and the audit log answers",
    tags=["operations"],
    responses={200: {"content": {JSON: {"example": {"status": "ready"}}}, "description": "Ready"}, **OPEN},
)
async def readyz(request: Request) -> Response:
    house = house_of(request)
    await house.readiness.check()
    return Json({"status": "ready", "panels": list(house.registry.names)})


@router.get(
    "/metrics",
    summary="Prometheus metrics (scope metrics or admin where tokens are needed)",
    tags=["operations"],
    responses={200: {"content": {"text/plain": {}}, "description": "Metrics"},
               **documented(400, 401, 403, 421, 429, 500, 503)},
)  # fmt: skip
async def metrics(request: Request, caller: MayReadMetrics) -> Response:
    meters = house_of(request).meters
    return Response(meters.exposition(), headers={"content-type": meters.content_type})
