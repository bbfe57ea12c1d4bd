"""Payloads in the shape of the specifications' own examples (CDS Hooks 2.0, FHIR R4), all synthetic.

What of them may be read is read and answered; the rest is named or passed over, and nothing fails.
"""

import copy
import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.service.cds_text import Link, read_chart
from tests.loopback import Handler, running
from tests.service.conftest import TEXT, serving
from tests.service.test_cds import SELECT, VIEW, check_card

PAYLOADS = Path(__file__).parent / "payloads"
PATIENT = "1288992"


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))


def chart(*names: str) -> Any:
    return read_chart({name: payload(name) for name in names}, PATIENT)


@pytest.mark.parametrize(("name", "path"), [("cds-patient-view", VIEW), ("cds-order-select", SELECT)])
def test_a_hooks_call_of_the_specification_is_answered(client: TestClient, name: str, path: str) -> None:
    reply = client.post(path, json=payload(name))
    assert reply.status_code == 200, reply.text
    (card,) = reply.json()["cards"]
    check_card(card)
    assert card["summary"].startswith(("Accept: oral mucocele", "Likely: oral mucocele"))
    assert "Read: DocumentReference/example-final of 2005-12-24T09:43:41+11:00" in card["detail"]
    made = card["suggestions"][0]["actions"][0]["resource"]
    assert made["subject"] == {"reference": f"Patient/{PATIENT}"}
    assert made["encounter"] == {"reference": "Encounter/89284"}


def test_a_hook_that_is_not_offered_is_refused_and_its_prefetch_reads_like_any_other(
    client: TestClient,
) -> None:
    call = payload("cds-encounter-discharge")
    assert client.post(VIEW, json=call).status_code == 422
    (source,) = read_chart(call["prefetch"], PATIENT).sources
    assert source.words == (
        "Condition/example of 2012-05-24 (clinicalStatus active, verificationStatus confirmed)"
    )
    assert source.parts == ("Burnt while frying; the skin blistered.",)


def test_what_fhir_resources_say() -> None:
    assert chart("fhir-document-reference").sources[0].parts == (Link("Binary/example-note"),)
    held = chart("fhir-document-reference-preliminary")
    assert (held.sources, held.unread) == ((), ("DocumentReference/example: the document is not final",))
    # A condition without a note has codes alone, and codes are never read.
    coded = chart("fhir-condition")
    assert (coded.sources, coded.unread) == ((), ("Condition/example: it holds no text",))
    # Neither a measurement nor a finished report's conclusion stands for the case.
    assert chart("fhir-observation", "fhir-diagnostic-report", "fhir-binary").sources == ()
    found = chart("fhir-bundle-searchset")
    assert [source.reference for source in found.sources] == ["DocumentReference/example-final"]
    assert found.sources[0].parts == (TEXT,)


class _Server(Handler):
    def do_GET(self) -> None:
        binary = getattr(self.server, "binary", None) or payload("fhir-binary")
        self.answer(200, "application/fhir+json", json.dumps(binary).encode())


@pytest.fixture
def fhir() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    with running(server):
        yield server


def test_a_document_and_its_binary(fhir: Any, tmp_path: Path) -> None:
    """The specification's Binary stands under the protection of its document, or of the patient."""
    base = f"http://127.0.0.1:{fhir.server_port}/r4"
    call = {
        **payload("cds-patient-view"), "fhirServer": base,
        "prefetch": {"documents": payload("fhir-document-reference")},
    }  # fmt: skip
    whose = {
        None: True, "DocumentReference/example-final": True, f"Patient/{PATIENT}": True,
        f"{base}/Patient/{PATIENT}": True, "Patient/99": False,
        f"https://other.example/Patient/{PATIENT}": False,
        "DocumentReference/other": False, "Encounter/99": False, 7: False,
    }  # fmt: skip
    with serving(tmp_path, fhir_servers=(base,)) as client:
        for reference, read in whose.items():
            fhir.binary = {**payload("fhir-binary"), "securityContext": {"reference": reference}}
            if reference is None:
                del fhir.binary["securityContext"]
            reply = client.post(VIEW, json=call).json()
            assert bool(reply["cards"]) is read, reference
            if not read:
                assert "the securityContext of its Binary" in reply["extension"]["simdx"]["notes"][0]
        fhir.binary = {**payload("fhir-binary"), "implicitRules": "https://example.com/rules"}
        assert client.post(VIEW, json=call).json()["cards"] == []


NEGATED = [{"url": "https://example.com/fhir/negated", "valueBoolean": True}]


@pytest.mark.parametrize("place", ["", "content", "content/attachment", "context"])
def test_a_resource_with_a_modifier_we_do_not_know_is_not_read(client: TestClient, place: str) -> None:
    """A modifierExtension may turn what it stands in to its contrary; it was passed over."""
    call = copy.deepcopy(payload("cds-order-select"))
    where = call["prefetch"]["documents"]
    for step in filter(None, place.split("/")):
        where = where[step][0] if isinstance(where[step], list) else where[step]
    where["modifierExtension"] = NEGATED
    reply = client.post(SELECT, json=call).json()
    assert reply["cards"] == []
    (said,) = reply["extension"]["simdx"]["notes"]
    assert (
        said == "DocumentReference/example-final: it has a modifierExtension that this service does not know"
    )


def test_another_patient_inside_a_bundle_refuses_the_call(client: TestClient) -> None:
    call = payload("cds-patient-view")
    entries = call["prefetch"]["documents"]["entry"]
    entries.append({"resource": {"resourceType": "Patient", "id": PATIENT}})
    assert client.post(VIEW, json=call).status_code == 200
    entries[-1]["resource"]["id"] = "99"
    reply = client.post(VIEW, json=call)
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:simdx:problem:bad-input")
    assert "context.patientId" in reply.json()["detail"]


@pytest.mark.parametrize(
    "change",
    [
        {"selections": ["MedicationRequest/1"] * 501}, {"selections": [7] * 100_000},
        {"selections": ["x" * 301]},
    ],
)  # fmt: skip
def test_lists_of_a_call_are_bounded(client: TestClient, change: dict) -> None:
    call = payload("cds-order-select")
    call["context"] |= change
    reply = client.post(SELECT, json=call)
    assert reply.status_code in (413, 422)  # by the gate, or by the schema
    assert len(reply.content) < 2_000
    many = {**payload("cds-order-select"), "prefetch": {str(i): None for i in range(10_000)}}
    assert client.post(SELECT, json=many).status_code in (413, 422)  # by the gate, or by the schema
