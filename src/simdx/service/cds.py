"""CDS Hooks 2.0: the services we offer, what a call to one must look like, and the card that answers it.

Each panel is offered at two hooks. Service ids are `<panel>-patient-view` and `<panel>-order-select` and
stay what they are. The record system is asked for text through prefetch alone: nothing is fetched from
its FHIR server, and the access it may grant is ignored.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from simdx.service.problems import Problem
from simdx.types import Panel

HOOKS = ("patient-view", "order-select")
SUMMARY_LENGTH = 139  # the specification says fewer than 140 characters
PREFETCH = {
    "patient": "Patient/{{context.patientId}}",
    "documents": "DocumentReference?patient={{context.patientId}}&status=current&_sort=-date&_count=1",
    "responses": "QuestionnaireResponse?patient={{context.patientId}}&_sort=-authored&_count=1",
    "conditions": "Condition?patient={{context.patientId}}&_sort=-recorded-date&_count=1",
}
OVERRIDE_SYSTEM = "urn:simdx:override-reason"
OVERRIDE_REASONS = {
    "other-diagnosis": "The patient has another diagnosis",
    "not-applicable": "The panel's question does not apply to this patient",
    "text-incomplete": "The text does not describe the case",
}


_EXAMPLE_NOTE = base64.b64encode(b"A soft, bluish, painless swelling of the lower lip.").decode("ascii")


def service_id(panel: str, hook: str) -> str:
    return f"{panel}-{hook}"


def discovery(panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "services": [
            {
                "hook": hook,
                "id": service_id(panel.name, hook),
                "title": f"simdx: {panel.title or panel.name}",
                "description": (
                    f"Posterior over {len(panel.labels)} diagnoses ({', '.join(panel.names[:8])}) from the "
                    "latest note, questionnaire or condition, with its uncertainty and its reason to abstain."
                ),
                "prefetch": dict(PREFETCH),
                "usageRequirements": "Needs the text in the prefetch; does not query the FHIR server.",
            }
            for panel in panels
            for hook in HOOKS
        ]
    }


def resolve(service: str, panels: Sequence[str]) -> tuple[str, str]:
    """(panel, hook) of a service id."""
    for panel in panels:
        for hook in HOOKS:
            if service == service_id(panel, hook):
                return panel, hook
    raise Problem("not-found", "There is no CDS service with this id; see GET /cds-services.")


# --------------------------------------------------------------------------- what a call looks like


class Context(BaseModel):
    """Fields both hooks require; the specification lets a record system send more."""

    model_config = ConfigDict(extra="allow")

    userId: Annotated[str, Field(min_length=1, max_length=300)]
    patientId: Annotated[str, Field(min_length=1, max_length=300)]
    encounterId: Annotated[str | None, Field(max_length=300)] = None
    selections: list[str] | None = None
    draftOrders: dict[str, Any] | None = None


class Invocation(BaseModel):
    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "hook": "patient-view",
                    "hookInstance": "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea",
                    "context": {"userId": "Practitioner/example", "patientId": "1288992"},
                    "prefetch": {
                        "documents": {
                            "resourceType": "DocumentReference",
                            "id": "note-1",
                            "status": "current",
                            "content": [
                                {
                                    "attachment": {
                                        "contentType": "text/plain",
                                        "data": _EXAMPLE_NOTE,
                                    }
                                }
                            ],
                        }
                    },
                }
            ]
        },
    )

    hook: Literal["patient-view", "order-select"]
    hookInstance: uuid.UUID
    context: Context
    prefetch: dict[str, Any] | None = None
    fhirServer: Annotated[str | None, Field(max_length=2_000, pattern=r"^https?://\S+$")] = None
    fhirAuthorization: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _order_select(self) -> Invocation:
        if self.hook == "order-select":
            if not self.context.selections or self.context.draftOrders is None:
                raise PydanticCustomError(
                    "cds_rule", "order-select needs context.selections and context.draftOrders"
                )
            if self.context.draftOrders.get("resourceType") != "Bundle":
                raise PydanticCustomError("cds_rule", "context.draftOrders must be a FHIR Bundle")
        return self


class _Reason(BaseModel):
    model_config = ConfigDict(extra="allow")
    code: Annotated[str, Field(min_length=1, max_length=200)]
    system: Annotated[str | None, Field(max_length=500)] = None


class _Override(BaseModel):
    model_config = ConfigDict(extra="allow")
    reason: _Reason | None = None
    userComment: Annotated[str | None, Field(max_length=20_000)] = None


class _Accepted(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: uuid.UUID


class FeedbackItem(BaseModel):
    model_config = ConfigDict(extra="allow")

    card: uuid.UUID
    outcome: Literal["accepted", "overridden"]
    acceptedSuggestions: Annotated[list[_Accepted], Field(max_length=20)] | None = None
    overrideReason: _Override | None = None
    outcomeTimestamp: AwareDatetime

    @model_validator(mode="after")
    def _accepted_what(self) -> FeedbackItem:
        if self.outcome == "accepted" and not self.acceptedSuggestions:
            raise PydanticCustomError("cds_rule", "an accepted outcome lists acceptedSuggestions")
        return self


class Feedback(BaseModel):
    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "feedback": [
                        {
                            "card": "4e0a3a1e-3283-4575-ab82-028d55fe2719",
                            "outcome": "overridden",
                            "overrideReason": {"reason": {"code": "other-diagnosis"}},
                            "outcomeTimestamp": "2026-03-01T08:30:00Z",
                        }
                    ]
                }
            ]
        },
    )

    feedback: Annotated[list[FeedbackItem], Field(min_length=1, max_length=100)]


# --------------------------------------------------------------------------- the card


def card(
    answer: Mapping[str, Any],
    panel: Panel,
    *,
    card_id: uuid.UUID,
    base_url: str,
    assessment: Mapping[str, Any],
) -> dict[str, Any]:
    """One card: the leading label and the decision in a line, everything else in the detail."""
    decision = answer["decision"]
    leading = next(label for label in panel.labels if label.name == answer["label"])
    urgent = decision["action"] != "accept" or leading.must_not_miss
    return {
        "uuid": str(card_id),
        "summary": _summary(answer),
        "detail": _detail(answer, panel),
        "indicator": "warning" if urgent else "info",
        "source": {"label": f"simdx: {panel.title or panel.name}", "url": base_url + "/"},
        "suggestions": [
            {
                "label": "Record this assessment",
                "uuid": str(uuid.uuid5(card_id, "record")),
                "isRecommended": False,
                "actions": [
                    {
                        "type": "create",
                        "description": "Create a preliminary RiskAssessment with the whole posterior",
                        "resource": dict(assessment),
                    }
                ],
            }
        ],
        "selectionBehavior": "any",
        "overrideReasons": [
            {"code": code, "system": OVERRIDE_SYSTEM, "display": shown}
            for code, shown in OVERRIDE_REASONS.items()
        ],
        "links": [
            {
                "label": "Open this answer in simdx",
                "url": f"{base_url}/#answer={card_id.hex}.0",
                "type": "absolute",
            }
        ],
    }


def _summary(answer: Mapping[str, Any]) -> str:
    word = {"accept": "accept", "test": "test further", "review": "abstains, review"}
    label = answer["label"]
    p = answer["posterior"][label]
    shown = "over 99" if 0.995 <= p < 1 else f"{100 * p:.0f}"  # no certainty that is only rounding
    text = f"{label} {shown} %: {word[answer['decision']['action']]}"
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1] + "…"


def _detail(answer: Mapping[str, Any], panel: Panel) -> str:
    decision = answer["decision"]
    abstains = decision["action"] != "accept"
    lines = [f"**{'Abstains: ' if abstains else ''}{decision['action']}**: {decision['reason']}.", ""]
    lines += ["| label | posterior | prior |", "|---|---|---|"]
    for label, p in sorted(answer["posterior"].items(), key=lambda item: -item[1]):
        prior = answer["provenance"]["prior"][label]
        name = label.replace("|", "\\|")
        lines.append(f"| {name} | {100 * p:.1f} % | {100 * prior:.1f} % |")
    lines.append("")
    second = answer["second_order"]
    if second:
        lines.append(
            f"Uncertainty: {answer['entropy_bits']:.2f} bits in the posterior; on the simplex "
            f"{second['aleatoric_bits']:.2f} aleatoric and {second['epistemic_bits']:.2f} epistemic."
        )
    else:
        lines.append(f"Uncertainty: {answer['entropy_bits']:.2f} bits in the posterior.")
    if answer["out_of_class"] is not None:
        lines.append(f"None of these: {100 * answer['out_of_class']:.0f} %.")
    if panel.notice:
        lines += ["", f"*{' '.join(panel.notice.split())}*"]
    return "\n".join(lines)
