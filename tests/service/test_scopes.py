"""What a token may do: its scopes, its panels, its own answers and no other's."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.service.auth import TokenFile
from tests.service.conftest import ASK, PANEL, URL, Guarded, bearer, kind
from tests.service.test_cds import VIEW, invocation

Headers = dict[str, str]
Card = tuple[TestClient, dict[str, Any], dict[str, Headers]]


def test_prometheus_has_a_scope_of_its_own(guarded: Guarded) -> None:
    client, _, _, tokens = guarded
    scraper, _ = tokens.new("prometheus", ("metrics",))
    assert client.get("/metrics", headers=bearer(scraper)).status_code == 200
    assert client.post("/v1/classify", json=ASK, headers=bearer(scraper)).status_code == 403
    assert client.get("/v1/audit", headers=bearer(scraper)).status_code == 403


def test_a_token_of_named_panels_asks_those_and_no_others(guarded: Guarded) -> None:
    client, _, _, tokens = guarded
    here = bearer(tokens.new("here", ("classify",), panels=(PANEL,))[0])
    elsewhere = bearer(tokens.new("elsewhere", ("classify",), panels=("case-reports", "secret"))[0])
    assert client.post("/v1/explore", json=ASK, headers=here).status_code == 200
    assert [p["id"] for p in client.get("/v1/panels", headers=here).json()["panels"]] == [PANEL]
    assert client.get("/v1/panels", headers=elsewhere).json()["panels"] == []
    refused = [
        client.post("/v1/classify", json=ASK, headers=elsewhere),
        client.post("/v1/explore", json=ASK, headers=elsewhere),
        client.post("/v1/fhir/RiskAssessment", json=ASK, headers=elsewhere),
        client.post(VIEW, json=invocation(), headers=elsewhere),
        client.get(f"/v1/panels/{PANEL}", headers=elsewhere),
        client.get("/v1/panels/not-there", headers=elsewhere),
    ]
    assert [(r.status_code, kind(r)) for r in refused] == [(403, "wrong-panel")] * len(refused)
    assert client.post(VIEW, json=invocation(), headers=here).status_code == 200


def test_panels_survive_the_file_and_old_files_mean_every_panel(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    text, _ = TokenFile(path).new("here", ("classify",), panels=(PANEL,))
    assert TokenFile(path).check(text).panels == (PANEL,)
    rows = json.loads(path.read_text())
    for row in rows["tokens"]:
        del row["panels"]
    path.write_text(json.dumps(rows))
    found = TokenFile(path).check(text)
    assert found.panels is None
    assert found.may_ask("other")


@pytest.fixture
def card(guarded: Guarded) -> Card:
    """A card that 'clinic' got, and the headers of three callers."""
    client, plain, admin, tokens = guarded
    other, _ = tokens.new("other", ("classify",))
    sent = client.post(VIEW, json=invocation(), headers=bearer(plain)).json()["cards"][0]
    return client, sent, {"own": bearer(plain), "other": bearer(other), "admin": bearer(admin)}


def test_feedback_on_another_tenants_card_is_refused(card: Card) -> None:
    client, sent, headers = card
    item = {"card": sent["uuid"], "outcome": "overridden", "outcomeTimestamp": "2026-03-01T08:30:00Z"}

    def feedback(who: str) -> int:
        return client.post(f"{VIEW}/feedback", json={"feedback": [item]}, headers=headers[who]).status_code

    assert feedback("other") == 404
    assert feedback("own") == 200
    assert feedback("admin") == 200
    recorded = client.get("/v1/audit", params={"kind": "cds-feedback"}, headers=headers["admin"]).json()
    assert [r["caller"] for r in recorded["records"]] == ["operator", "clinic"]


def test_card_feedback_is_about_cards(guarded: Guarded) -> None:
    client, plain, _, _ = guarded
    answer = client.post("/v1/classify", json=ASK, headers=bearer(plain)).headers["simdx-answer"]
    item = {"card": answer, "outcome": "overridden", "outcomeTimestamp": "2026-03-01T08:30:00Z"}
    reply = client.post(f"{VIEW}/feedback", json={"feedback": [item]}, headers=bearer(plain))
    assert reply.status_code == 404


def test_the_cards_link_works_with_the_token_that_got_the_card(card: Card) -> None:
    client, sent, headers = card
    address, answer = sent["links"][0]["url"].split("#answer=")
    assert client.get(address.removeprefix(URL)).status_code == 200
    # What the page asks for when it is opened with that fragment.
    script = client.get("/static/auditview.js").text
    assert "`/v1/answers/${" in script
    found = client.get(f"/v1/answers/{answer}", headers=headers["own"]).json()["record"]
    assert found["id"] == answer
    assert found["answer"]["label"]
    assert client.get(f"/v1/answers/{answer}", headers=headers["admin"]).status_code == 200
    other = client.get(f"/v1/answers/{answer}", headers=headers["other"])
    assert (other.status_code, kind(other)) == (404, "unknown-answer")
    assert client.get(f"/v1/answers/{answer}").status_code == 401
    assert client.get("/v1/answers/nonsense", headers=headers["own"]).status_code == 422
