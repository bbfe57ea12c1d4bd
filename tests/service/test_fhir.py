"""RiskAssessment to the letter: the R4B models accept it, and what they do not check is checked here."""

import re
from importlib import import_module
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.panels import load_panel
from simdx.service import fhir, wire
from tests.service.conftest import ASK, PANEL, TEXT

BASE = "/v1/fhir"


def r4b(resource: str) -> Any:
    """The published model of a resource. Slow to import, and every worker collects every file."""
    return getattr(import_module(f"fhir.resources.R4B.{resource.lower()}"), resource)


# http://hl7.org/fhir/R4/valueset-issue-type.html
ISSUE_TYPES = {
    "invalid", "structure", "required", "value", "invariant", "security", "login", "unknown", "expired",
    "forbidden", "suppressed", "processing", "not-supported", "duplicate", "multiple-matches", "not-found",
    "deleted", "too-long", "code-invalid", "extension", "too-costly", "business-rule", "conflict",
    "transient", "lock-error", "no-store", "exception", "timeout", "incomplete", "throttled", "informational",
}  # fmt: skip


@pytest.fixture
def answer(client: TestClient) -> dict:
    return client.post("/v1/classify", json=ASK).json()


def assessed(answer: dict, **more: object) -> dict:
    return fhir.assessment_of(answer, load_panel(PANEL), text=TEXT, answer_id="x.0", **more)


def check_assessment(resource: dict) -> None:
    """Everything a strict reader would ask of it."""
    parsed = r4b("RiskAssessment").model_validate(resource)
    assert parsed.status == "preliminary"
    panel = load_panel(PANEL)
    *predictions, none = resource["prediction"]
    assert [p["outcome"]["text"] for p in predictions] == list(panel.names)
    shares = [p["probabilityDecimal"] for p in (*predictions, none)]
    assert all(0 <= s <= 100 for s in shares)
    assert sum(round(100 * s) for s in shares) == 10_000  # two decimals each, and nothing is left over
    for label, prediction in zip(panel.labels, predictions, strict=True):
        codes = {(c["system"], c["code"]) for c in prediction["outcome"].get("coding", ())}
        assert codes == {(fhir.ICD10, c) for c in label.icd10} | {(fhir.SNOMED, c) for c in label.snomed}
        assert {c["display"] for c in prediction["outcome"].get("coding", ())} <= {label.name}
    (coding,) = none["outcome"]["coding"]
    assert coding == {"system": fhir.OUTCOME_SYSTEM, "code": "none-of-these", "display": "None of these"}
    assert not any("none of the panel" in note["text"] for note in resource["note"])
    assert resource["method"]["text"]
    assert resource["basis"]
    assert resource["mitigation"]
    assert all(note["text"].strip() for note in resource["note"])
    device, provenance = resource["contained"]
    r4b("Device").model_validate(device)
    r4b("Provenance").model_validate(provenance)
    # A contained resource is referred to by its container, or refers to it (dom-3).
    assert resource["performer"]["reference"] == f"#{device['id']}"
    assert provenance["target"] == [{"reference": "#"}]
    assert {e["role"] for e in provenance["entity"]} == {"source"}
    assert any("bank" in e["what"].get("display", "").lower() for e in provenance["entity"])
    assert resource["text"]["div"].startswith('<div xmlns="http://www.w3.org/1999/xhtml">')
    assert TEXT not in str(resource)


def test_the_resource_is_valid_and_whole_and_its_answer_can_be_found_again(client: TestClient) -> None:
    subject = {"reference": "Patient/42", "display": "Test"}
    named = {"subject": subject, "encounter": {"reference": "Encounter/e-7"}}
    reply = client.post("/v1/fhir/RiskAssessment", json={**ASK, **named})
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/fhir+json")
    resource = reply.json()
    check_assessment(resource)
    assert {name: resource[name] for name in named} == named
    (identifier,) = resource["identifier"]
    assert client.get("/v1/audit", params={"id": identifier["value"]}).json()["records"]


@pytest.mark.parametrize("text", [TEXT, "A sore spot in the mouth.", "Essential hypertension."])
def test_probabilities_are_percentages_and_none_of_these_is_one_of_them(
    client: TestClient, text: str
) -> None:
    answer = client.post("/v1/classify", json={"panel": PANEL, "text": text}).json()
    made = client.post(f"{BASE}/RiskAssessment", json={"panel": PANEL, "text": text}).json()
    *labels, none = made["prediction"]
    outside = answer["out_of_class"]
    assert none["probabilityDecimal"] == pytest.approx(100 * outside, abs=0.01)
    for prediction in labels:
        p = (1 - outside) * answer["among_labels"][prediction["outcome"]["text"]]
        assert prediction["probabilityDecimal"] == pytest.approx(100 * p, abs=0.01)
    assert f"none of these: {100 * outside:.1f} %" in made["text"]["div"]


def test_without_a_subject_and_with_awkward_labels(answer: dict) -> None:
    made = assessed(answer)
    check_assessment(made)
    assert re.fullmatch(r"20..-..-..T..:..:..Z", made["occurrenceDateTime"])
    assert made["subject"]["display"]
    answer["decision"]["reason"] = "<b>&'</b>"
    assert "<b>" not in assessed(answer)["text"]["div"]


@pytest.mark.parametrize("reference", ["Patient/a b", "Group/1", "https://elsewhere.example/Patient/1"])
def test_a_reference_that_is_none_is_refused(client: TestClient, reference: str) -> None:
    for field in ("subject", "encounter"):
        body = {**ASK, field: {"reference": reference}}
        assert client.post("/v1/fhir/RiskAssessment", json=body).status_code == 422


def test_percentages_stay_in_bounds_and_sum_to_a_hundred() -> None:
    assert fhir.percentages([1.0000001, -1e-9]) == [100, 0]
    assert fhir.percentages([1 / 3, 1 / 3, 1 / 3]) == [33.34, 33.33, 33.33]
    assert fhir.percentages([0.12345, 0.87655]) == [12.35, 87.65]


def test_without_a_background_the_labels_are_all_there_is(answer: dict) -> None:
    made = assessed({**answer, "out_of_class": None, "posterior": answer["among_labels"]})
    assert [p["outcome"]["text"] for p in made["prediction"]] == list(load_panel(PANEL).names)
    assert sum(p["probabilityDecimal"] for p in made["prediction"]) == pytest.approx(100)


def test_metadata_is_a_capability_statement(client: TestClient) -> None:
    reply = client.get(f"{BASE}/metadata")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/fhir+json")
    parsed = r4b("CapabilityStatement").model_validate(reply.json())
    # What the models do not check: value sets, and the rule that an instance says where it is.
    assert (parsed.status, parsed.kind, parsed.fhirVersion) == ("active", "instance", "4.0.1")
    assert parsed.rest[0].mode == "server"
    assert parsed.implementation.url == f"http://127.0.0.1{BASE}"
    assert parsed.software.name == "simdx"
    assert parsed.format == ["json"]
    assert [r.type for r in parsed.rest[0].resource] == ["RiskAssessment"]
    assert parsed.rest[0].resource[0].interaction is None  # nothing is claimed that is not there


BAD = [
    ("POST", "RiskAssessment", {"panel": PANEL, "text": " "}, 422, "required", "empty-text"),
    ("POST", "RiskAssessment", {"panel": 1, "txt": "x"}, 422, "invalid", "invalid-body"),
    ("POST", "RiskAssessment", {"panel": "none", "text": TEXT}, 404, "not-found", "unknown-panel"),
    ("POST", "RiskAssessment", {"panel": PANEL, "text": TEXT, "method": "x"}, 422, "invalid", "bad-input"),
    ("POST", "RiskAssessment", b"{", 400, "structure", "not-json"),
    ("POST", "RiskAssessment", b"x" * 4_000_001, 413, "too-long", "too-large"),
    ("PUT", "RiskAssessment", {}, 405, "not-supported", "method-not-allowed"),
    ("GET", "Patient/1", None, 404, "not-found", "not-found"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code", "kind"), BAD)
def test_errors_on_the_fhir_face_are_operation_outcomes(
    client: TestClient, method: str, path: str, body: object, status: int, code: str, kind: str
) -> None:
    sent = {"content": body, "headers": {"content-type": "application/json"}}
    reply = client.request(method, f"{BASE}/{path}", **(sent if isinstance(body, bytes) else {"json": body}))
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/fhir+json")
    outcome = r4b("OperationOutcome").model_validate(reply.json())
    assert outcome.issue
    for issue in outcome.issue:
        assert (issue.severity, issue.code) == ("error", code)
        assert code in ISSUE_TYPES
        assert issue.details.coding[0].code == kind
        assert issue.diagnostics
    assert TEXT not in reply.text


def test_every_problem_has_an_issue_type_of_fhir() -> None:
    for kind in wire.KINDS:
        (issue,) = wire.Problem(kind, "why").outcome()["issue"]
        assert issue["code"] in ISSUE_TYPES


def test_a_refused_token_is_an_operation_outcome_too(guarded: tuple) -> None:
    reply = guarded[0].post(f"{BASE}/RiskAssessment", json=ASK)
    assert reply.status_code == 401
    assert reply.json()["issue"][0]["code"] == "login"
    assert guarded[0].get(f"{BASE}/metadata").status_code == 200  # as FHIR has it, open to all
