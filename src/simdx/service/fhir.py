"""An answer as a FHIR R4 RiskAssessment: plain data, built to the letter of the specification.

One prediction a label and one for none of them, probabilities as percentages as FHIR wants them, which sum
to 100. The software that made the assessment and what it was made from travel inside as a contained Device
and Provenance. The status is always `preliminary`: nobody has looked at it yet.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from simdx import __version__
from simdx.answer import action_words
from simdx.service.audit_chain import now, patient_reference
from simdx.service.batching import Ask
from simdx.service.state import MayClassify, state_of
from simdx.service.wire import (
    FHIR_BASE,
    FHIR_MEDIA_TYPE,
    Body,
    Json,
    OfCase,
    Text,
    dump,
    parse,
    refusals,
    takes,
)
from simdx.types import NONE_OF_THESE, Label, Panel

_RESOURCE = {"description": "The resource", "content": {FHIR_MEDIA_TYPE: {"schema": {"type": "object"}}}}
_REFUSALS = refusals(FHIR_MEDIA_TYPE, type="object", description="An OperationOutcome")
router = APIRouter(responses={200: _RESOURCE, **_REFUSALS})
RELEASED = "2026-11-01"  # when the statement below last changed
ICD10 = "http://hl7.org/fhir/sid/icd-10"
SNOMED = "http://snomed.info/sct"
OUTCOME_SYSTEM = "urn:simdx:outcome"
DEVICE = {
    "resourceType": "Device",
    "id": "simdx",
    "status": "active",
    "deviceName": [{"name": "simdx", "type": "model-name"}],
    "version": [{"value": __version__}],
}
_ACTIONS = {
    "accept": "No further step is asked for by the rule.",
    "likely": "Likely, but not confirmed: the panel is not tested enough to be relied on alone.",
    "test": "{More} are advised before this is relied on.",
    "review": "{Who} should review the case: the posterior may not apply.",
}


def assessment_of(
    answer: Mapping[str, Any],
    panel: Panel,
    *,
    text: str,
    answer_id: str,
    subject: Mapping[str, str] | None = None,
    encounter: Mapping[str, str] | None = None,
    basis: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The resource for one answer. `basis` refers to the record the text came from, where there is one."""
    moment = now("seconds")
    source = basis or hashed_text(text)
    decision = answer["decision"]
    who, more = ("A clinician", "Further tests") if panel.is_clinical else ("A person", "Further checks")
    advice = _ACTIONS[decision["action"]].format(Who=who, More=more)
    return {
        "resourceType": "RiskAssessment",
        "text": {"status": "generated", "div": _narrative(answer, panel)},
        "contained": [DEVICE, _provenance(answer, source, moment)],
        "identifier": [{"system": "urn:simdx:answer", "value": answer_id}],
        "status": "preliminary",
        "method": {"text": _method(answer)},
        "code": {"text": f"Posterior over the panel '{panel.title or panel.name}'"},
        "subject": subject or {"display": "Subject not stated"},
        **({"encounter": encounter} if encounter else {}),
        "occurrenceDateTime": moment,
        "performer": {"reference": "#simdx", "display": f"simdx {__version__}"},
        "basis": [source],
        "prediction": _predictions(answer, panel),
        "mitigation": f"{advice} Reason: {decision['reason']}.",
        "note": [{"time": moment, "text": line} for line in _notes(answer, panel)],
    }


def percentages(probabilities: Sequence[float]) -> list[float]:
    """FHIR's probabilityDecimal, with two decimals; to sum to 100, the largest remainders are rounded up."""
    exact = [max(0.0, p) for p in probabilities]
    exact = [10_000 * p / sum(exact) for p in exact]
    whole = [int(v) for v in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])
    for i in by_remainder[: 10_000 - sum(whole)]:
        whole[i] += 1
    return [v / 100 for v in whole]


def hashed_text(text: str) -> dict[str, Any]:
    """A reference to a text by its hash alone, named as RFC 6920 does."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    name = urlsafe_b64encode(digest).decode("ascii").rstrip("=")
    return {
        "identifier": {"system": "urn:ietf:rfc:3986", "value": f"ni:///sha-256;{name}"},
        "display": "Free-text description (by hash; the text itself is not included)",
    }


def _predictions(answer: Mapping[str, Any], panel: Panel) -> list[dict[str, Any]]:
    among, prior, shares = answer["among_labels"], answer["provenance"]["prior"], answer["posterior"]
    shown = dict(zip(shares, percentages(list(shares.values())), strict=True))
    given = "given that the case is one of the panel's labels"
    told = [
        (name, _concept(label), f"Prior {prior[name]:.3f}; posterior {among[name]:.3f} {given}.")
        for name, label in zip(panel.names, panel.labels, strict=True)
    ]
    if NONE_OF_THESE in shown:
        coding = {"system": OUTCOME_SYSTEM, "code": "none-of-these", "display": "None of these"}
        concept = {"coding": [coding], "text": "None of the panel's labels"}
        compared = "Compared with simulated descriptions of other things than the panel's labels."
        told.append((NONE_OF_THESE, concept, compared))
    return [
        {"outcome": concept, "probabilityDecimal": shown[name], "rationale": rationale}
        for name, concept, rationale in told
    ]


def _concept(label: Label) -> dict[str, Any]:
    """The label and its codes. A code's display is the panel's name for it, not the terminology's."""
    codes = [(ICD10, code) for code in label.icd10] + [(SNOMED, code) for code in label.snomed]
    codings = [{"system": system, "code": code, "display": label.name} for system, code in codes]
    return {**({"coding": codings} if codings else {}), "text": label.name}


def _method(answer: Mapping[str, Any]) -> str:
    origin = answer["provenance"]
    return (
        f"Approximate Bayesian computation on simulated descriptions (method {answer['method']}, engine "
        f"{answer['engine']}, {origin['kernel']} kernel, embedder {origin['embedder']})"
    )


def _notes(answer: Mapping[str, Any], panel: Panel) -> list[str]:
    notes = [f"Entropy of the posterior: {answer['entropy_bits']:.2f} bits."]
    second = answer["second_order"]
    if second:
        notes.append(
            f"Uncertainty of the second comparison (D-SMC): {second['total_bits']:.2f} bits, of which "
            f"{second['aleatoric_bits']:.2f} aleatoric (left whatever is simulated) and "
            f"{second['epistemic_bits']:.2f} epistemic (doubt about the probabilities themselves)."
        )
    if panel.notice:
        notes.append(" ".join(panel.notice.split()))
    end = "; not a diagnosis." if panel.is_clinical else "."
    notes.append(f"Produced by software from free text and reviewed by nobody{end}")
    return notes


def _narrative(answer: Mapping[str, Any], panel: Panel) -> str:
    ranked = sorted(answer["posterior"].items(), key=lambda item: -item[1])
    rows = "".join(f"<li>{escape(label)}: {100 * p:.1f} %</li>" for label, p in ranked)
    decision = answer["decision"]
    said = action_words(decision["action"], panel.is_clinical)
    return (
        '<div xmlns="http://www.w3.org/1999/xhtml">'
        f"<p>{said}: {escape(decision['reason'])}</p><ul>{rows}</ul></div>"
    )


def _provenance(answer: Mapping[str, Any], source: Mapping[str, Any], moment: str) -> dict[str, Any]:
    origin = answer["provenance"]
    used = (f"Simulation bank {origin['bank']}", f"Embedder {origin['embedder']}")
    return {
        "resourceType": "Provenance",
        "id": "provenance",
        "target": [{"reference": "#"}],
        "recorded": moment,
        "agent": [{"who": {"reference": "#simdx"}}],
        "entity": [{"role": "source", "what": what} for what in (source, *({"display": n} for n in used))],
    }


# --------------------------------------------------------------------------- the FHIR face


def capability_statement(base_url: str) -> dict[str, Any]:
    """What the FHIR face can do: state this, and answer one POST that is no FHIR interaction."""
    made = "Made from a text on POST; not kept, not read, not searched."
    return {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": RELEASED,
        "kind": "instance",
        "software": {"name": "simdx", "version": __version__},
        "implementation": {"description": "simdx", "url": base_url},
        "fhirVersion": "4.0.1",
        "format": ["json"],
        "rest": [{
            "mode": "server",
            "documentation": (
                "No resource is stored or searched. POST RiskAssessment takes simdx's own JSON (a panel, a "
                "text, a subject), not a resource, and answers with one: see /openapi.json."
            ),
            "security": {
                "cors": False,
                "description": "A bearer token of the service's own. SMART App Launch is not supported.",
            },
            "resource": [{"type": "RiskAssessment", "documentation": made}],
        }],
    }  # fmt: skip


def _reference(kind: str) -> Any:
    return Field(pattern=rf"^{kind}/[A-Za-z0-9.\-]{{1,64}}$", description=f"{kind}/ID, on your own server.")


class _Reference(Body):
    display: Annotated[str | None, Field(max_length=200, pattern=r"^[^\x00-\x1f]*\S[^\x00-\x1f]*$")] = None


class Subject(_Reference):
    reference: str = _reference("Patient")


class Encounter(_Reference):
    reference: str = _reference("Encounter")


class FhirBody(OfCase):
    """A case to be answered as a FHIR R4 RiskAssessment."""

    text: Text
    subject: Subject | None = None
    encounter: Encounter | None = None


@router.get(f"{FHIR_BASE}/metadata", summary="FHIR CapabilityStatement")
async def metadata(request: Request) -> Response:
    statement = capability_statement(state_of(request).base_url(request) + FHIR_BASE)
    return Json(statement, media_type=FHIR_MEDIA_TYPE)


@router.post(
    f"{FHIR_BASE}/RiskAssessment",
    summary="One case as a FHIR R4 RiskAssessment",
    openapi_extra=takes(FhirBody),
)
async def risk_assessment(request: Request, caller: MayClassify) -> Response:
    body, state = parse(FhirBody, request), state_of(request)
    about = body.model_dump(include={"subject", "encounter"}, exclude_none=True)

    def write(told: Ask) -> bytes:
        panel, answer = state.registry.panel(body.panel), told.answers[0].to_json()
        return dump(assessment_of(answer, panel, text=body.text, answer_id=f"{told.request}.0", **about))

    people = {"patient": patient_reference(body.subject.reference)} if body.subject else {}
    ask = state.asked(
        request, caller, body.panel, body.method, body.prior, [body.text], write=write, people=people
    )
    return await state.answered(request, ask, FHIR_MEDIA_TYPE)
