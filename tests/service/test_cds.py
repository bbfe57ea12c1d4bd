"""CDS Hooks 2.0 by its rules: discovery, invocation, cards, feedback."""

import base64
import re
import uuid

import pytest
from starlette.testclient import TestClient

from simdx.answer import Answer, NearCondition, OutsideAnswer
from simdx.panels import load_panel
from simdx.service import cds
from simdx.types import NONE_OF_THESE
from tests.service.conftest import ASK, PANEL, TEXT
from tests.service.test_fhir import check_assessment

VIEW = f"/cds-services/{PANEL}-patient-view"
SELECT = f"/cds-services/{PANEL}-order-select"
SUBJECT = {"reference": "Patient/42"}


def note(text: str = TEXT, **changes: object) -> dict:
    data = base64.b64encode(text.encode()).decode()
    attachment = {"contentType": "text/plain; charset=utf-8", "data": data}
    return {
        "resourceType": "DocumentReference", "id": "n1", "status": "current", "date": "2026-01-01T00:00:00Z",
        "subject": SUBJECT, "content": [{"attachment": attachment}], **changes,
    }  # fmt: skip


def bundle(*resources: dict) -> dict:
    return {"resourceType": "Bundle", "type": "searchset", "entry": [{"resource": r} for r in resources]}


QUESTIONS = {
    "resourceType": "QuestionnaireResponse", "id": "q1", "status": "completed", "authored": "2026-01-01",
    "subject": SUBJECT, "item": [
        {"linkId": "1", "text": "What is it?", "answer": [{"valueString": "a bluish swelling of the lip"}]},
        {"linkId": "2", "text": "Painful?", "answer": [{"valueBoolean": False}]},
        {"linkId": "3", "item": [{"linkId": "3.1", "text": "Size", "answer": [
            {"valueQuantity": {"value": 8, "unit": "mm"}}]}]},
    ],
}  # fmt: skip
CONDITION = {
    "resourceType": "Condition", "id": "c1", "subject": SUBJECT, "code": {"text": "Swelling of the lip"},
    "note": [{"text": "Soft, bluish, came after a bite."}],
}  # fmt: skip


def invocation(hook: str = "patient-view", **changes: object) -> dict:
    context = {"userId": "Practitioner/1", "patientId": "42"}
    if hook == "order-select":
        order = {"resourceType": "ServiceRequest", "id": "o1", "status": "draft"}
        context |= {"selections": ["ServiceRequest/o1"], "draftOrders": bundle(order)}
    return {
        "hook": hook, "hookInstance": str(uuid.uuid4()), "context": context,
        "prefetch": {"documents": note()}, **changes,
    }  # fmt: skip


def test_discovery(client: TestClient) -> None:
    services = client.get("/cds-services").json()["services"]
    hooks = ("patient-view", "order-select")
    assert {(s["hook"], s["id"]) for s in services} == {(hook, f"{PANEL}-{hook}") for hook in hooks}
    for service in services:
        assert service["description"]
        for query in service["prefetch"].values():
            assert re.findall(r"\{\{(.*?)\}\}", query) == ["context.patientId"]


def check_card(card: dict) -> None:
    assert 0 < len(card["summary"]) < 140
    assert card["indicator"] in {"info", "warning", "critical"}
    assert card["source"]["label"]
    uuid.UUID(card["uuid"])
    assert card["selectionBehavior"] in {"at-most-one", "any"}  # required with suggestions
    for suggestion in card["suggestions"]:
        assert suggestion["label"]
        for action in suggestion["actions"]:
            assert action["type"] in {"create", "update", "delete"}
            assert action["description"]
            check_assessment(action["resource"])
    for link in card["links"]:
        assert link["type"] in {"absolute", "smart"}
        assert link["url"].startswith("http://127.0.0.1")
        assert link["label"]
    assert all(reason[name] for reason in card["overrideReasons"] for name in ("code", "system", "display"))


@pytest.mark.parametrize(("path", "hook"), [(VIEW, "patient-view"), (SELECT, "order-select")])
def test_a_card_carries_posterior_uncertainty_decision_and_link(
    client: TestClient, path: str, hook: str
) -> None:
    (card,) = client.post(path, json=invocation(hook)).json()["cards"]
    check_card(card)
    answer = client.post("/v1/classify", json=ASK).json()
    assert answer["label"] in card["summary"]
    read = "Read: DocumentReference/n1 of 2026-01-01T00:00:00Z (status current)."
    for said in (*answer["posterior"], answer["decision"]["reason"], "| none of these |", read):
        assert said in card["detail"]
    assert "aleatoric" not in card["detail"]  # of another comparison than the probabilities above
    assessment = card["suggestions"][0]["actions"][0]["resource"]
    assert assessment["subject"] == {"reference": "Patient/42"}
    assert assessment["basis"][0]["reference"] == "DocumentReference/n1"


@pytest.mark.parametrize(
    ("action", "said", "indicator"),
    [
        ("accept", "**Accept** (supported by labelled cases, no error rate guaranteed): r.", "info"),
        ("likely", "**Likely**: r.", "info"),
        ("test", "**Abstains: Test further**: r.", "warning"),
        ("review", "**Abstains: Send to review**: r.", "warning"),
    ],
)
def test_a_card_says_its_action(client: TestClient, action: str, said: str, indicator: str) -> None:
    answer = client.post("/v1/classify", json=ASK).json()
    answer["decision"] |= {"action": action, "reason": "r", "promise": None}
    card = cds.card(
        answer, load_panel(PANEL), card_id=uuid.uuid4(), base_url="http://127.0.0.1", assessment={},
        read="a note", unread=(),
    )  # fmt: skip
    assert card["detail"].startswith(said)
    assert card["indicator"] == indicator


def test_an_emergency_nearest_to_none_of_these_has_a_card(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Answer.model_validate(client.post("/v1/classify", json=ASK).json())
    near = NearCondition(condition="aortic dissection", probability=0.4, emergency=True)
    lead = told.posterior[told.label] * 0.1
    posterior = {**dict.fromkeys(told.posterior, lead), NONE_OF_THESE: 0.7}
    beyond = told.model_copy(
        update={
            "outside": OutsideAnswer(nearest=(near,)),
            "out_of_class": 0.7,
            "posterior": posterior,
            "typicality": 0.1,
        }
    )
    given = {"card_id": uuid.uuid4(), "base_url": "http://127.0.0.1", "read": "a note", "unread": ()}
    card = cds.emergency_card(beyond, load_panel(PANEL), **given)
    assert card["summary"] == "None of these; nearest: aortic dissection (emergency)"
    assert "**None of these; nearest: aortic dissection (emergency).**" in card["detail"]
    assert card["indicator"] == "warning"
    assert not {"suggestions", "selectionBehavior"} & card.keys()  # no label to record
    for other in ({"emergency": False}, {"probability": 0.2}):
        calm = OutsideAnswer(nearest=(near.model_copy(update=other),))
        assert (
            cds.emergency_card(beyond.model_copy(update={"outside": calm}), load_panel(PANEL), **given)
            is None
        )

    monkeypatch.setattr(Answer, "outside_words", "none of these; nearest: sepsis; also near: X (emergency)")
    far = client.post(VIEW, json=invocation(prefetch={"d": note("Hypertension")})).json()
    assert far["cards"] == []
    assert far["extension"]["simdx"]["notes"][0].endswith("nearest: sepsis; also near: X (emergency)")
    (card,) = client.post(VIEW, json=invocation()).json()["cards"]
    assert "also near: X (emergency)" in card["detail"]


@pytest.mark.parametrize("prefetch", [None, {}, {"documents": None, "conditions": None}])
def test_a_missing_prefetch_is_a_failed_precondition(client: TestClient, prefetch: object) -> None:
    reply = client.post(VIEW, json=invocation(prefetch=prefetch))
    assert (reply.status_code, reply.json()["type"]) == (412, "urn:simdx:problem:missing-prefetch")


@pytest.mark.parametrize(
    "change",
    [
        {"hook": "order-sign"}, {"hook": "order-select"}, {"hookInstance": "not a uuid"}, {"context": {}},
        {"context": {"userId": "Practitioner/1"}}, {"fhirServer": "not a url"}, {"prefetch": [1]},
        {"context": {"userId": "Practitioner/1", "patientId": "Group/42"}},
        {"context": {"userId": "Practitioner/1", "patientId": "42", "encounterId": "../1"}},
        {"fhirAuthorization": {"token_type": "Bearer"}},
        {"fhirAuthorization": {"token_type": "Basic", "access_token": "x"}},
    ],
)  # fmt: skip
def test_a_call_that_breaks_the_rules_is_refused(client: TestClient, change: dict) -> None:
    assert client.post(VIEW, json={**invocation(), **change}).status_code == 422


def test_order_select_needs_its_context_and_the_right_service(client: TestClient) -> None:
    body = invocation("order-select")
    assert client.post(VIEW, json=body).status_code == 422
    for missing in ("selections", "draftOrders"):
        context = {k: v for k, v in body["context"].items() if k != missing}
        assert client.post(SELECT, json={**body, "context": context}).status_code == 422
    assert client.post("/cds-services/nothing", json=invocation()).status_code == 404


def test_feedback_is_recorded_without_the_users_words(client: TestClient) -> None:
    (card,) = client.post(VIEW, json=invocation()).json()["cards"]
    overridden = {
        "card": card["uuid"], "outcome": "overridden", "outcomeTimestamp": "2026-01-01T10:00:00Z",
        "overrideReason": {"reason": {"code": "other-diagnosis", "system": "urn:simdx:override-reason"},
                           "userComment": "Mrs Quatermass disagrees"},
    }  # fmt: skip
    accepted = {
        "card": card["uuid"], "outcome": "accepted", "outcomeTimestamp": "2026-01-01T10:00:00+01:00",
        "acceptedSuggestions": [{"id": card["suggestions"][0]["uuid"]}],
    }  # fmt: skip
    assert client.post(f"{VIEW}/feedback", json={"feedback": [overridden, accepted]}).status_code == 200
    records = client.get("/v1/audit", params={"kind": "cds-feedback", "limit": 2}).json()["records"]
    assert {r["answer"]["outcome"] for r in records} == {"accepted", "overridden"}
    assert {r["about"] for r in records} == {f"{uuid.UUID(card['uuid']).hex}.0"}
    assert "Quatermass" not in str(records)
    for wrong, status in (
        ({"outcome": "accepted", "acceptedSuggestions": []}, 422), ({"outcome": "ignored"}, 422),
        ({"outcomeTimestamp": "yesterday"}, 422), ({"card": "x"}, 422), ({"card": str(uuid.uuid4())}, 404),
    ):  # fmt: skip
        body = {"feedback": [{**overridden, **wrong}]}
        assert client.post(f"{VIEW}/feedback", json=body).status_code == status
