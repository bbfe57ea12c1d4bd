"""CDS Hooks 2.0: the services we offer, what a call to one must look like, and the card that answers it.

Each panel is offered at two hooks. Service ids are `<panel>-patient-view` and `<panel>-order-select` and
stay what they are. The record system is asked for text through prefetch; its FHIR server only for attachments
that the prefetch links to (`record_servers`).
"""

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from simdx.answer import ACTIONS, NO_PROMISE, leading
from simdx.service.problems import Problem
from simdx.service.schemas import shown
from simdx.types import NONE_OF_THESE, Panel

HOOKS = ("patient-view", "order-select")
SUMMARY_LENGTH = 139  # the specification says fewer than 140 characters
# A hook is called for every chart, and most are about something else. A card names a label, so there is none
# where the answer itself says that no label may apply: the same limits send it to review by default.
NONE_IS_LIKELY = 0.5  # probability of none of these from which on that is the best guess
UNLIKE = 0.01  # typicality below which the text is unlike any simulated description
PREFETCH = {
    "patient": "Patient/{{context.patientId}}",
    "documents": "DocumentReference?patient={{context.patientId}}&status=current&_sort=-date&_count=1",
    "responses": "QuestionnaireResponse?patient={{context.patientId}}&_sort=-authored&_count=1",
    "conditions": "Condition?patient={{context.patientId}}&_sort=-recorded-date&_count=1",
}
USAGE = "Needs the notes in the prefetch; reads only attachments they link to, where the operator allows it."
OVERRIDE_SYSTEM = "urn:simdx:override-reason"
OVERRIDE_REASONS = {
    "other-diagnosis": "The patient has another diagnosis",
    "not-applicable": "The panel's question does not apply to this patient",
    "text-incomplete": "The text does not describe the case",
}
_EXAMPLE_NOTE = base64.b64encode(b"A soft, bluish, painless swelling of the lower lip.").decode("ascii")


def discovery(panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "services": [
            {
                "hook": hook,
                "id": f"{panel.name}-{hook}",
                "title": f"simdx: {panel.title or panel.name}",
                "description": (
                    f"Posterior over {len(panel.labels)} diagnoses ({', '.join(panel.names[:8])}) from the "
                    "latest note or questionnaire, with its uncertainty and its reason to abstain. No card "
                    "where the text is more likely about none of them."
                ),
                "prefetch": dict(PREFETCH),
                "usageRequirements": USAGE,
            }
            for panel in panels
            for hook in HOOKS
        ]
    }


def resolve(service: str, panels: Sequence[str]) -> tuple[str, str]:
    """(panel, hook) of a service id."""
    for panel in panels:
        for hook in HOOKS:
            if service == f"{panel}-{hook}":
                return panel, hook
    raise Problem("not-found", "There is no CDS service with this id; see GET /cds-services.")


# --------------------------------------------------------------------------- what a call looks like


class _Sent(BaseModel):
    """The specification lets a record system send more than it names: nothing of it is kept."""

    model_config = ConfigDict(extra="ignore")


Selection = Annotated[str, Field(max_length=300)]


class Context(_Sent):
    """Fields both hooks require."""

    userId: Annotated[str, Field(min_length=1, max_length=300)]
    # Bare ids; some record systems send the reference.
    patientId: Annotated[str, Field(pattern=r"^(Patient/)?[A-Za-z0-9.\-]{1,64}$")]
    encounterId: Annotated[str | None, Field(pattern=r"^(Encounter/)?[A-Za-z0-9.\-]{1,64}$")] = None
    selections: Annotated[list[Selection], Field(max_length=500, fail_fast=True)] | None = None
    draftOrders: dict[str, Any] | None = None

    @property
    def patient(self) -> str:
        return self.patientId.removeprefix("Patient/")

    @property
    def encounter(self) -> dict[str, str] | None:
        if self.encounterId is None:
            return None
        return {"reference": f"Encounter/{self.encounterId.removeprefix('Encounter/')}"}


class FhirAuthorization(_Sent):
    access_token: SecretStr
    token_type: Annotated[str, Field(pattern=r"^[Bb]earer$")]


class Invocation(_Sent):
    model_config = shown({
        "hook": "patient-view",
        "hookInstance": "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea",
        "context": {"userId": "Practitioner/example", "patientId": "1288992"},
        "prefetch": {"documents": {
            "resourceType": "DocumentReference", "id": "note-1", "status": "current",
            "subject": {"reference": "Patient/1288992"},
            "content": [{"attachment": {"contentType": "text/plain", "data": _EXAMPLE_NOTE}}],
        }},
    })  # fmt: skip

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


class _Reason(_Sent):
    code: Annotated[str, Field(min_length=1, max_length=200)]


class _Override(_Sent):
    reason: _Reason | None = None  # the user's comment beside it is free text about a patient: not taken


class _Accepted(_Sent):
    id: uuid.UUID


class FeedbackItem(_Sent):
    card: uuid.UUID
    outcome: Literal["accepted", "overridden"]
    acceptedSuggestions: Annotated[list[_Accepted], Field(max_length=20, fail_fast=True)] | None = None
    overrideReason: _Override | None = None
    outcomeTimestamp: AwareDatetime

    @model_validator(mode="after")
    def _accepted_what(self) -> Self:
        if self.outcome == "accepted" and not self.acceptedSuggestions:
            raise PydanticCustomError("cds_rule", "an accepted outcome lists acceptedSuggestions")
        return self


class Feedback(_Sent):
    model_config = shown({"feedback": [{
        "card": "4e0a3a1e-3283-4575-ab82-028d55fe2719", "outcome": "overridden",
        "overrideReason": {"reason": {"code": "other-diagnosis"}}, "outcomeTimestamp": "2026-03-01T08:30:00Z",
    }]})  # fmt: skip

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


def card(
    answer: Mapping[str, Any],
    panel: Panel,
    *,
    card_id: uuid.UUID,
    base_url: str,
    assessment: Mapping[str, Any],
    read: str,
    unread: Sequence[str],
) -> dict[str, Any]:
    """One card; `read` names the resource the text came from, `unread` those left out, and why."""
    label, action = answer["label"], answer["decision"]["action"]
    urgent = action in ("test", "review") or any(
        one.must_not_miss for one in panel.labels if one.name == label
    )
    summary = f"{ACTIONS[action]}: {leading(label, answer['posterior'])}"
    create = {
        "type": "create",
        "description": "Create a preliminary RiskAssessment with the whole posterior",
        "resource": dict(assessment),
    }
    address = f"{base_url}/#answer={card_id.hex}.0"
    return {
        "uuid": str(card_id),
        "summary": summary if len(summary) <= SUMMARY_LENGTH else summary[: SUMMARY_LENGTH - 1] + "…",
        "detail": _detail(answer, panel, read, unread),
        "indicator": "warning" if urgent else "info",
        "source": {"label": f"simdx: {panel.title or panel.name}", "url": base_url + "/"},
        "suggestions": [
            {
                "label": "Record this assessment",
                "uuid": str(uuid.uuid5(card_id, "record")),
                "isRecommended": False,
                "actions": [create],
            }
        ],
        "selectionBehavior": "any",
        "overrideReasons": [
            {"code": code, "system": OVERRIDE_SYSTEM, "display": shown}
            for code, shown in OVERRIDE_REASONS.items()
        ],
        "links": [{"label": "Open this answer in simdx", "url": address, "type": "absolute"}],
    }


def _detail(answer: Mapping[str, Any], panel: Panel, read: str, unread: Sequence[str]) -> str:
    decision = answer["decision"]
    abstains = decision["action"] in ("test", "review")
    said = f"{'Abstains: ' if abstains else ''}{ACTIONS[decision['action']]}"
    promise = "" if decision["action"] != "accept" else f" ({decision['promise'] or NO_PROMISE})"
    lines = [f"**{said}**{promise}: {decision['reason']}.", ""]
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
