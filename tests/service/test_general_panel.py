"""A panel that is not about illness: no word for clinicians on the page, in cards, resources or reports."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from simdx import library
from simdx.classifier import Classifier
from simdx.panels import disclaimer, load_panel
from simdx.report.page import Section, render
from simdx.service import fhir
from simdx.service.app import create_app
from tests.service.conftest import PANEL, URL, make_config, tickets
from tests.service.test_cds import invocation, note

CLINICAL = (
    "clinician",
    "medical",
    "diagnos",
    "patient",
    "emergency",
    "condition",
    "test further",
    "further test",
)
TICKET = "The parcel never came and the courier does not answer."


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("general")
    panel, bank = map(str, tickets(folder))
    with TestClient(create_app(make_config(folder, panels={panel: bank})), base_url=URL) as client:
        yield client


def clinical_words(said: str) -> set[str]:
    return {word for word in CLINICAL if word in said.casefold()}


def test_the_disclaimer_follows_the_register(client: TestClient) -> None:
    general = client.get("/v1/panels/tickets").json()
    assert clinical_words(general["disclaimer"]) == set()
    assert "no substitute" in general["disclaimer"]
    assert general["examples"] == []  # the page offers none where the panel has none
    assert "clinician" in disclaimer(load_panel(PANEL))
    assert "clinician" in disclaimer(None)


def test_resources_and_cards_stay_out_of_the_clinic(client: TestClient) -> None:
    reply = client.post("/v1/fhir/RiskAssessment", json={"panel": "tickets", "text": TICKET})
    assert reply.status_code == 200
    assert clinical_words(json.dumps([reply.json()["note"], reply.json()["mitigation"]])) == set()
    body = invocation(prefetch={"documents": note(TICKET)})
    cards = client.post("/cds-services/tickets-patient-view", json=body).json()["cards"]
    assert cards
    for card in cards:
        assert clinical_words(card["summary"] + card["detail"]) == set()


@pytest.mark.parametrize("action", ["accept", "likely", "test", "review"])
def test_only_a_clinical_review_asks_for_a_clinician(client: TestClient, action: str) -> None:
    panel = load_panel(PANEL)
    answer = client.post("/v1/classify", json={"panel": "tickets", "text": TICKET}).json()
    answer["decision"]["action"] = action
    names = zip(panel.labels, ("delivery", "billing"), strict=False)
    same = replace(panel, labels=tuple(replace(label, name=name) for label, name in names))
    said = fhir.assessment_of(answer, same, text=TICKET, answer_id="0")["mitigation"]
    assert ("clinician" in said) is (action == "review")
    general = fhir.assessment_of(answer, replace(same, register="general"), text=TICKET, answer_id="0")
    assert clinical_words(general["mitigation"]) == set()


def test_no_illness_is_named_beside_a_general_panel(tmp_path: Path) -> None:
    path = tmp_path / "tickets.yaml"
    labels = "labels: [change a delivery address, cooking recipe question, out-of-stock enquiry]\n"
    path.write_text(labels + "register: general\n")
    chest = "Crushing chest pain that spreads into my left arm, and I am sweating. Also: the parcel is late."
    noise = "The neighbours are loud every night."
    classifier = Classifier(path)
    heart, loud = classifier.infer(chest), classifier.infer(noise)
    assert [near.condition for near in loud.outside.nearest] == ["noisy neighbours complaint"]
    assert (loud.decision.action, loud.headline.split(":")[0]) == ("test", "Check further")
    assert not any(library.condition(near.condition).medical for near in heart.outside.nearest)
    assert clinical_words(render("t", [Section("one", chest, heart)], panel=load_panel(path))) == set()
    assert clinical_words(json.dumps([heart.decision.reasons, heart.headline, heart.outside_words])) == set()
    path.write_text(labels)  # the same labels in a clinic's panel
    assert any(near.emergency for near in Classifier(path).infer(chest).outside.nearest)


def test_a_report_of_tickets_is_no_clinics(tmp_path: Path) -> None:
    classifier = Classifier(*tickets(tmp_path))
    parts = [Section("one", TICKET, classifier.infer(TICKET))]
    assert clinical_words(render("tickets", parts, panel=classifier.panel)) == set()
    assert "Not a medical device" in render("cases", parts, panel=load_panel(PANEL))
