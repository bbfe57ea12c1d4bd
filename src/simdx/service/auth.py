"""Who may call: bearer tokens with scopes and panels, hashed at rest; and record systems that sign.

A token is `sdx_<id>_<secret>` with 256 random bits, so a plain SHA-256 of it is safe to keep: there is
nothing to guess. The file is read again when it changes, so that a revocation needs no restart.

A signed call is CDS Hooks' client authentication, by the letter: a JWT signed with the record system's
private key. The operator names each issuer and where its keys are; nothing in a token chooses where keys come
from. It is for one address, for five minutes at most, and for one call: its id is remembered until it has
expired. A restart forgets the ids, so that one caught just before could be used once more while it lasts.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry, extract_compact
from pydantic import BaseModel, ConfigDict, Field

from simdx.disk import CannotWrite, make_folder, write_atomically
from simdx.errors import BadInput
from simdx.service.chart import CannotFetch, get
from simdx.service.config import CdsClient
from simdx.service.wire import Problem

SCOPES = ("classify", "metrics", "admin")
ALSO = {"metrics": "admin"}  # a scope that another one includes

Panels = tuple[str, ...] | None  # None: every panel
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    scopes: tuple[str, ...]
    panels: Panels = None

    def may_ask(self, panel: str) -> bool:
        return self.panels is None or panel in self.panels

    def needs(self, scope: str) -> None:
        if scope not in self.scopes and ALSO.get(scope) not in self.scopes:
            raise Problem("wrong-scope", f"This needs a token with the scope '{scope}'.")


LOCAL = Caller("local", SCOPES)


# --------------------------------------------------------------------------- tokens


class Token(BaseModel):
    """What is known of a token once it has been handed out: everything but itself."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: str
    name: str
    scopes: tuple[str, ...]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # any other is damage before a caller meets it
    created: str
    expires: str | None = None
    revoked: str | None = None
    panels: Panels = None

    def active(self, moment: str) -> bool:
        return self.revoked is None and (self.expires is None or self.expires > moment)


class _File(BaseModel):
    format: int = 1
    tokens: list[Token]


class TokenFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def list(self) -> list[Token]:
        self._refresh()
        return list(self._tokens.values())

    def new(
        self, name: str, scopes: tuple[str, ...], days: float | None = None, panels: Panels = None
    ) -> tuple[str, Token]:
        """Make a token; its text is returned once and kept nowhere."""
        if not _NAME.fullmatch(name):
            raise BadInput(
                "a token's name is 1 to 64 letters, digits, spaces or ._@-, a letter or digit first"
            )
        if not scopes or not set(scopes) <= set(SCOPES):
            raise BadInput(f"a token's scopes are {', '.join(SCOPES)}")
        if panels is not None and "admin" in scopes:
            raise BadInput("the scope admin sees every panel's answers: leave out --panel, or the scope")
        if panels is not None and not (panels and all(_NAME.fullmatch(p) for p in panels)):
            raise BadInput("a token's --panel is the name of a panel, as 'simdx panel list' shows it")
        if days is not None and not 0 < days <= 36_500:
            raise BadInput("a token lives for more than 0 days")
        with self._alone():
            if any(t.name == name and t.revoked is None for t in self._tokens.values()):
                raise BadInput(f"there is a token named '{name}': revoke it first, or choose another name")
            token_id = secrets.token_hex(4)
            text = f"sdx_{token_id}_{secrets.token_urlsafe(32)}"
            token = Token(
                id=token_id, name=name, scopes=tuple(scopes), sha256=_digest(text), created=_now(),
                expires=None if days is None else _now(timedelta(days=days)), panels=panels,
            )  # fmt: skip
            self._write({**self._tokens, token_id: token})
        return text, token

    def revoke(self, name_or_id: str) -> Token:
        with self._alone():
            for token in self._tokens.values():
                if name_or_id in (token.id, token.name) and token.revoked is None:
                    gone = token.model_copy(update={"revoked": _now()})
                    self._write({**self._tokens, token.id: gone})
                    return gone
        raise BadInput(f"no active token has the name or id '{name_or_id[:64]}': see 'simdx token list'")

    def check(self, text: str) -> Caller | None:
        """The caller a token names, or None. Takes the same time whether the id exists or not."""
        self._refresh()
        parts = text.split("_", 2)
        token = self._tokens.get(parts[1]) if len(parts) == 3 and parts[0] == "sdx" else None
        same = hmac.compare_digest(token.sha256 if token else "0" * 64, _digest(text))
        if not same or token is None or not token.active(_now()):
            return None
        return Caller(token.name, token.scopes, token.panels)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Read, change and write as one step: of two commands at once neither undoes the other's."""
        try:
            make_folder(self._path.parent)
            with FileLock(self._path.with_name(f".{self._path.name}.lock"), timeout=-1, mode=0o600):
                self._refresh()
                yield
        except CannotWrite as error:
            raise BadInput(f"the token file: {error}") from None
        except OSError as error:  # of the lock
            raise BadInput(f"the token file {self._path} cannot be written: {error.strerror}") from None

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
        except OSError:
            self._seen, self._tokens = None, {}
            return
        # The inode too: a clock that was set back may give two versions the same time.
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp == self._seen:
            return
        try:
            self._tokens = {t.id: t for t in _File.model_validate_json(self._path.read_bytes()).tokens}
        except (OSError, ValueError):
            raise BadInput(f"the token file {self._path} cannot be read: it is damaged or not ours") from None
        self._seen = stamp

    def _write(self, tokens: dict[str, Token]) -> None:
        body = _File(tokens=list(tokens.values())).model_dump_json(indent=1)
        write_atomically(self._path, body + "\n", 0o600)
        self._tokens, self._seen = tokens, None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _now(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat(timespec="seconds").replace("+00:00", "Z")


# --------------------------------------------------------------------------- signed calls

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
