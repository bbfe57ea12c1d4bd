"""A panel that is not about illness: no word for clinicians on the page, in cards, resources or reports."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from simdx.classifier import Classifier
from simdx.panels import disclaimer, load_panel
from simdx.report.page import Section, render
from simdx.service import fhir
from simdx.service.app import create_app
from tests.service.conftest import PANEL, URL, make_config, tickets
from tests.service.test_cds import invocation, note

CLINICAL = ("clinician", "medical", "diagnos", "patient")
TICKET = "The parcel never came and the courier does not answer."


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("general")
    panel, bank = map(str, tickets(folder))
    with TestClient(create_app(make_config(folder, panels={panel: bank})), base_url=URL) as client:
        yield client


def test_nothing_of_a_general_panel_speaks_of_the_clinic(client: TestClient, tmp_path: Path) -> None:
    general = client.get("/v1/panels/tickets").json()
    assert "no substitute" in general["disclaimer"]
    assert general["examples"] == []  # the page offers none where the panel has none
    resource = client.post("/v1/fhir/RiskAssessment", json={"panel": "tickets", "text": TICKET}).json()
    body = invocation(prefetch={"documents": note(TICKET)})
    (card,) = client.post("/cds-services/tickets-patient-view", json=body).json()["cards"]
    classifier = Classifier(*tickets(tmp_path))
    parts = [Section("one", TICKET, classifier.infer(TICKET))]
    report = render("tickets", parts, panel=classifier.panel)
    shown = (
        general["disclaimer"],
        resource["note"],
        resource["mitigation"],
        card["summary"],
        card["detail"],
        report,
    )
    assert [word for word in CLINICAL for said in shown if word in str(said).casefold()] == []
    assert "Not a medical device" in render("cases", parts, panel=load_panel(PANEL))
    assert "clinician" in disclaimer(load_panel(PANEL))
    assert "clinician" in disclaimer(None)


@pytest.mark.parametrize("action", ["accept", "likely", "test", "review"])
def test_only_a_clinical_review_asks_for_a_clinician(client: TestClient, action: str) -> None:
    panel = load_panel(PANEL)
    answer = client.post("/v1/classify", json={"panel": "tickets", "text": TICKET}).json()
    answer["decision"]["action"] = action
    names = zip(panel.labels, ("delivery", "billing"), strict=False)
    labels = tuple(replace(label, name=name) for label, name in names)
    for register, asks in (("clinician", action == "review"), ("general", False)):
        same = replace(panel, labels=labels, register=register)
        said = fhir.assessment_of(answer, same, text=TICKET, answer_id="0")["mitigation"]
        assert ("clinician" in said) is asks
