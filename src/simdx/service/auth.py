"""Who is calling: bearer tokens with scopes and panels, hashed at rest, and record systems that sign.

A token is `sdx_<id>_<secret>` with 256 random bits, so a plain SHA-256 of it is safe to keep: there is
nothing to guess. The file is read again when it changes, so that a revocation needs no restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from simdx.disk import write_atomically
from simdx.errors import BadInput
from simdx.service.config import alone
from simdx.service.problems import Problem

log = logging.getLogger("simdx.service")

SCOPES = ("classify", "metrics", "admin")
ALSO = {"metrics": "admin"}  # a scope that another one includes
REFUSALS = frozenset({"no-token", "bad-token", "wrong-scope", "wrong-panel", "forwarded"})
HEALTH = ("/healthz", "/readyz")  # open to anybody: an orchestrator's probes carry no token
if TYPE_CHECKING:
    from simdx.service.cds_clients import ClientKeys

Panels = tuple[str, ...] | None  # None: every panel
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token once it has been handed out: everything but itself."""

    id: str
    name: str
    scopes: tuple[str, ...]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created: str
    expires: str | None = None
    revoked: str | None = None
    panels: Panels = None

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    def active(self, moment: str) -> bool:
        return self.revoked is None and (self.expires is None or self.expires > moment)


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    scopes: tuple[str, ...]
    panels: Panels = None

    def may_ask(self, panel: str) -> bool:
        return self.panels is None or panel in self.panels


class _File(BaseModel):
    tokens: list[Token]  # a number in place of a digest is damage before a caller meets it
    format: int = 1


LOCAL = Caller("local", SCOPES)


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
            moment = datetime.now(UTC)
            token = Token(
                token_id, name, tuple(scopes), _digest(text), _stamp(moment),
                None if days is None else _stamp(moment + timedelta(days=days)), panels=panels,
            )  # fmt: skip
            self._write({**self._tokens, token_id: token})
        return text, token

    def revoke(self, name_or_id: str) -> Token:
        with self._alone():
            for token in self._tokens.values():
                if name_or_id in (token.id, token.name) and token.revoked is None:
                    gone = replace(token, revoked=_stamp(datetime.now(UTC)))
                    self._write({**self._tokens, token.id: gone})
                    return gone
        raise BadInput(f"no active token has the name or id '{name_or_id[:64]}': see 'simdx token list'")

    def check(self, text: str) -> Caller | None:
        """The caller a token names, or None. Takes the same time whether the id exists or not."""
        self._refresh()
        parts = text.split("_", 2)
        token = self._tokens.get(parts[1]) if len(parts) == 3 and parts[0] == "sdx" else None
        known = token.sha256 if token else "0" * 64
        # As bytes: a damaged file may name anything, and text must be ASCII here.
        same = hmac.compare_digest(known.encode("utf-8", "surrogatepass"), _digest(text).encode("ascii"))
        if not same or token is None or not token.active(_stamp(datetime.now(UTC))):
            return None
        return Caller(token.name, token.scopes, token.panels)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with alone(self._path, "the token file"):
            self._refresh()
            yield

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
        body = json.dumps({"format": 1, "tokens": [asdict(t) for t in tokens.values()]}, indent=1)
        write_atomically(self._path, body + "\n", 0o600)
        self._tokens, self._seen = tokens, None


class Guard:
    """Turns an Authorization header into a caller, or into a problem.

    `on_refused(address, kind of problem)` hears of everyone who was not let in. It is called on the event
    loop, as often as strangers like, and must return at once.
    """

    def __init__(
        self,
        tokens: TokenFile | None,
        on_refused: Callable[[str, str], None] | None = None,
        clients: ClientKeys | None = None,
        public_url: str | None = None,
    ) -> None:
        self._tokens, self._on_refused = tokens, on_refused
        self._clients, self._public_url = clients, (public_url or "").rstrip("/")

    @property
    def asks_for_tokens(self) -> bool:
        return self._tokens is not None

    async def identify(self, authorization: str, path: str) -> Caller | Problem:
        """Who sends this header, or why nobody does: which of the two matters is for the address to say."""
        if self._tokens is None:
            return LOCAL
        if not authorization:
            return Problem("no-token", "Send 'Authorization: Bearer TOKEN'; 'simdx token new' makes one.")
        kind, _, text = authorization.partition(" ")
        caller, text = None, text.strip()
        if kind.lower() == "bearer":
            try:
                # Only CDS Hooks has calls that a record system signs.
                if self._clients and text.count(".") == 2 and path.startswith("/cds-services/"):
                    client = await self._clients.check(text, self._public_url + path, time.time())
                    return Caller(client.issuer, ("classify",), client.panels)
                caller = self._tokens.check(text)
            except Problem as problem:
                return problem
            except BadInput as error:
                log.error("%s", error)
                said = "The token file cannot be read; the log says which."
                return Problem("not-ready", said, retry_after=5)
        return caller or Problem("bad-token", "The token is unknown, expired or revoked.")

    def allow(self, who: Caller | Problem, scope: str) -> Caller:
        if isinstance(who, Problem):
            raise who
        if scope not in who.scopes and ALSO.get(scope) not in who.scopes:
            raise Problem("wrong-scope", f"This needs a token with the scope '{scope}'.")
        return who

    def refused(self, address: str, kind: str) -> None:
        if self._on_refused is not None and kind in REFUSALS:
            self._on_refused(address, kind)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
