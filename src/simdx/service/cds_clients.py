"""Record systems that sign their calls: CDS Hooks' client authentication, by the letter.

A call brings a JWT signed with the record system's private key. The operator names each issuer and where its
public keys are; nothing in a token chooses where keys come from. A token is for one address, for five minutes
at most, and for one call: its id is remembered until it has expired. A restart forgets the ids, so that a
token caught just before could be used once more while it lasts.
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

Key = ECKey | RSAKey
# A key's type -> its one algorithm, its class and its bits.
_KINDS: dict[str, tuple[str, type[Key], range]] = {
    "EC": ("ES384", ECKey, range(384, 385)),
    "RSA": ("RS384", RSAKey, range(2_048, 8_193)),
}
ALGORITHMS = tuple(alg for alg, _, _ in _KINDS.values())
TOKEN_LENGTH = 8_192
LIFETIME = 300  # seconds from iat to exp
LEEWAY = 30  # seconds by which two clocks may differ
FRESH = 900.0  # seconds after which keys are asked for again, so that a withdrawn one is noticed
KEPT = 86_400.0  # and after which they are not used any more when nobody answers
PAUSE = 30.0  # seconds between two attempts, whatever tokens come
IDS = 50_000  # calls of one client that may be remembered at once
SET_BYTES, SET_KEYS = 262_144, 100
SET_SECONDS = 5.0  # to fetch a key set
# What of a key is read: its public part alone, whatever the set holds, and what it is for.
_PUBLIC = ("kty", "crv", "x", "y", "n", "e", "use", "alg")
_BROKEN = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class _Registry(JWSRegistry):
    max_header_length = 4_096  # an address of keys and a certificate's thumbprint need more than 512


_REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


class ClientKeys:
    def __init__(self, clients: Sequence[CdsClient]) -> None:
        self._clients = {client.issuer: (client, _KeySet(client.keys)) for client in clients}
        self._seen: dict[str, dict[str, float]] = {client.issuer: {} for client in clients}

    async def check(self, token: str, audience: str, now: float) -> CdsClient:
        """The client who signed this call to `audience`, or a Problem that says what is wrong with it."""
        if len(token) > TOKEN_LENGTH:
            raise _refused("it is too long")
        try:  # header and issuer as the token states them, to find the key that proves them
            parts = extract_compact(token.encode("ascii"), registry=_REGISTRY)
            header, issuer = dict(parts.headers()), json.loads(parts.payload)["iss"]
        except _BROKEN:
            raise _refused("it cannot be read") from None
        if not isinstance(issuer, str) or issuer not in self._clients:
            raise _refused("its issuer is not known here")
        client, keys = self._clients[issuer]
        alg, kid = header.get("alg"), header.get("kid")
        if alg not in ALGORITHMS:
            raise _refused(f"it is not signed with {' or '.join(ALGORITHMS)}")
        if str(header.get("typ", "")).upper() != "JWT" or "crit" in header or not isinstance(kid, str):
            raise _refused("its header needs typ JWT, a kid and nothing critical")
        if "://" in client.keys and header.get("jku", client.keys) != client.keys:
            raise _refused("its jku is not where this issuer's keys are known to be")
        claims = _claims(token, await keys.find((kid, alg), now), issuer, audience, now)
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
                found = parse_keys(Path(source).read_bytes())
            except OSError as error:
                raise BadInput(f"--cds-client: {source} cannot be read: {error.strerror}") from None
            if not found:
                raise BadInput(f"--cds-client: {source} holds no public key for {' or '.join(ALGORITHMS)}")

    async def find(self, name: tuple[str, str], now: float) -> Key:
        """The key of an id and an algorithm."""
        if name not in self._keys or (now - self._got >= FRESH and not self._alone.locked()):
            async with self._alone:  # one asks, all who wait share what came
                if now - self._tried >= PAUSE:
                    self._tried = now
                    await self._load(now)
        if now - self._got >= KEPT:
            raise Problem("no-keys", "The keys of this issuer cannot be fetched; try again.", retry_after=30)
        if name not in self._keys:
            raise _refused("no key of its issuer has its kid")
        return self._keys[name]

    async def _load(self, now: float) -> None:
        """The keys as they are now; those known before stay when none come."""
        try:
            if "://" in self._source:
                content, _ = await get(self._source, "application/json", SET_BYTES, SET_SECONDS)
            else:
                content = await asyncio.to_thread(Path(self._source).read_bytes)
        except (CannotFetch, OSError):
            return
        if (keys := parse_keys(content)) is not None:  # a set without any key withdraws them all
            self._keys, self._got = keys, now


def parse_keys(content: bytes) -> dict[tuple[str, str], Key] | None:
    """(kid, algorithm) -> key, of a JWK Set's keys that may verify a signature here; None if it is no set."""
    try:
        listed = json.loads(content)["keys"]
    except _BROKEN:
        listed = None
    if not isinstance(listed, list):
        return None
    keys: dict[tuple[str, str], Key] = {}
    for item in listed[:SET_KEYS]:
        try:
            alg, kind, bits = _KINDS[item["kty"]]
            key = kind.import_key({name: item[name] for name in _PUBLIC if name in item})
            key.check_use("sig")
            key.check_alg(alg)
            if key.public_key.key_size in bits:
                keys.setdefault((item["kid"], alg), key)
        except _BROKEN:
            continue
    return keys


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
