"""Record systems that sign their calls, against a key set generated here and served on loopback."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from starlette.testclient import TestClient

from simdx.errors import BadInput
from simdx.service import auth
from simdx.service.auth import ClientKeys, TokenFile, parse_keys
from simdx.service.config import CdsClient
from simdx.service.wire import Problem
from tests.loopback import Pages, running
from tests.service.conftest import PANEL, TEXT, URL, bearer, serving
from tests.service.test_cds import SELECT, VIEW, invocation

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
def client(keys: Pages, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, cds_clients=(CdsClient(ISSUER, keys.url),), public_url=PUBLIC) as client:
        yield client


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
    client: TestClient, keys: Pages, key: ECKey | RSAKey, tmp_path: Path
) -> None:
    for token in (signed(key), signed(key, {"jku": keys.url}), signed(key, aud=["x", PUBLIC + VIEW])):
        reply = client.post(VIEW, json=invocation(), headers=bearer(token))
        assert reply.status_code == 200
        assert reply.json()["cards"]
    assert len(keys.asked) == 1  # fetched once, then kept
    operator, _ = TokenFile(tmp_path / "tokens.json").new("operator", ("admin",))
    (record,) = client.get("/v1/audit?limit=1", headers=bearer(operator)).json()["records"]
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
def test_a_token_that_does_not_hold_is_refused(client: TestClient, keys: Pages, name: str) -> None:
    make, why = REFUSED[name]
    reply = client.post(
        VIEW, json=invocation(), headers={"authorization": f"Bearer {make()}".encode("latin-1")}
    )
    assert (reply.status_code, reply.json()["type"]) == (401, "urn:simdx:problem:bad-token")
    assert why in reply.json()["detail"]
    assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_token_is_for_one_call(client: TestClient) -> None:
    token = signed()
    assert client.post(VIEW, json=invocation(), headers=bearer(token)).status_code == 200
    again = client.post(VIEW, json=invocation(), headers=bearer(token))
    said = "The signed token is refused: it was used before."
    assert (again.status_code, again.json()["detail"]) == (401, said)


def test_a_signed_call_opens_the_hooks_and_nothing_else(client: TestClient, tmp_path: Path) -> None:
    for path in ("/v1/classify", "/v1/fhir/RiskAssessment"):
        body = {"panel": PANEL, "text": TEXT}
        assert client.post(path, json=body, headers=bearer(signed(aud=PUBLIC + path))).status_code == 401
    for path in ("/v1/audit", "/metrics", "/v1/panels"):
        assert client.get(path, headers=bearer(signed(aud=PUBLIC + path))).status_code == 401
    assert client.post(VIEW, json=invocation()).status_code == 401
    assert client.get("/cds-services").status_code == 200  # discovery is open to all
    token, _ = TokenFile(tmp_path / "tokens.json").new("clinic", ("classify",))
    assert client.post(VIEW, json=invocation(), headers=bearer(token)).status_code == 200  # as are they


def test_a_client_may_be_held_to_its_panels(keys: Pages, tmp_path: Path) -> None:
    trusted = CdsClient(ISSUER, keys.url, ("another-panel",))
    with serving(tmp_path, cds_clients=(trusted,), public_url=PUBLIC) as client:
        reply = client.post(VIEW, json=invocation(), headers=bearer(signed()))
        said = client.post(f"{VIEW}/feedback", headers=bearer(signed(aud=f"{PUBLIC}{VIEW}/feedback")),
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
