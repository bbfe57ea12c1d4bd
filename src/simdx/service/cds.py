"""CDS Hooks 2.0: discovery, what a call must look like, the card that answers it, and what became of it.

Each panel is offered at two hooks. Service ids are `<panel>-patient-view` and `<panel>-order-select` and
stay what they are. The record system is asked for text through prefetch; its FHIR server only for attachments
that the prefetch links to (`record_servers`).
"""

import asyncio
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from simdx import __version__
from simdx.answer import NO_PROMISE, Answer, action_words, leading
from simdx.service.audit_chain import Entry, patient_reference
from simdx.service.auth import Caller
from simdx.service.batching import Ask
from simdx.service.chart import first_text, read_chart
from simdx.service.fhir import assessment_of
from simdx.service.state import AppState, MayClassify, check_panel, request_id, state_of
from simdx.service.wire import Json, Problem, dump, parse, takes
from simdx.types import NONE_OF_THESE, Panel

router = APIRouter()
HOOKS = ("patient-view", "order-select")
SUMMARY_LENGTH = 139  # the specification says fewer than 140 characters
# A hook is called for every chart, and most are about something else. A card names a label, so there is none
# where the answer itself says that no label may apply: the same limits send it to review by default.
NONE_IS_LIKELY = 0.5  # probability of none of these from which on that is the best guess
EMERGENCY_IS_LIKELY = 0.25  # probability from which on the emergency nearest to none of these has a card
UNLIKE = 0.01  # typicality below which the text is unlike any simulated description
PREFETCH = {
    "patient": "Patient/{{context.patientId}}",
    "documents": "DocumentReference?patient={{context.patientId}}&status=current&_sort=-date&_count=1",
    "responses": "QuestionnaireResponse?patient={{context.patientId}}&_sort=-authored&_count=1",
    "conditions": "Condition?patient={{context.patientId}}&_sort=-recorded-date&_count=1",
}
USAGE = "Needs the notes in the prefetch; reads only attachments they link to, where the operator allows it."
OVERRIDE_REASONS = {
    "other-diagnosis": "Another label is right",
    "not-applicable": "The panel's question does not apply to this case",
    "text-incomplete": "The text does not describe the case",
}


# --------------------------------------------------------------------------- what a call looks like

# The specification lets a record system send more than it names: nothing of it is kept.
Selection = Annotated[str, Field(max_length=300)]
# Bare ids; some record systems send the reference.
_bare = AfterValidator(lambda stated: stated.rpartition("/")[2])
PatientId = Annotated[str, Field(pattern=r"^(Patient/)?[A-Za-z0-9.\-]{1,64}$"), _bare]
EncounterId = Annotated[str, Field(pattern=r"^(Encounter/)?[A-Za-z0-9.\-]{1,64}$"), _bare]


class Context(BaseModel):
    """Fields both hooks require."""

    userId: Annotated[str, Field(min_length=1, max_length=300)]
    patientId: PatientId
    encounterId: EncounterId | None = None
    selections: Annotated[list[Selection], Field(max_length=500, fail_fast=True)] | None = None
    draftOrders: dict[str, Any] | None = None


class FhirAuthorization(BaseModel):
    access_token: SecretStr
    token_type: Annotated[str, Field(pattern=r"^[Bb]earer$")]


class Invocation(BaseModel):
    hook: Literal["patient-view", "order-select"]
    hookInstance: uuid.UUID
    context: Context
    prefetch: Annotated[dict[str, Any], Field(max_length=50)] | None = None
    fhirServer: Annotated[str | None, Field(max_length=2_000, pattern=r"^https?://\S+$")] = None
    fhirAuthorization: FhirAuthorization | None = None

    @property
    def token(self) -> str | None:
        return self.fhirAuthorization.access_token.get_secret_value() if self.fhirAuthorization else None

    @model_validator(mode="after")
    def _order_select(self) -> Self:
        orders = self.context.draftOrders
        if self.hook == "order-select":
            if not self.context.selections or orders is None:
                said = "order-select needs context.selections and context.draftOrders"
                raise PydanticCustomError("cds_rule", said)
            if orders.get("resourceType") != "Bundle":
                raise PydanticCustomError("cds_rule", "context.draftOrders must be a FHIR Bundle")
        return self


class _Reason(BaseModel):
    code: Annotated[str, Field(min_length=1, max_length=200)]


class _Override(BaseModel):
    reason: _Reason | None = None  # the user's comment beside it is free text about a patient: not taken


class FeedbackItem(BaseModel):
    card: uuid.UUID
    outcome: Literal["accepted", "overridden"]
    acceptedSuggestions: Annotated[list[dict[str, Any]], Field(max_length=20, fail_fast=True)] | None = None
    overrideReason: _Override | None = None
    outcomeTimestamp: AwareDatetime

    @model_validator(mode="after")
    def _accepted_what(self) -> Self:
        if self.outcome == "accepted" and not self.acceptedSuggestions:
            raise PydanticCustomError("cds_rule", "an accepted outcome lists acceptedSuggestions")
        return self


class Feedback(BaseModel):
    feedback: Annotated[list[FeedbackItem], Field(min_length=1, max_length=100, fail_fast=True)]


# --------------------------------------------------------------------------- the card


def reply(cards: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> dict[str, Any]:
    """The response; where there is no card, notes say why in the place that is reserved for extensions."""
    out: dict[str, Any] = {"cards": list(cards)}
    if notes:
        out["extension"] = {"simdx": {"notes": list(notes)}}
    return out


def why_no_card(answer: Mapping[str, Any]) -> str | None:
    """What an answer says that would make a card with a label mislead, or None."""
    outside, typicality = answer["out_of_class"], answer["typicality"]
    if outside is not None and (outside >= NONE_IS_LIKELY or answer.get("label") == NONE_OF_THESE):
        return f"more likely none of these than any label (probability {outside:.2f})"
    if typicality is not None and typicality < UNLIKE:
        return f"unlike the descriptions the panel knows (typicality {typicality:.3f})"
    return None


def emergency_card(
    answer: Answer, panel: Panel, *, card_id: uuid.UUID, base_url: str, read: str, unread: Sequence[str]
) -> dict[str, Any] | None:
    """Where an answer names no label of the panel: a card if the nearest condition is an emergency.

    None of a text that is unlike a case, or where many conditions are as near: most charts are about another
    question, and a card at each would be read at none. The reason names the emergency all the same.
    """
    near = answer.outside.nearest[:1] if answer.outside is not None else ()
    words = answer.outside_words
    if words is None or not words.startswith(NONE_OF_THESE) or not near or not near[0].emergency:
        return None
    if near[0].probability < EMERGENCY_IS_LIKELY or (answer.typicality or 0.0) < UNLIKE:
        return None
    found = answer.to_json()
    return {
        **_shown(card_id, panel, base_url, words, urgent=True),
        "detail": _detail(found, panel, read, unread, words),
    }


def _shown(card_id: uuid.UUID, panel: Panel, base_url: str, summary: str, *, urgent: bool) -> dict[str, Any]:
    """What every card has."""
    address = f"{base_url}/#answer={card_id.hex}.0"
    short = summary if len(summary) <= SUMMARY_LENGTH else summary[: SUMMARY_LENGTH - 1] + "…"
    return {
        "uuid": str(card_id),
        "summary": short[:1].upper() + short[1:],
        "indicator": "warning" if urgent else "info",
        "source": {"label": f"simdx: {panel.title or panel.name}", "url": base_url + "/"},
        "overrideReasons": [
            {"code": code, "system": "urn:simdx:override-reason", "display": said}
            for code, said in OVERRIDE_REASONS.items()
        ],
        "links": [{"label": "Open this answer in simdx", "url": address, "type": "absolute"}],
    }


def card(
    answer: Mapping[str, Any],
    panel: Panel,
    *,
    card_id: uuid.UUID,
    base_url: str,
    assessment: Mapping[str, Any],
    read: str,
    unread: Sequence[str],
    also: str | None = None,
) -> dict[str, Any]:
    """One card; `read` names the resource the text came from, `unread` those left out, and why; `also` is
    what the text may be besides."""
    label, action = answer["label"], answer["decision"]["action"]
    missed = [one.name for one in panel.labels if one.must_not_miss]
    urgent = action in ("test", "review") or label in missed
    summary = f"{action_words(action, panel.is_clinical)}: {leading(label, answer['posterior'])}"
    said = "Create a preliminary RiskAssessment with the whole posterior"
    create = {"type": "create", "description": said, "resource": assessment}
    return {
        **_shown(card_id, panel, base_url, summary, urgent=urgent),
        "detail": _detail(answer, panel, read, unread, also),
        "suggestions": [{
            "label": "Record this assessment", "uuid": str(uuid.uuid5(card_id, "record")),
            "isRecommended": False, "actions": [create],
        }],
        "selectionBehavior": "any",
    }  # fmt: skip


def _detail(
    answer: Mapping[str, Any], panel: Panel, read: str, unread: Sequence[str], also: str | None = None
) -> str:
    decision = answer["decision"]
    action = decision["action"]
    said = f"{'Abstains: ' if action in ('test', 'review') else ''}{action_words(action, panel.is_clinical)}"
    promise = f" ({decision['promise'] or NO_PROMISE})" if action == "accept" else ""
    lines = [f"**{said}**{promise}: {decision['reason']}.", ""]
    lines += [f"**{also[0].upper()}{also[1:]}.**", ""] if also else []
    lines += [f"Read: {read}.", *(f"Not read: {line}." for line in unread), ""]
    lines += ["| label | probability | prior |", "|---|---|---|"]
    for label, p in sorted(answer["posterior"].items(), key=lambda item: -item[1]):
        prior = answer["provenance"]["prior"].get(label)
        name = label.replace("|", "\\|")
        lines.append(f"| {name} | {100 * p:.1f} % | {'' if prior is None else f'{100 * prior:.1f} %'} |")
    if answer["calibration"] is not None:
        said = answer["calibration"]["sentence"]
        lines += ["", f"{said[0].upper()}{said[1:]}."]
    if panel.notice:
        lines += ["", f"*{' '.join(panel.notice.split())}*"]
    return "\n".join(lines)


# --------------------------------------------------------------------------- routes

ServiceId = Annotated[str, Field(max_length=300)]


@router.get("/cds-services", summary="CDS Hooks discovery")
async def discovery(request: Request) -> Response:
    registry = state_of(request).registry
    services = []
    for panel in map(registry.panel, registry.names):
        about = (
            f"Posterior over {len(panel.labels)} diagnoses ({', '.join(panel.names[:8])}) from the latest "
            "note or questionnaire, with its uncertainty and its reason to abstain. No card where the text "
            "is more likely about none of them."
        )
        same = {"title": f"simdx: {panel.title or panel.name}", "description": about, "prefetch": PREFETCH,
                "usageRequirements": USAGE}  # fmt: skip
        services += [{"hook": hook, "id": f"{panel.name}-{hook}", **same} for hook in HOOKS]
    return Json({"services": services})


def _service(state: AppState, caller: Caller, service: str) -> tuple[str, str]:
    """(panel, hook) of a service this caller may use."""
    for panel in state.registry.names:
        for hook in HOOKS:
            if service == f"{panel}-{hook}":
                check_panel(caller, panel)
                return panel, hook
    raise Problem("not-found", "There is no CDS service with this id; see GET /cds-services.")


@router.post(
    "/cds-services/{service}",
    summary="CDS Hooks invocation (patient-view, order-select)",
    openapi_extra=takes(Invocation),
)
async def invoke(service: ServiceId, request: Request, caller: MayClassify) -> Response:
    body, state = parse(Invocation, request), state_of(request)
    name, hook = _service(state, caller, service)
    if body.hook != hook:
        raise Problem("bad-input", f"hook: this service answers '{hook}'.")
    if body.prefetch is None or all(value is None for value in body.prefetch.values()):
        said = "Send a DocumentReference, QuestionnaireResponse or Condition in the prefetch."
        raise Problem("missing-prefetch", said)
    panel, patient = state.registry.panel(name), body.context.patientId
    codes = frozenset(code for label in panel.labels for code in (*label.icd10, *label.snomed))
    server = body.fhirServer.rstrip("/") if body.fhirServer else None
    chart = await asyncio.to_thread(read_chart, body.prefetch, patient, server, codes)
    config = state.config
    text, source, unread = await first_text(chart, server, body.token, config.fhir_servers, config.limits)
    # Who asked through which hook is recorded; about whom, as a keyed hash.
    context = {"hook": body.hook, "hook_instance": str(body.hookInstance), "user": body.context.userId}
    people = {"patient": patient_reference(patient)}
    if body.context.encounterId:
        people["encounter"] = body.context.encounterId
    answer_id = f"{request_id(request)}.0"
    if source is None:
        nothing = dump(reply([], unread))
        if state.audit is not None:
            context["sent"] = hashlib.sha256(nothing).hexdigest()
            about: Any = {"versions": {"simdx": __version__}, "context": context, "people": people}
            await state.record([Entry(answer_id, "cds", caller.name, name, **about)])
        return Json(nothing)

    def write(told: Ask) -> bytes:
        found = told.answers[0]
        answer, near = found.to_json(), found.outside_words
        made_of: Any = {
            "card_id": uuid.UUID(hex=request_id(request)), "base_url": state.base_url(request),
            "read": source.words, "unread": unread,
        }  # fmt: skip
        if why := why_no_card(answer):
            if (urgent := emergency_card(found, panel, **made_of)) is not None:
                return dump(reply([urgent], [f"No card of a label: {source.words} is {why}"]))
            why = f"{why}; {near}" if near else why
            return dump(reply([], [f"No card: {source.words} is {why}", *unread]))
        encounter = {"reference": f"Encounter/{people['encounter']}"} if "encounter" in people else None
        basis = {"reference": source.reference, "display": source.words} if source.reference else None
        assessment = assessment_of(
            answer, panel, text=text, answer_id=answer_id, encounter=encounter, basis=basis,
            subject={"reference": f"Patient/{patient}"},
        )  # fmt: skip
        return dump(reply([card(answer, panel, assessment=assessment, also=near, **made_of)]))

    ask = state.asked(
        request, caller, name, state.registry.methods[0], None, [text], kind="cds", write=write,
        context=context, people=people,
    )  # fmt: skip
    return Json((await state.tell(ask)).sent)


@router.post(
    "/cds-services/{service}/feedback",
    summary="CDS Hooks feedback: what became of a card",
    openapi_extra=takes(Feedback),
)
async def cds_feedback(service: ServiceId, request: Request, caller: MayClassify) -> Response:
    body, state = parse(Feedback, request), state_of(request)
    name, _ = _service(state, caller, service)
    judged, said = [], "A card of this feedback is not one this service has sent."
    for item in body.feedback:
        found = await state.find(f"{item.card.hex}.0", caller, said)
        if (found.kind, found.panel) != ("cds", name):
            raise Problem("unknown-answer", said)
        reason = item.overrideReason and item.overrideReason.reason
        # A user's comment is free text about a patient, and so may be a code we did not offer: not kept.
        known = reason.code if reason and reason.code in OVERRIDE_REASONS else "other"
        outcome = {
            "outcome": item.outcome,
            "reason": known if reason else None,
            "suggestions": len(item.acceptedSuggestions or ()),
            "at": item.outcomeTimestamp.isoformat(),
        }
        judged.append((found, outcome))
    await state.record_judgement(request, caller, "cds-feedback", *judged)
    return Json({})
