"""An answer as a FHIR R4 RiskAssessment: plain data, built to the letter of the specification.

One prediction a label, its probability a percentage as FHIR wants it. The software that made the
assessment and what it was made from travel inside as a contained Device and Provenance. The status is
always `preliminary`: nobody has looked at it yet.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from simdx import __version__
from simdx.types import Label, Panel

MEDIA_TYPE = "application/fhir+json"
ICD10 = "http://hl7.org/fhir/sid/icd-10"
SNOMED = "http://snomed.info/sct"
ANSWER_SYSTEM = "urn:simdx:answer"
_ACTIONS = {
    "accept": "No further step is asked for by the rule.",
    "test": "Further tests are advised before this is relied on.",
    "review": "{Who} should review the case: the posterior may not apply.",
}


def risk_assessment(
    answer: Mapping[str, Any],
    panel: Panel,
    *,
    text: str,
    answer_id: str,
    subject: Mapping[str, str] | None = None,
    basis: Mapping[str, str] | None = None,
    at: datetime | None = None,
) -> dict[str, Any]:
    """The resource for one answer. `basis` refers to the record the text came from, where there is one."""
    moment = (at or datetime.now(UTC)).isoformat(timespec="seconds").replace("+00:00", "Z")
    source = dict(basis) if basis else hashed_text(text)
    decision = answer["decision"]
    return {
        "resourceType": "RiskAssessment",
        "text": {"status": "generated", "div": _narrative(answer)},
        "contained": [_device(), _provenance(answer, source, moment)],
        "identifier": [{"system": ANSWER_SYSTEM, "value": answer_id}],
        "status": "preliminary",
        "method": {"text": _method(answer)},
        "code": {"text": f"Posterior over the panel '{panel.title or panel.name}'"},
        "subject": dict(subject) if subject else {"display": "Subject not stated"},
        "occurrenceDateTime": moment,
        "performer": {"reference": "#simdx", "display": f"simdx {__version__}"},
        "basis": [source],
        "prediction": [
            {
                "outcome": _concept(label),
                "probabilityDecimal": percentage(answer["posterior"][label.name]),
                "rationale": _rationale(label, answer),
            }
            for label in panel.labels
        ],
        "mitigation": f"{_advice(decision['action'], panel)} Reason: {decision['reason']}.",
        "note": [{"time": moment, "text": line} for line in _notes(answer, panel)],
    }


def percentage(probability: float) -> float:
    """FHIR's probabilityDecimal: 0 to 100, two decimals."""
    return round(min(1.0, max(0.0, probability)) * 100, 2)


def hashed_text(text: str) -> dict[str, Any]:
    """A reference to a text by its hash alone, named as RFC 6920 does."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    name = urlsafe_b64encode(digest).decode("ascii").rstrip("=")
    return {
        "identifier": {"system": "urn:ietf:rfc:3986", "value": f"ni:///sha-256;{name}"},
        "display": "Free-text description (by hash; the text itself is not included)",
    }


def _concept(label: Label) -> dict[str, Any]:
    codings = [{"system": ICD10, "code": code} for code in label.icd10]
    codings += [{"system": SNOMED, "code": code} for code in label.snomed]
    return {"coding": codings, "text": label.name} if codings else {"text": label.name}


def _rationale(label: Label, answer: Mapping[str, Any]) -> str:
    inside = answer["posterior_in_class"][label.name]
    prior = answer["provenance"]["prior"][label.name]
    return f"Prior {prior:.3f}; posterior {inside:.3f} given that the case is one of the panel's labels."


def _method(answer: Mapping[str, Any]) -> str:
    origin = answer["provenance"]
    return (
        f"Approximate Bayesian computation on simulated descriptions (method {answer['method']}, engine "
        f"{answer['engine']}, {origin['kernel']} kernel, embedder {origin['embedder']})"
    )


def _advice(action: str, panel: Panel) -> str:
    return _ACTIONS[action].format(Who="A clinician" if panel.is_clinical else "A person")


def _notes(answer: Mapping[str, Any], panel: Panel) -> list[str]:
    notes = [f"Entropy of the posterior: {answer['entropy_bits']:.2f} bits."]
    second = answer["second_order"]
    if second:
        notes.append(
            f"Uncertainty of the simplex posterior: {second['total_bits']:.2f} bits, of which "
            f"{second['aleatoric_bits']:.2f} aleatoric (left whatever is simulated) and "
            f"{second['epistemic_bits']:.2f} epistemic (doubt about the probabilities themselves)."
        )
    if answer["out_of_class"] is not None:
        notes.append(f"Probability that it is none of the panel's labels: {answer['out_of_class']:.2f}.")
    if panel.notice:
        notes.append(" ".join(panel.notice.split()))
    end = "; not a diagnosis." if panel.is_clinical else "."
    notes.append(f"Produced by software from free text and reviewed by nobody{end}")
    return notes


def _narrative(answer: Mapping[str, Any]) -> str:
    ranked = sorted(answer["posterior"].items(), key=lambda item: -item[1])
    rows = "".join(f"<li>{escape(label)}: {100 * p:.1f} %</li>" for label, p in ranked)
    decision = answer["decision"]
    return (
        '<div xmlns="http://www.w3.org/1999/xhtml">'
        f"<p>Decision: {escape(decision['action'])} ({escape(decision['reason'])})</p><ul>{rows}</ul></div>"
    )


def _device() -> dict[str, Any]:
    return {
        "resourceType": "Device",
        "id": "simdx",
        "status": "active",
        "deviceName": [{"name": "simdx", "type": "model-name"}],
        "version": [{"value": __version__}],
    }


def _provenance(answer: Mapping[str, Any], source: Mapping[str, Any], moment: str) -> dict[str, Any]:
    origin = answer["provenance"]
    return {
        "resourceType": "Provenance",
        "id": "provenance",
        "target": [{"reference": "#"}],
        "recorded": moment,
        "agent": [{"who": {"reference": "#simdx"}}],
        "entity": [
            {"role": "source", "what": dict(source)},
            {"role": "source", "what": {"display": f"Simulation bank {origin['bank']}"}},
            {"role": "source", "what": {"display": f"Embedder {origin['embedder']}"}},
        ],
    }
