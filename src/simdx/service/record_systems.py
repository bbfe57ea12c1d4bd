"""Routes for record systems: CDS Hooks discovery, invocation and feedback, and FHIR RiskAssessment."""

import asyncio
import hashlib
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from simdx import __version__
from simdx.service import cds, fhir, schemas
from simdx.service.audit import Entry, patient_reference
from simdx.service.auth import Caller
from simdx.service.batching import InferenceResult
from simdx.service.cds_text import read_chart
from simdx.service.problems import FHIR_BASE, FHIR_MEDIA_TYPE, Problem
from simdx.service.record_servers import base_of
from simdx.service.schemas import parse, takes
from simdx.service.state import AppState, MayClassify, answered, check_panel, judgement, request_id, state_of
from simdx.service.wire import Json, dump

router = APIRouter()
_FHIR: dict[int | str, dict[str, Any]] = {
    200: {"description": "The resource", "content": {FHIR_MEDIA_TYPE: {"schema": {"type": "object"}}}}
}
ServiceId = Annotated[str, Field(max_length=300)]


@router.get("/cds-services", summary="CDS Hooks discovery")
async def discovery(request: Request) -> Response:
    registry = state_of(request).registry
    return Json(cds.discovery([registry.panel(n) for n in registry.names]))


@router.post(
    "/cds-services/{service}",
    summary="CDS Hooks invocation (patient-view, order-select)",
    openapi_extra=takes(cds.Invocation),
)
async def invoke(service: ServiceId, request: Request, caller: MayClassify) -> Response:
    body, state = parse(cds.Invocation, request), state_of(request)
    name, hook = _service(state, caller, service)
    if body.hook != hook:
        raise Problem("bad-input", f"hook: this service answers '{hook}'.")
    if body.prefetch is None or all(value is None for value in body.prefetch.values()):
        said = "Send a DocumentReference, QuestionnaireResponse or Condition in the prefetch."
        raise Problem("missing-prefetch", said)
    panel, patient = state.registry.panel(name), body.context.patient
    codes = frozenset(code for label in panel.labels for code in (*label.icd10, *label.snomed))
    server = base_of(body.fhirServer) if body.fhirServer else None
    chart = await asyncio.to_thread(read_chart, body.prefetch, patient, server, codes)
    found = await state.record_servers.read(chart, server, body.token)
    # Who asked through which hook is recorded; about whom, as a keyed hash.
    context = {"hook": body.hook, "hook_instance": str(body.hookInstance), "user": body.context.userId}
    people = {"patient": patient_reference(body.context.patientId)}
    if body.context.encounterId:
        people["encounter"] = body.context.encounterId
    source, answer_id = found.source, f"{request_id(request)}.0"
    if source is None:
        nothing = dump(cds.reply([], found.unread))
        context["sent"] = hashlib.sha256(nothing).hexdigest()
        versions = {"simdx": __version__}
        entry = Entry(answer_id, "cds", caller.name, name, versions=versions, context=context, people=people)
        if state.audit is not None:
            await asyncio.to_thread(state.audit.append, [entry])
        return Json(nothing)

    def write(told: InferenceResult) -> bytes:
        answer = told.answers[0].to_json()
        if why := cds.why_no_card(answer):
            return dump(cds.reply([], [f"No card: {source.words} is {why}", *found.unread]))
        subject = {"reference": f"Patient/{patient}"}
        basis = {"reference": source.reference, "display": source.words} if source.reference else None
        assessment = fhir.risk_assessment(
            answer, panel, text=found.text, answer_id=answer_id, subject=subject,
            encounter=body.context.encounter, basis=basis,
        )  # fmt: skip
        made = cds.card(
            answer, panel, card_id=uuid.UUID(hex=request_id(request)), base_url=state.base_url(request),
            assessment=assessment, read=source.words, unread=found.unread,
        )  # fmt: skip
        return dump(cds.reply([made]))

    ask = state.asked(
        request, caller, name, state.registry.methods[0], None, [found.text], kind="cds", write=write,
        context=context, people=people,
    )  # fmt: skip
    return Json((await state.tell(ask)).sent)


@router.post(
    "/cds-services/{service}/feedback",
    summary="CDS Hooks feedback: what became of a card",
    openapi_extra=takes(cds.Feedback),
)
async def cds_feedback(service: ServiceId, request: Request, caller: MayClassify) -> Response:
    body, state = parse(cds.Feedback, request), state_of(request)
    name, _ = _service(state, caller, service)
    entries, said = [], "A card of this feedback is not one this service has sent."
    for i, item in enumerate(body.feedback):
        found = await state.find(f"{item.card.hex}.0", caller, said)
        if (found.kind, found.panel) != ("cds", name):
            raise Problem("unknown-answer", said)
        reason = item.overrideReason.reason if item.overrideReason else None
        known = reason.code if reason and reason.code in cds.OVERRIDE_REASONS else None
        # A user's comment is free text about a patient, and so may be a code we did not offer: not kept.
        outcome = {
            "outcome": item.outcome,
            "reason": known or ("other" if reason else None),
            "suggestions": len(item.acceptedSuggestions or ()),
            "at": item.outcomeTimestamp.isoformat(),
        }
        entries.append(judgement(request, caller, "cds-feedback", found, outcome, i))
    await asyncio.to_thread(state.log().append, entries)
    return Json({})


@router.get(f"{FHIR_BASE}/metadata", summary="FHIR CapabilityStatement", responses=_FHIR)
async def metadata(request: Request) -> Response:
    statement = fhir.capability_statement(state_of(request).base_url(request) + FHIR_BASE)
    return Json(statement, media_type=FHIR_MEDIA_TYPE)


@router.post(
    f"{FHIR_BASE}/RiskAssessment",
    summary="One case as a FHIR R4 RiskAssessment",
    openapi_extra=takes(schemas.FhirBody),
    responses=_FHIR,
)
async def risk_assessment(request: Request, caller: MayClassify) -> Response:
    body, state = parse(schemas.FhirBody, request), state_of(request)
    sent = body.model_dump(exclude_none=True)
    subject, encounter = sent.get("subject"), sent.get("encounter")

    def write(told: InferenceResult) -> bytes:
        panel, answer_id = state.registry.panel(body.panel), f"{request_id(request)}.0"
        made = fhir.risk_assessment(
            told.answers[0].to_json(), panel, text=body.text, answer_id=answer_id, subject=subject,
            encounter=encounter,
        )  # fmt: skip
        return dump(made)

    people = {"patient": patient_reference(subject["reference"])} if subject else {}
    ask = state.asked(
        request, caller, body.panel, body.method, body.prior, [body.text], write=write, people=people
    )
    return answered(request, await state.tell(ask), FHIR_MEDIA_TYPE)


def _service(state: AppState, caller: Caller, service: str) -> tuple[str, str]:
    """(panel, hook) of a service this caller may use."""
    panel, hook = cds.resolve(service, state.registry.names)
    check_panel(caller, panel)
    return panel, hook
