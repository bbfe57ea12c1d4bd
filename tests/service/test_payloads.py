"""The specifications' own examples (public, synthetic): calls of CDS Hooks, and FHIR R4 resources.

What of them may be read is read and answered; the rest is named or passed over, and nothing fails. The calls
are from the CDS Hooks documentation (Apache 2.0), the resources from FHIR 4.0.1 (CC0), without narratives.
"""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.service.chart import read_chart
from tests.loopback import Pages, running
from tests.service.conftest import TEXT, serving
from tests.service.test_cds import SELECT, VIEW, check_card

PATIENT = "1288992"  # of the calls
NOTE = {"contentType": "text/plain", "data": base64.b64encode(TEXT.encode()).decode()}


def payload(name: str) -> Any:
    return json.loads((Path(__file__).parent / "payloads" / f"{name}.json").read_text(encoding="utf-8"))


def document(**attachment: object) -> Any:
    """The specification's document, final and about the patient of the calls, with another attachment."""
    found = payload("fhir-document-reference")
    found |= {"docStatus": "final", "subject": {"reference": f"Patient/{PATIENT}"}}
    found["content"][0]["attachment"] = attachment or NOTE
    return found


def call(hook: str = "order-select") -> Any:
    made = {**payload("cds-patient-view"), **payload(f"cds-{hook}"), "hook": hook}
    return {**made, "prefetch": {**made["prefetch"], "documents": document()}}


@pytest.mark.parametrize(("hook", "path"), [("patient-view", VIEW), ("order-select", SELECT)])
def test_a_hooks_call_of_the_specification_is_answered(client: TestClient, hook: str, path: str) -> None:
    reply = client.post(path, json=call(hook))
    assert reply.status_code == 200, reply.text
    (card,) = reply.json()["cards"]
    check_card(card)
    assert card["summary"].startswith(("Accept: oral mucocele", "Likely: oral mucocele"))
    assert "Read: DocumentReference/example of 2005-12-24T09:43:41+11:00" in card["detail"]
    made = card["suggestions"][0]["actions"][0]["resource"]
    assert made["subject"] == {"reference": f"Patient/{PATIENT}"}
    assert made["encounter"] == {"reference": "Encounter/89284"}


def test_a_call_as_it_stands_in_the_specification_has_no_text(client: TestClient) -> None:
    assert client.post(VIEW, json=payload("cds-patient-view")).json() == {"cards": []}
    assert client.post(SELECT, json={**call(), "hook": "order-sign"}).status_code == 422  # a hook not offered


def test_what_fhir_resources_say() -> None:
    for name, patient, why in (
        ("document-reference", "xcda", "DocumentReference/example: the document is not final"),
        # A condition without a note has codes alone, and codes are never read.
        ("condition", "example", "Condition/example: it holds no text"),
    ):
        found = read_chart({"x": payload(f"fhir-{name}")}, patient)
        assert (found.sources, found.unread) == ((), (why,))
    clinical = document(**payload("fhir-document-reference")["content"][0]["attachment"])
    assert read_chart({"x": clinical}, PATIENT).unread == ("DocumentReference/example: it holds no text",)
    assert read_chart({"x": payload("fhir-bundle")}, "347").sources == ()  # medication is no description
    (source,) = read_chart({"x": payload("fhir-questionnaire-response")}, "f201").sources
    assert source.words == "QuestionnaireResponse/f201 of 2013-06-18T00:00:00+01:00 (status completed)"
    assert source.text.startswith("Do you have allergies?: I am allergic to house dust\nWhat is your gender")
    noted = {**payload("fhir-condition"), "note": [{"text": "Burnt while frying; the skin blistered."}]}
    (source,) = read_chart({"x": noted}, "example").sources
    assert (
        source.words
        == "Condition/example of 2012-05-24 (clinicalStatus active, verificationStatus confirmed)"
    )
    assert source.text == "Burnt while frying; the skin blistered."


def test_a_document_and_its_binary(tmp_path: Path) -> None:
    """A Binary stands under the protection of its document, or of the patient."""
    fhir = Pages()
    base = f"{fhir.url}/r4"
    linked = {"documents": document(contentType="text/plain", url="Binary/note")}
    asked = {**call("patient-view"), "fhirServer": base, "prefetch": linked}
    binary = {"resourceType": "Binary", **NOTE}
    whose = {
        None: True, "DocumentReference/example": True, f"Patient/{PATIENT}": True,
        f"{base}/Patient/{PATIENT}": True, "Patient/99": False,
        f"https://other.example/Patient/{PATIENT}": False,
        "DocumentReference/other": False, "Encounter/99": False, 7: False,
    }  # fmt: skip
    with serving(tmp_path, fhir_servers=(base,)) as client, running(fhir):

        def answered(**more: object) -> Any:
            content = json.dumps(binary | more).encode()
            fhir.pages["/r4/Binary/note"] = (200, "application/fhir+json", content)
            return client.post(VIEW, json=asked).json()

        for reference, read in whose.items():
            reply = answered(**({"securityContext": {"reference": reference}} if reference else {}))
            assert bool(reply["cards"]) is read, reference
            if not read:
                assert "the securityContext of its Binary" in reply["extension"]["simdx"]["notes"][0]
        assert answered(implicitRules="https://example.com/rules")["cards"] == []
        del linked["documents"]["id"]  # and where the document has no name, no reference without one is its
        assert answered(securityContext={"reference": 7})["cards"] == []


NEGATED = [{"url": "https://example.com/fhir/negated", "valueBoolean": True}]


@pytest.mark.parametrize("place", ["", "content", "content/attachment", "context"])
def test_a_resource_with_a_modifier_we_do_not_know_is_not_read(client: TestClient, place: str) -> None:
    """A modifierExtension may turn what it stands in to its contrary; it was passed over."""
    asked = copy.deepcopy(call())
    where = asked["prefetch"]["documents"]
    for step in filter(None, place.split("/")):
        where = where[step][0] if isinstance(where[step], list) else where[step]
    where["modifierExtension"] = NEGATED
    reply = client.post(SELECT, json=asked).json()
    assert reply["cards"] == []
    (said,) = reply["extension"]["simdx"]["notes"]
    assert said == "DocumentReference/example: it has a modifierExtension that this service does not know"


def test_another_patient_inside_a_bundle_refuses_the_call(client: TestClient) -> None:
    asked, patient = call("patient-view"), {"resourceType": "Patient", "id": PATIENT}
    bundle = asked["prefetch"]["documents"] = payload("fhir-bundle")
    bundle["entry"] += [{"resource": document()}, {"resource": patient}]
    assert client.post(VIEW, json=asked).json()["cards"]
    patient["id"] = "99"
    reply = client.post(VIEW, json=asked)
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:simdx:problem:bad-input")
    assert "context.patientId" in reply.json()["detail"]
