"""Tokens: hashed at rest, scoped, expiring, revocable while the service runs."""

import stat
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import BadInput
from simdx.service.auth import TokenFile
from simdx.service.config import CdsClient, Limits, ServiceConfig, is_loopback
from tests.service.conftest import PANEL, TEXT, Guarded, bearer, serving


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
    body = {"panel": PANEL, "text": TEXT}
    bare = client.post("/v1/classify", json=body)
    assert (bare.status_code, bare.json()["type"]) == (401, "urn:simdx:problem:no-token")
    assert bare.headers["www-authenticate"].startswith("Bearer")
    for wrong in ("Bearer nonsense", "Basic abc", "Bearer", f"Token {plain}"):
        reply = client.post("/v1/classify", json=body, headers={"authorization": wrong})
        assert (reply.status_code, reply.json()["type"]) == (401, "urn:simdx:problem:bad-token")
    assert client.post("/v1/classify", json=body, headers=bearer(plain)).status_code == 200
    for path in ("/v1/audit", "/v1/audit/verify", "/metrics"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=bearer(plain)).status_code == 403
        assert client.get(path, headers=bearer(admin)).status_code == 200
    for path in ("/healthz", "/readyz", "/", "/cds-services"):
        assert client.get(path).status_code == 200
    tokens.revoke("clinic")
    assert client.post("/v1/classify", json=body, headers=bearer(plain)).status_code == 401


def test_the_audit_log_names_the_caller_and_feedback_is_the_callers_own(guarded: Guarded) -> None:
    client, plain, admin, tokens = guarded
    other, _ = tokens.new("other", ("classify",))
    reply = client.post("/v1/classify", json={"panel": PANEL, "text": TEXT}, headers=bearer(plain))
    answer = reply.headers["simdx-answer"]
    records = client.get("/v1/audit", headers=bearer(admin)).json()["records"]
    assert records[0]["caller"] == "clinic"
    body = {"answer": answer, "label": "oral mucocele"}
    assert client.post("/v1/feedback", json=body, headers=bearer(other)).status_code == 404
    assert client.post("/v1/feedback", json=body, headers=bearer(plain)).status_code == 201


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("192.168.1.4", False), ("clinic.example", False), ("", False)],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


EHR, TWICE = CdsClient("https://ehr.example", "a"), CdsClient("https://ehr.example", "b")
NO_SERVERS = (
    "http://fhir.example/r4", "ftp://127.0.0.1/r4", "fhir.example", "https://user@fhir.example", "https://",
    "https://fhir.example/#x", "https://fhir.example:port/",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"panels": {}}, "no panel"), ({"port": 70_000}, "from 0 to 65535"), ({"workers": -1}, "--workers"),
        ({"workers": 65}, "--workers"), ({"cors_origins": ("*",)}, "not an origin"),
        ({"keep_text": True, "keep_text_days": 0}, "retention time"),
        ({"limits": Limits(rate=-1.0)}, "from 0 up"), ({"limits": Limits(rate=float("nan"))}, "from 0 up"),
        ({"limits": Limits(address_sockets=-1)}, "from 0 up"), ({"cds_clients": (EHR,)}, "--public-url"),
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
    with serving(tmp_path, cors_origins=(named,)) as client:
        allowed = client.options("/cds-services", headers=preflight).headers
        assert allowed["access-control-allow-origin"] == named
        other = client.get("/cds-services", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
