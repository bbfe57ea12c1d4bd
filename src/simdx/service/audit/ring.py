"""The keys behind the audit log: they key chain, checkpoints and hashes of texts and people, and seal texts.

They lie outside the database, so that someone who can write the database alone can neither rebuild the chain
after a change nor test guesses against the hashes. One file holds them, oldest first: one that was rotated
out still verifies what it wrote.

A line is a key in hex, followed by `retired` once nothing is written with it any more; a file that was never
rotated is a single key. Which key is in use the database says, so a key that is in the file and not yet in
use is no harm, and a rotation that was interrupted can be finished.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from simdx.disk import CannotWrite, create_once, make_folder, sweep, write_atomically
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.service.config import alone

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_RETIRED = "retired"


class AuditKey:
    """Independent keys from one secret, one for each use."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise BadInput(f"an audit key is {KEY_BYTES} bytes; this one has {len(secret)}")
        self._chain, self._text, self._seal, self._checkpoint, self._person = (
            hmac.digest(secret, b"simdx audit " + use, "sha256")
            for use in (b"chain", b"text", b"seal", b"checkpoint", b"person")
        )

    @property
    def id(self) -> str:
        """Names the key without giving it away: a log remembers which key it was written with."""
        return hmac.digest(self._chain, b"id", "sha256").hex()[:16]

    def chain_hash(self, previous: str, content: bytes) -> str:
        return hmac.digest(self._chain, previous.encode("ascii") + b"\n" + content, "sha256").hex()

    def text_hash(self, text: str) -> str:
        return hmac.digest(self._text, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def checkpoint_mac(self, content: bytes) -> str:
        return hmac.digest(self._checkpoint, content, "sha256").hex()

    def person_hash(self, role: str, identifier: str) -> str:
        """Names a person to whoever has the key and asks for them by id, and to nobody else."""
        data = f"{role}\n{identifier}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._person, data, "sha256").hex()

    def seal(self, text: str, owner: str) -> bytes:
        """AES-256-GCM, bound to the record it belongs to."""
        nonce, plain = os.urandom(_NONCE_BYTES), text.encode("utf-8", "surrogatepass")
        return nonce + _cipher(self._seal).encrypt(nonce, plain, owner.encode("ascii"))

    def unseal(self, sealed: bytes, owner: str) -> str:
        from cryptography.exceptions import InvalidTag

        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            plain = _cipher(self._seal).decrypt(nonce, rest, owner.encode("ascii"))
        except InvalidTag:
            raise RunFailed("a kept text does not open with this key: it was changed or moved") from None
        return plain.decode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("keeping case texts", "service") from None
    return AESGCM(key)


class KeyRing:
    def __init__(self, *keys: AuditKey, retired: frozenset[str] = frozenset(), path: Path | None = None):
        self.keys, self.retired, self._path = keys, retired, path

    @classmethod
    def from_file(cls, path: Path, create: bool = False) -> KeyRing:
        """The keys in `path`; with `create`, a first one for the owner's eyes only where there is no file."""
        if create and not path.exists():
            # Whole or not there, and once: two services that start together agree on one key.
            try:
                make_folder(path.parent)
                create_once(path, secrets.token_hex(KEY_BYTES) + "\n", 0o600)
            except CannotWrite as error:
                raise BadInput(f"the audit key cannot be made: {error}") from None
        elif create:
            sweep(path.parent, f".{path.name}-*")  # a second name of the key, from a start that was killed
        lines = _read(path)
        keys = [AuditKey(secret) for secret, _ in lines]
        gone = frozenset(key.id for key, (_, retired) in zip(keys, lines, strict=True) if retired)
        return cls(*keys, retired=gone, path=path)

    @property
    def newest(self) -> AuditKey:
        return self.keys[-1]

    def get(self, key_id: str) -> AuditKey | None:
        return next((key for key in self.keys if key.id == key_id), None)

    def after(self, key: AuditKey) -> AuditKey | None:
        """The key that took the place of this one."""
        place = [k.id for k in self.keys].index(key.id) + 1
        return self.keys[place] if place < len(self.keys) else None

    def read_again(self) -> KeyRing:
        """The ring as its file has it now: another process may have rotated."""
        return self if self._path is None else KeyRing.from_file(self._path)

    def all_hashes(self, role: str, identifier: str) -> frozenset[str]:
        """What a person is called in the log, under each key."""
        return frozenset(key.person_hash(role, identifier) for key in self.keys)


def add_key(path: Path) -> KeyRing:
    """Put a new key behind the others; nothing is written with it until the log is switched to it."""
    return _changed(path, lambda lines: [*lines, (secrets.token_bytes(KEY_BYTES), False)])


def retire_before(path: Path, current: AuditKey) -> KeyRing:
    """Note that nothing is written any more with the keys before this one."""

    def change(lines: Lines) -> Lines:
        place = [AuditKey(secret).id for secret, _ in lines].index(current.id)
        return [(secret, retired or i < place) for i, (secret, retired) in enumerate(lines)]

    return _changed(path, change)


Lines = list[tuple[bytes, bool]]


def _changed(path: Path, change: Callable[[Lines], Lines]) -> KeyRing:
    with alone(path, "the audit key"):
        lines = change(_read(path))
        text = "".join(f"{secret.hex()}{' ' + _RETIRED if retired else ''}\n" for secret, retired in lines)
        write_atomically(path, text, 0o600)
    return KeyRing.from_file(path)


def _read(path: Path) -> Lines:
    try:
        rows = [words for line in path.read_text(encoding="ascii").splitlines() if (words := line.split())]
        lines = [(bytes.fromhex(words[0]), len(words) == 2) for words in rows]
        if not lines or any(words[1:] not in ([], [_RETIRED]) for words in rows):
            raise ValueError
        if any(len(secret) != KEY_BYTES for secret, _ in lines):
            raise ValueError
        return lines
    except FileNotFoundError:
        raise BadInput(f"no audit key at {path}: give --key, the file the service was run with") from None
    except OSError as error:
        raise BadInput(f"the audit key {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadInput(
            f"the audit key {path} is not {2 * KEY_BYTES} hexadecimal digits a line: restore it from a copy; "
            "no other key opens its log"
        ) from None
