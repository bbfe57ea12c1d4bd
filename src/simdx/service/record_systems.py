"""Routes for record systems: CDS Hooks discovery, invocation and feedback, and FHIR RiskAssessment."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from simdx import __version__
from simdx.service import cds, fhir, schemas
from simdx.service.audit import Entry
from simdx.service.audit.record import patient_reference
from simdx.service.batching import Told
from simdx.service.cds_text import find_text
from simdx.service.house import MayClassify, house_of, request_id
from simdx.service.problems import Problem, documented
from simdx.service.routes import JSON
from simdx.service.wire import dump

router = APIRouter()
_ASKING = documented(400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503)
ServiceId = Annotated[str, Field(max_length=300)]


def _object(description: str) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": {"type": "object"}}}}


@router.get(
    "/cds-services",
    summary="CDS Hooks discovery",
    tags=["record systems"],
    responses={200: _object("Services"), **documented(400, 421, 429, 500, 503)},
)
async def discovery(request: Request) -> Response:
    registry = house_of(request).registry
    return Response(dump(cds.discovery([registry.panel(n) for n in registry.names])), media_type=JSON)


@router.post(
    "/cds-services/{service}",
    summary="CDS Hooks invocation (patient-view, order-select)",
    tags=["record systems"],
    responses={200: _object("Cards"), **_ASKING, **documented(412)},
)
async def invoke(service: ServiceId, body: cds.Invocation, request: Request, caller: MayClassify) -> Response:
    house = house_of(request)
    name, hook = cds.resolve(service, house.registry.names)
    if body.hook != hook:
        raise Problem("bad-input", f"hook: this service answers '{hook}'.")
    if body.prefetch is None or all(value is None for value in body.prefetch.values()):
        raise Problem(
            "missing-prefetch",
            "Send a DocumentReference, QuestionnaireResponse or Condition in the prefetch; none is fetched.",
        )
    found = find_text(body.prefetch)
    context, people = _asked_for(body)
    if found is None:
        nothing = dump({"cards": []})
        context["sent"] = hashlib.sha256(nothing).hexdigest()
        entry = Entry(
            f"{request_id(request)}.0", "cds", caller.name, name, versions={"simdx": __version__},
            context=context, people=people,
        )  # fmt: skip
        await asyncio.to_thread(house.record, [entry])
        return Response(nothing, media_type=JSON)
    panel = house.registry.panel(name)

    def write(told: Told) -> bytes:
        answer = told.answers[0]
        assessment = fhir.risk_assessment(
            answer,
            panel,
            text=found.text,
            answer_id=f"{request_id(request)}.0",
            subject={"reference": _patient(body.context.patientId)},
            basis={"reference": found.reference} if found.reference else None,
        )
        made = cds.card(
            answer,
            panel,
            card_id=uuid.UUID(hex=request_id(request)),
            base_url=house.base_url(request),
            assessment=assessment,
        )
        return dump({"cards": [made]})

    method = house.registry.methods[0]
    told = await house.ask(
        request, caller, name, method, None, [found.text], kind="cds", write=write, context=context,
        people=people,
    )  # fmt: skip
    return Response(told.sent, media_type=JSON)


@router.post(
    "/cds-services/{service}/feedback",
    summary="CDS Hooks feedback: what became of a card",
    tags=["record systems"],
    responses={200: _object("Recorded"), **_ASKING, **documented(409)},
)
async def cds_feedback(
    service: ServiceId, body: cds.Feedback, request: Request, caller: MayClassify
) -> Response:
    house = house_of(request)
    name, _ = cds.resolve(service, house.registry.names)
    store = house.log()
    entries = []
    for i, item in enumerate(body.feedback):
        about = f"{item.card.hex}.0"
        if await asyncio.to_thread(store.find, about) is None:
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


@router.post(
    "/v1/fhir/RiskAssessment",
    summary="One case as a FHIR R4 RiskAssessment",
    tags=["record systems"],
    responses={
        200: {"description": "The resource", "content": {fhir.MEDIA_TYPE: {"schema": {"type": "object"}}}},
        **_ASKING,
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
            )
        )

    named = (subject or {}).get("reference")
    told = await house.ask(
        request, caller, body.panel, body.method, body.prior, [body.text], write=write,
        people={"patient": patient_reference(named)} if named else None,
    )  # fmt: skip
    return Response(told.sent, media_type=fhir.MEDIA_TYPE, headers={"Simdx-Answer": request_id(request)})


def _patient(patient_id: str) -> str:
    """The context's patientId is the bare id; some record systems send the reference."""
    return patient_id if patient_id.startswith("Patient/") else f"Patient/{patient_id}"


def _asked_for(body: cds.Invocation) -> tuple[dict[str, str], dict[str, str]]:
    """Who asked through which hook, as it is recorded; and about whom, recorded as a keyed hash."""
    context = {"hook": body.hook, "hook_instance": str(body.hookInstance), "user": body.context.userId}
    people = {"patient": patient_reference(body.context.patientId)}
    if body.context.encounterId:
        people["encounter"] = body.context.encounterId
    return context, people


__all__ = ["router"]
