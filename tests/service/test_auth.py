"""Tokens: hashed at rest, scoped, expiring, revocable while the service runs; whose answers they open."""

import stat
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from simdx.errors import BadInput
from simdx.service.auth import TokenFile
from simdx.service.config import CdsClient, ServiceConfig
from tests.service.conftest import ASK, PANEL, URL, Guarded, bearer, kind, serving
from tests.service.test_cds import VIEW, invocation


def test_a_token_is_kept_only_as_a_hash_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    tokens = TokenFile(path)
    text, token = tokens.new("clinic", ("classify",))
    assert text.split("_", 2)[2] not in path.read_text()
    assert token.sha256 in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    caller = TokenFile(path).check(text)
    assert (caller.name, caller.scopes) == ("clinic", ("classify",))
    own = (text[:-1], text + "x", text.upper(), f"sdx_{token.id}_")
    for wrong in ("", "x", "sdx__", "sdx_00000000_abc", *own):
        assert tokens.check(wrong) is None


@pytest.mark.parametrize(
    ("name", "scopes", "more"),
    [("", ("classify",), {}), ("a\nb", ("classify",), {}), ("ok", (), {}), ("ok", ("root",), {}),
     ("ok", ("classify",), {"days": 0}), ("ok", ("admin",), {"panels": (PANEL,)}),
     ("ok", ("classify",), {"panels": ("a/b",)}), ("ok", ("classify",), {"panels": ()})],
)  # fmt: skip
def test_bad_tokens_are_not_made(
    tmp_path: Path, name: str, scopes: tuple[str, ...], more: dict[str, Any]
) -> None:
    with pytest.raises(BadInput):
        TokenFile(tmp_path / "tokens.json").new(name, scopes, **more)
    assert not (tmp_path / "tokens.json").exists()


def test_two_active_tokens_do_not_share_a_name(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.new("clinic", ("classify",))
    with pytest.raises(BadInput, match="revoke it first"):
        tokens.new("clinic", ("admin",))
    tokens.revoke("clinic")
    tokens.new("clinic", ("admin",))
    with pytest.raises(BadInput, match="no active token"):
        tokens.revoke("nobody")


def test_requests_need_a_token_and_the_right_scope(guarded: Guarded) -> None:
    client, plain, admin, tokens = guarded
    bare = client.post("/v1/classify", json=ASK)
    assert (bare.status_code, kind(bare)) == (401, "no-token")
    assert bare.headers["www-authenticate"].startswith("Bearer")
    for wrong in ("Bearer nonsense", "Basic abc", "Bearer", f"Token {plain}"):
        reply = client.post("/v1/classify", json=ASK, headers={"authorization": wrong})
        assert (reply.status_code, kind(reply)) == (401, "bad-token")
    for path in ("/v1/audit", "/v1/audit/verify", "/metrics"):
        replies = [client.get(path), *(client.get(path, headers=bearer(token)) for token in (plain, admin))]
        assert [reply.status_code for reply in replies] == [401, 403, 200]
    for path in ("/healthz", "/readyz", "/", "/cds-services"):
        assert client.get(path).status_code == 200
    other, _ = tokens.new("other", ("classify",))
    answer = client.post("/v1/classify", json=ASK, headers=bearer(plain)).headers["simdx-answer"]
    assert client.get("/v1/audit", headers=bearer(admin)).json()["records"][0]["caller"] == "clinic"
    for token, status in ((other, 404), (plain, 201)):  # feedback is the caller's own
        body = {"answer": answer, "label": "oral mucocele"}
        assert client.post("/v1/feedback", json=body, headers=bearer(token)).status_code == status
    tokens.revoke("clinic")
    assert client.post("/v1/classify", json=ASK, headers=bearer(plain)).status_code == 401


EHR, TWICE = CdsClient("https://ehr.example", "a"), CdsClient("https://ehr.example", "b")
NO_SERVERS = (
    "http://fhir.example/r4", "ftp://127.0.0.1/r4", "fhir.example", "https://user@fhir.example", "https://",
    "https://fhir.example/#x", "https://fhir.example:port/",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"panels": {}}, "no panel"), ({"port": 70_000}, "from 0 to 65535"),
        ({"cors_origins": ("*",)}, "not an origin"),
        ({"cors_origins": ("https://ehr.example",)}, "--cors-origin needs tokens"),
        ({"cds_clients": (EHR,)}, "--public-url"),
        ({"cds_clients": (EHR, TWICE), "public_url": "https://simdx.example"}, "same issuer twice"),
        *(({"fhir_servers": (url,)}, "--fhir-server is an https address") for url in NO_SERVERS),
    ],
)  # fmt: skip
def test_configuration_is_checked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ServiceConfig(**wrong)


def test_cors_is_closed_unless_an_origin_is_named(tmp_path: Path) -> None:
    named = "https://ehr.example"
    preflight = {"origin": named, "access-control-request-method": "POST"}
    TokenFile(tmp_path / "tokens.json").new("clinic", ("classify",))
    with serving(tmp_path, require_token=True, cors_origins=(named,)) as client:
        allowed = client.options("/cds-services", headers=preflight).headers
        assert allowed["access-control-allow-origin"] == named
        other = client.get("/cds-services", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        refused = client.post("/v1/classify", json=ASK, headers={"origin": named})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, named)


# --------------------------------------------------------------------------- what a token may do

Card = tuple[TestClient, dict[str, Any], dict[str, dict[str, str]]]


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
    assert client.post("/v1/classify", json=ASK, headers=here).status_code == 200
    assert [p["id"] for p in client.get("/v1/panels", headers=here).json()["panels"]] == [PANEL]
    assert client.get("/v1/panels", headers=elsewhere).json()["panels"] == []
    refused = [
        client.post("/v1/classify", json=ASK, headers=elsewhere),
        client.post("/v1/fhir/RiskAssessment", json=ASK, headers=elsewhere),
        client.post(VIEW, json=invocation(), headers=elsewhere),
        client.get(f"/v1/panels/{PANEL}", headers=elsewhere),
        client.get("/v1/panels/not-there", headers=elsewhere),
    ]
    assert [(r.status_code, kind(r)) for r in refused] == [(403, "wrong-panel")] * len(refused)
    assert client.post(VIEW, json=invocation(), headers=here).status_code == 200


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
    answer = client.post("/v1/classify", json=ASK, headers=headers["own"]).headers["simdx-answer"]
    asked = {"feedback": [{**item, "card": answer}]}  # an answer that was no card
    assert client.post(f"{VIEW}/feedback", json=asked, headers=headers["own"]).status_code == 404
    assert feedback("admin") == 200
    recorded = client.get("/v1/audit", params={"kind": "cds-feedback"}, headers=headers["admin"]).json()
    assert [r["caller"] for r in recorded["records"]] == ["operator", "clinic"]


def test_the_cards_link_works_with_the_token_that_got_the_card(card: Card) -> None:
    client, sent, headers = card
    address, answer = sent["links"][0]["url"].split("#answer=")
    assert client.get(address.removeprefix(URL)).status_code == 200
    # What the page asks for when it is opened with that fragment.
    assert "`/v1/answers/${" in client.get("/static/auditview.js").text
    own, admin, other = (
        client.get(f"/v1/answers/{answer}", headers=h)
        for h in (headers[who] for who in ("own", "admin", "other"))
    )
    assert own.json()["record"]["id"] == answer
    assert own.json()["record"]["answer"]["label"]
    assert admin.status_code == 200
    assert (other.status_code, kind(other)) == (404, "unknown-answer")
    assert client.get(f"/v1/answers/{answer}").status_code == 401
    assert client.get("/v1/answers/nonsense", headers=headers["own"]).status_code == 422
