"""Tokens: hashed at rest, scoped, expiring, revocable while the service runs; record systems that sign."""

import asyncio
import base64
import hashlib
import hmac
import json
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from starlette.testclient import TestClient

from simdx.errors import BadInput
from simdx.service import auth
from simdx.service.auth import ClientKeys, TokenFile, parse_keys
from simdx.service.config import CdsClient, ServiceConfig
from simdx.service.wire import Problem
from tests.loopback import Pages, running
from tests.service.conftest import ASK, PANEL, TEXT, URL, Guarded, bearer, kind, serving
from tests.service.test_cds import SELECT, VIEW, invocation


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
    header = client.get(f"/v1/answers/{answer.removesuffix('.0')}", headers=headers["own"])  # as it was sent
    assert header.json()["record"]["id"] == answer
    assert own.json()["record"]["answer"]["label"]
    assert admin.status_code == 200
    assert (other.status_code, kind(other)) == (404, "unknown-answer")
    assert client.get(f"/v1/answers/{answer}").status_code == 401
    assert client.get("/v1/answers/nonsense", headers=headers["own"]).status_code == 422


# --------------------------------------------------------------------------- signed calls

# Against a key set generated here and served on loopback.
ISSUER = "https://ehr.example/"
PUBLIC = "https://simdx.example"
EC = ECKey.generate_key("P-384", {"kid": "ec"})
RSA = RSAKey.generate_key(2_048, {"kid": "rsa"})
STRANGER = ECKey.generate_key("P-384", {"kid": "ec"})
ROTATED = ECKey.generate_key("P-384", {"kid": "new"})


def publish(server: Pages, *keys: ECKey | RSAKey, status: int = 200) -> None:
    moved = ("location", server.url + "/elsewhere") if status == 302 else None
    body = json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()
    server.pages["/jwks.json"] = (status, "application/json", body, moved)


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "SET_SECONDS", 60.0)


@pytest.fixture
def keys() -> Iterator[Pages]:
    with running(Pages()) as server:
        server.url += "/jwks.json"
        publish(server, EC, RSA)
        yield server


@pytest.fixture
def ehr(keys: Pages, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, cds_clients=(CdsClient(ISSUER, keys.url),), public_url=PUBLIC) as ehr:
        yield ehr


def claims(**changes: object) -> dict:
    now = int(time.time())
    made = {"iss": ISSUER, "aud": PUBLIC + VIEW, "iat": now, "exp": now + 300, "jti": str(uuid.uuid4())}
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def signed(key: ECKey | RSAKey = EC, header: dict | None = None, **changes: object) -> str:
    alg = "ES384" if isinstance(key, ECKey) else "RS384"
    fields = {"alg": alg, "kid": key.kid, "typ": "JWT", **(header or {})}
    return jwt.encode({k: v for k, v in fields.items() if v is not None}, claims(**changes), key, [alg])


def part(value: dict) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("key", [EC, RSA])
def test_a_signed_call_is_answered_in_the_name_of_its_issuer(
    ehr: TestClient, keys: Pages, key: ECKey | RSAKey, tmp_path: Path
) -> None:
    for token in (signed(key), signed(key, {"jku": keys.url}), signed(key, aud=["x", PUBLIC + VIEW])):
        reply = ehr.post(VIEW, json=invocation(), headers=bearer(token))
        assert reply.status_code == 200
        assert reply.json()["cards"]
    assert len(keys.asked) == 1  # fetched once, then kept
    operator, _ = TokenFile(tmp_path / "tokens.json").new("operator", ("admin",))
    (record,) = ehr.get("/v1/audit?limit=1", headers=bearer(operator)).json()["records"]
    assert record["caller"] == ISSUER


def hs256_with_the_public_key() -> str:
    """The old trick: the public key, which everyone knows, as a shared secret."""
    head = part({"alg": "HS256", "typ": "JWT", "kid": "rsa"})
    start = f"{head}.{part(claims())}"
    mac = hmac.new(RSA.as_pem(private=False), start.encode(), hashlib.sha256).digest()
    return f"{start}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def none() -> str:
    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': 'ec'})}.{part(claims())}."


def altered() -> str:
    head, _, signature = signed().split(".")
    return f"{head}.{part(claims(tenant='other'))}.{signature}"


NOW = int(time.time())
REFUSED = {
    "wrong audience": (lambda: signed(aud=PUBLIC + SELECT), "aud"),
    "audience with another path": (lambda: signed(aud=PUBLIC), "aud"),
    "audience as the request has it": (lambda: signed(aud=URL + VIEW), "aud"),
    "no audience": (lambda: signed(aud=None), "aud"),
    "expired": (lambda: signed(iat=NOW - 400, exp=NOW - 100), "expired"),
    "from the future": (lambda: signed(iat=NOW + 3_000, exp=NOW + 3_100), "iat"),
    "not yet": (lambda: signed(nbf=NOW + 3_000), "nbf"),
    "too long": (lambda: signed(exp=NOW + 3_600), "longer than 300 seconds"),
    "before it began": (lambda: signed(iat=int(time.time()), exp=int(time.time()) - 10), "longer than"),
    "no expiry": (lambda: signed(exp=None), "exp"),
    "expiry as text": (lambda: signed(exp="tomorrow"), "exp"),
    "endless": (lambda: signed(exp=10**400), "longer than 300 seconds"),
    "no issue time": (lambda: signed(iat=None), "iat"),
    "no id": (lambda: signed(jti=None), "jti"),
    "long id": (lambda: signed(jti="x" * 201), "jti"),
    "unknown issuer": (lambda: signed(iss="https://other.example/"), "issuer"),
    "no issuer": (lambda: signed(iss=None), "cannot be read"),
    "none": (none, "not signed with"),
    "HS256 with the public key": (hs256_with_the_public_key, "not signed with"),
    "ES384 with an RSA key id": (lambda: signed(EC, {"kid": "rsa"}), "no key"),
    "a stranger's key": (lambda: signed(STRANGER), "signature"),
    "altered": (altered, "signature"),
    "unknown key": (lambda: signed(EC, {"kid": "another"}), "no key"),
    "no key id": (lambda: signed(EC, {"kid": None}), "kid"),
    "another type": (lambda: signed(EC, {"typ": "at+jwt"}), "typ"),
    "keys elsewhere": (lambda: signed(EC, {"jku": "https://evil.example/jwks"}), "jku"),
    "no JWT": (lambda: "a.b.c", "cannot be read"),
    "not ASCII": (lambda: "ä.b.c", "cannot be read"),
    "huge": (lambda: signed(tenant="x" * 9_000), "too long"),
    "deep": (lambda: f"{part({'alg': 'ES384'})}.{base64.urlsafe_b64encode(b'[' * 3_000).decode()}.x", "read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_that_does_not_hold_is_refused(ehr: TestClient, keys: Pages, name: str) -> None:
    make, why = REFUSED[name]
    reply = ehr.post(VIEW, json=invocation(), headers={"authorization": f"Bearer {make()}".encode("latin-1")})
    assert (reply.status_code, reply.json()["type"]) == (401, "urn:simdx:problem:bad-token")
    assert why in reply.json()["detail"]
    assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_token_is_for_one_call(ehr: TestClient) -> None:
    token = signed()
    assert ehr.post(VIEW, json=invocation(), headers=bearer(token)).status_code == 200
    again = ehr.post(VIEW, json=invocation(), headers=bearer(token))
    said = "The signed token is refused: it was used before."
    assert (again.status_code, again.json()["detail"]) == (401, said)


def test_a_signed_call_opens_the_hooks_and_nothing_else(ehr: TestClient, tmp_path: Path) -> None:
    for path in ("/v1/classify", "/v1/fhir/RiskAssessment"):
        body = {"panel": PANEL, "text": TEXT}
        assert ehr.post(path, json=body, headers=bearer(signed(aud=PUBLIC + path))).status_code == 401
    for path in ("/v1/audit", "/metrics", "/v1/panels"):
        assert ehr.get(path, headers=bearer(signed(aud=PUBLIC + path))).status_code == 401
    assert ehr.post(VIEW, json=invocation()).status_code == 401
    assert ehr.get("/cds-services").status_code == 200  # discovery is open to all
    token, _ = TokenFile(tmp_path / "tokens.json").new("clinic", ("classify",))
    assert ehr.post(VIEW, json=invocation(), headers=bearer(token)).status_code == 200  # as are they


def test_a_client_may_be_held_to_its_panels(keys: Pages, tmp_path: Path) -> None:
    trusted = CdsClient(ISSUER, keys.url, ("another-panel",))
    with serving(tmp_path, cds_clients=(trusted,), public_url=PUBLIC) as ehr:
        reply = ehr.post(VIEW, json=invocation(), headers=bearer(signed()))
        said = ehr.post(f"{VIEW}/feedback", headers=bearer(signed(aud=f"{PUBLIC}{VIEW}/feedback")),
                           json={"feedback": [{"card": str(uuid.uuid4()), "outcome": "overridden",
                                               "outcomeTimestamp": "2026-01-01T10:00:00Z"}]})  # fmt: skip
    assert (reply.status_code, reply.json()["type"]) == (403, "urn:simdx:problem:wrong-panel")
    assert said.status_code == 403


# --------------------------------------------------------------------------- the key set over time


def check(clients: ClientKeys, token: str, now: float | None = None) -> CdsClient:
    return asyncio.run(clients.check(token, PUBLIC + VIEW, time.time() if now is None else now))


def refused(clients: ClientKeys, token: str, now: float | None = None) -> str:
    with pytest.raises(Problem) as caught:
        check(clients, token, now)
    return caught.value.kind


@pytest.fixture
def clients(keys: Pages) -> ClientKeys:
    return ClientKeys([CdsClient(ISSUER, keys.url)])


def test_a_rotated_key_is_fetched_and_a_withdrawn_one_forgotten(clients: ClientKeys, keys: Pages) -> None:
    now = time.time()
    check(clients, signed(), now)
    publish(keys, ROTATED)
    assert refused(clients, signed(ROTATED), now + 1) == "bad-token"  # asked a second ago: not again
    check(clients, signed(ROTATED), now + auth.PAUSE)
    assert len(keys.asked) == 2
    assert refused(clients, signed(EC), now + auth.PAUSE + 1) == "bad-token"
    publish(keys)
    later = now + auth.PAUSE + auth.FRESH
    assert refused(clients, signed(ROTATED, iat=int(later), exp=int(later) + 60), later) == "bad-token"


def test_made_up_key_ids_do_not_make_us_ask_and_ask(clients: ClientKeys, keys: Pages) -> None:
    now = time.time()
    for i in range(50):
        assert refused(clients, signed(EC, {"kid": f"k{i}"}), now + i / 10) == "bad-token"
    assert len(keys.asked) == 1


def test_keys_stay_for_a_day_when_nobody_answers(clients: ClientKeys, keys: Pages) -> None:
    now = time.time()
    check(clients, signed(), now)
    publish(keys, status=500)
    hour = now + 3_600
    check(clients, signed(iat=int(hour), exp=int(hour) + 60), hour)
    day = now + auth.KEPT
    assert refused(clients, signed(iat=int(day), exp=int(day) + 60), day) == "no-keys"


@pytest.mark.parametrize("status", [302, 404, 500])
def test_keys_that_do_not_come_are_no_keys(clients: ClientKeys, keys: Pages, status: int) -> None:
    publish(keys, EC, status=status)
    assert refused(clients, signed()) == "no-keys"
    assert len(keys.asked) == 1  # a redirect is not followed


def test_of_many_calls_at_once_one_asks_for_the_keys_and_one_token_passes_once(
    clients: ClientKeys, keys: Pages
) -> None:
    tokens = [signed()] * 20 + [signed() for _ in range(20)]

    async def many() -> list[object]:
        calls = [clients.check(token, PUBLIC + VIEW, time.time()) for token in tokens]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(many())
    assert sum(isinstance(r, CdsClient) for r in results[:20]) == 1
    assert all(isinstance(r, CdsClient) for r in results[20:])
    assert len(keys.asked) == 1


def test_the_memory_of_ids_is_bounded_and_forgets_what_has_expired(
    clients: ClientKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "IDS", 3)
    now = time.time()
    for _ in range(3):
        check(clients, signed(), now)
    assert refused(clients, signed(), now) == "too-many-requests"
    later = now + 300 + auth.LEEWAY + 1
    check(clients, signed(iat=int(later), exp=int(later) + 60), later)


def test_a_key_set_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    # Of a private key, which does not belong there, only the public part is read.
    path.write_text(json.dumps({"keys": [EC.as_dict(private=True)]}))
    clients = ClientKeys([CdsClient(ISSUER, str(path))])
    check(clients, signed())
    path.write_text(json.dumps({"keys": [ROTATED.as_dict(private=False)]}))
    now = int(time.time() + auth.PAUSE) + 1
    check(clients, signed(ROTATED, iat=now, exp=now + 60), now)
    path.write_text("{}")
    with pytest.raises(BadInput, match="no public key"):
        ClientKeys([CdsClient(ISSUER, str(path))])
    with pytest.raises(BadInput, match="cannot be read"):
        ClientKeys([CdsClient(ISSUER, str(tmp_path / "none.json"))])


def test_only_keys_for_these_signatures_are_taken() -> None:
    p256 = ECKey.generate_key("P-256", {"kid": "p256"}).as_dict(private=False)
    secret = OctKey.generate_key(256, {"kid": "oct"}).as_dict()
    public = EC.as_dict(private=False)
    listed = [
        p256, secret, {**public, "use": "enc"}, {**public, "alg": "ES256"},
        {**public, "x": "AA"}, {**public, "x": None}, {**public, "crv": ["P-384"]}, "x", None,
        {"kty": "RSA", "kid": "small", "e": "AQAB", "n": base64.urlsafe_b64encode(b"\xff" * 128).decode()},
    ]  # fmt: skip
    assert parse_keys(json.dumps({"keys": listed}).encode()) == {}
    assert set(parse_keys(json.dumps({"keys": [public]}).encode()) or ()) == {("ec", "ES384")}
    for broken in (b"", b"[]", b'{"keys": 1}', b'{"keys": "x"}', b"[" * 100_000, b"\xff"):
        assert parse_keys(broken) is None


@pytest.mark.parametrize(
    ("issuer", "source"),
    [("clinic", "k.json"), ("https://ehr example", "k.json"), (ISSUER, "http://ehr.example/jwks")],
)
def test_a_client_is_a_uri_that_no_token_is_named_by_with_keys_from_a_safe_place(
    issuer: str, source: str
) -> None:
    with pytest.raises(BadInput):
        CdsClient(issuer, source)
