"""Routes for record systems: CDS Hooks discovery, invocation and feedback, and FHIR RiskAssessment."""

import asyncio
import hashlib
import uuid
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from simdx import __version__
from simdx.service import cds, fhir, schemas
from simdx.service.asks import Told
from simdx.service.audit import Entry
from simdx.service.audit.record import patient_reference
from simdx.service.auth import Caller
from simdx.service.cds_text import read_chart
from simdx.service.house import House, MayClassify, check_panel, house_of, is_of, request_id
from simdx.service.problems import FHIR_BASE, FHIR_MEDIA_TYPE, Problem, documented
from simdx.service.record_servers import base_of
from simdx.service.routes import ASKING, JSON, shaped
from simdx.service.wire import dump

router = APIRouter()
ServiceId = Annotated[str, Field(max_length=300)]


@router.get(
    "/cds-services",
    summary="CDS Hooks discovery",
    tags=["record systems"],
    responses={200: shaped("Services"), **documented(400, 421, 429, 500, 503)},
)
async def discovery(request: Request) -> Response:
    registry = house_of(request).registry
    return Response(dump(cds.discovery([registry.panel(n) for n in registry.names])), media_type=JSON)


@router.post(
    "/cds-services/{service}",
    summary="CDS Hooks invocation (patient-view, order-select)",
    tags=["record systems"],
    responses={200: shaped("Cards"), **ASKING, **documented(412)},
)
async def invoke(service: ServiceId, body: cds.Invocation, request: Request, caller: MayClassify) -> Response:
    house = house_of(request)
    name, hook = _service(house, caller, service)
    if body.hook != hook:
        raise Problem("bad-input", f"hook: this service answers '{hook}'.")
    if body.prefetch is None or all(value is None for value in body.prefetch.values()):
        raise Problem(
            "missing-prefetch",
            "Send a DocumentReference, QuestionnaireResponse or Condition in the prefetch.",
        )
    panel, patient = house.registry.panel(name), body.context.patient
    codes = frozenset(code for label in panel.labels for code in (*label.icd10, *label.snomed))
    server = base_of(body.fhirServer) if body.fhirServer else None
    chart = await asyncio.to_thread(read_chart, body.prefetch, patient, server, codes)
    found = await house.record_servers.read(chart, server, body.token)
    context, people = _asked_for(body)
    source = found.source
    if source is None:
        nothing = dump(cds.reply([], found.unread))
        context["sent"] = hashlib.sha256(nothing).hexdigest()
        entry = Entry(
            f"{request_id(request)}.0", "cds", caller.name, name, versions={"simdx": __version__},
            context=context, people=people,
        )  # fmt: skip
        await asyncio.to_thread(house.record, [entry])
        return Response(nothing, media_type=JSON)

    def write(told: Told) -> bytes:
        answer = told.answers[0]
        if why := cds.why_no_card(answer):
            return dump(cds.reply([], [f"No card: {source.words} is {why}", *found.unread]))
        assessment = fhir.risk_assessment(
            answer,
            panel,
            text=found.text,
            answer_id=f"{request_id(request)}.0",
            subject={"reference": f"Patient/{patient}"},
            encounter=body.context.encounter,
            basis={"reference": source.reference, "display": source.words} if source.reference else None,
        )
        made = cds.card(
            answer,
            panel,
            card_id=uuid.UUID(hex=request_id(request)),
            base_url=house.base_url(request),
            assessment=assessment,
            read=source.words,
            unread=found.unread,
        )
        return dump(cds.reply([made]))

    told = await house.ask(
        request, caller, name, house.registry.methods[0], None, [found.text], kind="cds", write=write,
        context=context, people=people,
    )  # fmt: skip
    return Response(told.sent, media_type=JSON)


@router.post(
    "/cds-services/{service}/feedback",
    summary="CDS Hooks feedback: what became of a card",
    tags=["record systems"],
    responses={200: shaped("Recorded"), **ASKING, **documented(409)},
)
async def cds_feedback(
    service: ServiceId, body: cds.Feedback, request: Request, caller: MayClassify
) -> Response:
    house = house_of(request)
    name, _ = _service(house, caller, service)
    store = house.log()
    entries = []
    for i, item in enumerate(body.feedback):
        about = f"{item.card.hex}.0"
        found = await asyncio.to_thread(store.find, about)
        if found is None or (found.kind, found.panel) != ("cds", name) or not is_of(found, caller):
            raise Problem("unknown-answer", "A card of this feedback is not one this service has sent.")
        reason = item.overrideReason.reason if item.overrideReason else None
        known = reason.code if reason and reason.code in cds.OVERRIDE_REASONS else None
        # A user's comment is free text about a patient, and so may be a code we did not offer: not kept.
        outcome = {
            "outcome": item.outcome,
            "reason": known or ("other" if reason else None),
            "suggestions": len(item.acceptedSuggestions or ()),
            "at": item.outcomeTimestamp.isoformat(),
        }
        entries.append(
            Entry(
                id=f"{request_id(request)}.{i}", kind="cds-feedback", caller=caller.name, panel=name,
                answer=outcome, versions={"simdx": __version__}, about=about,
            )
        )  # fmt: skip
    await asyncio.to_thread(store.append, entries)
    return Response(dump({}), media_type=JSON)


@router.get(
    f"{FHIR_BASE}/metadata",
    summary="FHIR CapabilityStatement",
    tags=["record systems"],
    responses={
        200: shaped("The statement", FHIR_MEDIA_TYPE),
        **documented(400, 421, 429, 500, 503, fhir=True),
    },
)
async def metadata(request: Request) -> Response:
    statement = fhir.capability_statement(house_of(request).base_url(request) + FHIR_BASE)
    return Response(dump(statement), media_type=FHIR_MEDIA_TYPE)


@router.post(
    f"{FHIR_BASE}/RiskAssessment",
    summary="One case as a FHIR R4 RiskAssessment",
    tags=["record systems"],
    responses={
        200: shaped("The resource", FHIR_MEDIA_TYPE),
        **documented(400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, fhir=True),
    },
)
async def risk_assessment(body: schemas.FhirBody, request: Request, caller: MayClassify) -> Response:
    house = house_of(request)
    subject = body.subject.model_dump(exclude_none=True) if body.subject else None

    def write(told: Told) -> bytes:
        return dump(
            fhir.risk_assessment(
                told.answers[0],
                house.registry.panel(body.panel),
                text=body.text,
                answer_id=f"{request_id(request)}.0",
                subject=subject,
                encounter=body.encounter.model_dump(exclude_none=True) if body.encounter else None,
            )
        )

    named = (subject or {}).get("reference")
    told = await house.ask(
        request, caller, body.panel, body.method, body.prior, [body.text], write=write,
        people={"patient": patient_reference(named)} if named else None,
    )  # fmt: skip
    return Response(told.sent, media_type=FHIR_MEDIA_TYPE, headers={"Simdx-Answer": request_id(request)})


def _service(house: House, caller: Caller, service: str) -> tuple[str, str]:
    """(panel, hook) of a service this caller may use."""
    panel, hook = cds.resolve(service, house.registry.names)
    check_panel(caller, panel)
    return panel, hook


def _asked_for(body: cds.Invocation) -> tuple[dict[str, str], dict[str, str]]:
    """Who asked through which hook, as it is recorded; and about whom, recorded as a keyed hash."""
    context = {"hook": body.hook, "hook_instance": str(body.hookInstance), "user": body.context.userId}
    people = {"patient": patient_reference(body.context.patientId)}
    if body.context.encounterId:
        people["encounter"] = body.context.encounterId
    return context, people
