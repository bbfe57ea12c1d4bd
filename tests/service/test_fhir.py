"""RiskAssessment to the letter: the R4B models accept it, and what they do not check is checked here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from fhir.resources.R4B.device import Device
from fhir.resources.R4B.provenance import Provenance
from fhir.resources.R4B.riskassessment import RiskAssessment
from starlette.testclient import TestClient

from simdx.panels import load_panel
from simdx.service import fhir
from tests.service.conftest import PANEL, TEXT

STATUS = {
    "registered", "preliminary", "final", "amended", "corrected", "cancelled", "entered-in-error", "unknown",
}  # fmt: skip
ENTITY_ROLES = {"derivation", "revision", "quotation", "source", "removal"}


@pytest.fixture
def resource(client: TestClient) -> dict:
    body = {"panel": PANEL, "text": TEXT, "subject": {"reference": "Patient/42", "display": "Test"}}
    reply = client.post("/v1/fhir/RiskAssessment", json=body)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/fhir+json"
    return reply.json()


def check_assessment(resource: dict) -> None:
    """Everything a strict reader would ask of it."""
    parsed = RiskAssessment.model_validate(resource)
    assert parsed.status in STATUS
    panel = load_panel(PANEL)
    predictions = resource["prediction"]
    assert [p["outcome"]["text"] for p in predictions] == list(panel.names)
    shares = [p["probabilityDecimal"] for p in predictions]
    assert all(0 <= s <= 100 for s in shares)
    assert sum(shares) == pytest.approx(100, abs=0.005 * len(shares) + 1e-9)  # each rounded to two decimals
    for label, prediction in zip(panel.labels, predictions, strict=True):
        codes = {(c["system"], c["code"]) for c in prediction["outcome"].get("coding", ())}
        assert codes == {(fhir.ICD10, c) for c in label.icd10} | {(fhir.SNOMED, c) for c in label.snomed}
    assert resource["method"]["text"]
    assert resource["basis"]
    assert resource["mitigation"]
    assert all(note["text"].strip() for note in resource["note"])
    device, provenance = resource["contained"]
    Device.model_validate(device)
    Provenance.model_validate(provenance)
    # A contained resource is referred to by its container, or refers to it (dom-3).
    assert resource["performer"]["reference"] == f"#{device['id']}"
    assert provenance["target"] == [{"reference": "#"}]
    assert {e["role"] for e in provenance["entity"]} <= ENTITY_ROLES
    assert any("bank" in e["what"].get("display", "").lower() for e in provenance["entity"])
    assert resource["text"]["div"].startswith('<div xmlns="http://www.w3.org/1999/xhtml">')
    assert TEXT not in str(resource)


def test_the_resource_is_valid_and_whole(resource: dict) -> None:
    check_assessment(resource)
    assert resource["subject"] == {"reference": "Patient/42", "display": "Test"}


def test_probabilities_are_percentages_of_the_posterior(client: TestClient, resource: dict) -> None:
    answer = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).json()
    for prediction in resource["prediction"]:
        p = answer["posterior"][prediction["outcome"]["text"]]
        assert prediction["probabilityDecimal"] == pytest.approx(100 * p, abs=0.01)


def test_the_answer_can_be_found_again(client: TestClient, resource: dict) -> None:
    (identifier,) = resource["identifier"]
    assert client.get("/v1/audit", params={"id": identifier["value"]}).json()["records"]


def test_without_a_subject_and_with_awkward_labels(client: TestClient) -> None:
    answer = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}).json()
    made = fhir.risk_assessment(
        answer, load_panel(PANEL), text=TEXT, answer_id="x.0", at=datetime(2026, 1, 2, tzinfo=UTC)
    )
    check_assessment(made)
    assert made["occurrenceDateTime"] == "2026-01-02T00:00:00Z"
    assert made["subject"]["display"]
    answer["decision"]["reason"] = "<b>&'</b>"
    assert (
        "<b>"
        not in fhir.risk_assessment(answer, load_panel(PANEL), text=TEXT, answer_id="x.0")["text"]["div"]
    )


@pytest.mark.parametrize(
    "reference", ["", "Patient", "Patient/", "Patient/a b", "javascript:alert(1)", "Patient/" + "x" * 65]
)
def test_a_reference_that_is_none_is_refused(client: TestClient, reference: str) -> None:
    body = {"panel": PANEL, "text": TEXT, "subject": {"reference": reference}}
    assert client.post("/v1/fhir/RiskAssessment", json=body).status_code == 422


def test_percentages_stay_in_bounds() -> None:
    assert fhir.percentage(1.0000001) == 100
    assert fhir.percentage(-1e-9) == 0
    assert fhir.percentage(0.12345) == 12.35
