"""Who may call: bearer tokens with scopes and panels, hashed at rest.

A token is `sdx_<id>_<secret>` with 256 random bits, so a plain SHA-256 of it is safe to keep: there is
nothing to guess. The file is read again when it changes, so that a revocation needs no restart.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field

from simdx.disk import CannotWrite, make_folder, write_atomically
from simdx.errors import BadInput
from simdx.service.problems import Problem

SCOPES = ("classify", "metrics", "admin")
ALSO = {"metrics": "admin"}  # a scope that another one includes

Panels = tuple[str, ...] | None  # None: every panel
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


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
