"""Record systems that sign their calls: CDS Hooks' client authentication, by the letter.

A call brings a JWT signed with the record system's private key. The operator names each issuer and where its
public keys are; nothing in a token chooses where keys come from. Keys are kept for a while and fetched again
for a key id they do not have, at most twice a minute whoever asks. A token is for one address, for five
minutes at most, and for one call: its id is remembered until it has expired. A restart forgets the ids, so
that a token caught just before could be used once more while it lasts.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact

from simdx.errors import BadInput
from simdx.service.config import CdsClient
from simdx.service.problems import Problem
from simdx.service.record_servers import CannotFetch, get

ALGORITHMS = ("ES384", "RS384")
TOKEN_LENGTH = 8_192
LIFETIME = 300  # seconds from iat to exp
LEEWAY = 30  # seconds by which two clocks may differ
FRESH = 900.0  # seconds after which keys are asked for again, so that a withdrawn one is noticed
KEPT = 86_400.0  # and after which they are not used any more when nobody answers
PAUSE = 30.0  # seconds between two attempts, whatever tokens come
IDS = 50_000  # calls of one client that may be remembered at once
SET_BYTES, SET_KEYS = 262_144, 100
SET_SECONDS = 5.0  # to fetch a key set
_RSA_BITS = range(2_048, 8_193)
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y")}
_BROKEN = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)

Key = ECKey | RSAKey


class _Registry(JWSRegistry):
    max_header_length = 4_096  # an address of keys and a certificate's thumbprint need more than 512


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


class ClientKeys:
    def __init__(self, clients: Sequence[CdsClient]) -> None:
        self._clients = {client.issuer: client for client in clients}
        self._keys = {client.issuer: _KeySet(client.keys) for client in clients}
        self._seen: dict[str, dict[str, float]] = {client.issuer: {} for client in clients}

    async def check(self, token: str, audience: str, now: float) -> CdsClient:
        """The client who signed this call to `audience`, or a Problem that says what is wrong with it."""
        if len(token) > TOKEN_LENGTH or not token.isascii():
            raise _refused("it is too long, or not a JWT")
        try:  # header and issuer as the token states them, to find the key that proves them
            parts = extract_compact(token.encode("ascii"), registry=_REGISTRY)
            header, issuer = dict(parts.headers()), json.loads(parts.payload)["iss"]
        except _BROKEN:
            raise _refused("it cannot be read") from None
        alg, kid = header.get("alg"), header.get("kid")
        client = self._clients.get(issuer) if isinstance(issuer, str) else None
        if client is None:
            raise _refused("its issuer is not known here")
        if alg not in ALGORITHMS:
            raise _refused(f"it is not signed with {' or '.join(ALGORITHMS)}")
        if str(header.get("typ", "")).upper() != "JWT" or "crit" in header or not isinstance(kid, str):
            raise _refused("its header needs typ JWT, a kid and nothing critical")
        if "://" in client.keys and header.get("jku", client.keys) != client.keys:
            raise _refused("its jku is not where this issuer's keys are known to be")
        key = await self._keys[issuer].find(kid, alg, now)
        if key is None:
            raise _refused("no key of its issuer has its kid")
        claims = _claims(token, key, issuer, audience, now)
        self._remember(issuer, claims["jti"], claims["exp"] + LEEWAY, now)
        return client

    def _remember(self, issuer: str, jti: str, until: float, now: float) -> None:
        """Take a token's id, once. Nothing is awaited here, so of two calls at once one is refused."""
        seen = self._seen[issuer]
        if seen.get(jti, 0.0) > now:
            raise _refused("it was used before")
        if len(seen) >= IDS:
            seen = self._seen[issuer] = {name: end for name, end in seen.items() if end > now}
        if len(seen) >= IDS:
            raise Problem("too-many-requests", "Too many signed calls within minutes.", retry_after=60)
        seen[jti] = until


class _KeySet:
    """The public keys at one address, or in one file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: dict[tuple[str, str], Key] = {}
        self._got = self._tried = float("-inf")
        self._alone = asyncio.Lock()
        if "://" not in source:
            try:
                self._keys = parse_keys(Path(source).read_bytes()) or {}
            except OSError as error:
                raise BadInput(f"--cds-client: {source} cannot be read: {error.strerror}") from None
            if not self._keys:
                raise BadInput(f"--cds-client: {source} holds no public key for {' or '.join(ALGORITHMS)}")

    async def find(self, kid: str, alg: str, now: float) -> Key | None:
        key = self._keys.get((kid, alg))
        if not (key and (now - self._got < FRESH or self._alone.locked())):
            async with self._alone:  # one asks, all who wait share what came
                if now - self._tried >= PAUSE:
                    self._tried = now
                    await self._load(now)
            key = self._keys.get((kid, alg))
        if now - self._got >= KEPT:
            raise Problem("no-keys", "The keys of this issuer cannot be fetched; try again.", retry_after=30)
        return key

    async def _load(self, now: float) -> None:
        """The keys as they are now; those known before stay when none come."""
        try:
            if "://" in self._source:
                limits: Any = {"limit": SET_BYTES, "seconds": SET_SECONDS}
                content, _ = await get(self._source, accept="application/json", **limits)
            else:
                content = await asyncio.to_thread(Path(self._source).read_bytes)
        except (CannotFetch, OSError):
            return
        if (keys := parse_keys(content)) is not None:  # a set without any key withdraws them all
            self._keys, self._got = keys, now


def parse_keys(content: bytes) -> dict[tuple[str, str], Key] | None:
    """(kid, algorithm) -> key, of those in a JWK Set that may verify a signature here; None if it is none."""
    try:
        listed = json.loads(content)["keys"]
    except _BROKEN:
        listed = None
    if not isinstance(listed, list):
        return None
    keys: dict[tuple[str, str], Key] = {}
    for item in listed[:SET_KEYS]:
        if isinstance(item, dict) and (found := _key(item)):
            keys.setdefault((item["kid"], found[0]), found[1])
    return keys


def _key(item: dict[str, Any]) -> tuple[str, Key] | None:
    """A key and the one algorithm it is for; its public part alone, whatever the set holds."""
    kty, kid, crv = item.get("kty"), item.get("kid"), item.get("crv")
    alg = "RS384" if kty == "RSA" else "ES384" if (kty, crv) == ("EC", "P-384") else None
    if alg is None or not isinstance(kid, str):
        return None
    if item.get("use", "sig") != "sig" or item.get("alg", alg) != alg:
        return None
    public = {name: item[name] for name in _PUBLIC[str(kty)] if isinstance(item.get(name), str)}
    try:
        if kty == "EC":
            return alg, ECKey.import_key(public)
        key = RSAKey.import_key(public)
        return (alg, key) if key.public_key.key_size in _RSA_BITS else None
    except _BROKEN:
        return None


def _claims(token: str, key: Key, issuer: str, audience: str, now: float) -> dict[str, Any]:
    named = {"iss": {"value": issuer}, "aud": {"value": audience}, "exp": {}, "iat": {}, "jti": {}}
    needed: Any = {claim: {"essential": True, **rule} for claim, rule in named.items()}
    try:
        claims = jwt.decode(token, key, registry=_REGISTRY).claims
        jwt.JWTClaimsRegistry(now=int(now), leeway=LEEWAY, **needed).validate(claims)
    except ExpiredTokenError:
        raise _refused("it has expired") from None
    except ClaimError as error:  # its claim is the name of a rule, never a word of the token
        raise _refused(f"its {error.claim} is missing or wrong") from None
    except _BROKEN:
        raise _refused("its signature does not hold") from None
    if not 0 <= claims["iat"] <= claims["exp"] <= claims["iat"] + LIFETIME:
        raise _refused(f"it is for longer than {LIFETIME} seconds")
    if len(claims["jti"]) > 200:
        raise _refused("its jti is too long")
    return claims


def _refused(why: str) -> Problem:
    return Problem("bad-token", f"The signed token is refused: {why}.")
