"""The key behind the audit log: it keys the hash chain and the text hashes, and seals kept texts.

It lives in a file of its own, not in the database, so that someone who can write the database alone can
neither rebuild the chain after a change nor test guesses against the text hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from simdx.disk import CannotWrite, create_once, make_folder, sweep
from simdx.errors import BadInput, MissingExtra, RunFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


class AuditKey:
    """Three independent keys from one secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise BadInput(f"an audit key is {KEY_BYTES} bytes; this one has {len(secret)}")
        self._chain, self._text, self._seal = (
            hmac.digest(secret, b"simdx audit " + use, "sha256") for use in (b"chain", b"text", b"seal")
        )

    @classmethod
    def from_file(cls, path: Path, create: bool = False) -> AuditKey:
        """The key in `path` (hex); with `create`, a new one for the owner's eyes only where there is none."""
        if create and not path.exists():
            _write_new(path)
        elif create:
            sweep(path.parent, f".{path.name}-*")  # a second name of the key, from a start that was killed
        try:
            secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
            if len(secret) != KEY_BYTES:
                raise ValueError
            return cls(secret)
        except FileNotFoundError:
            raise BadInput(f"no audit key at {path}: give --key, the file the service was run with") from None
        except OSError as error:
            raise BadInput(f"the audit key {path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise BadInput(
                f"the audit key {path} is not {2 * KEY_BYTES} hexadecimal digits: restore it from a copy; no "
                "other key opens its log"
            ) from None

    @property
    def id(self) -> str:
        """Names the key without giving it away: a log remembers which key it was written with."""
        return hmac.digest(self._chain, b"id", "sha256").hex()[:16]

    def chain_hash(self, previous: str, content: bytes) -> str:
        return hmac.digest(self._chain, previous.encode("ascii") + b"\n" + content, "sha256").hex()

    def text_hash(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return hmac.new(self._text, data, hashlib.sha256).hexdigest()

    def seal(self, text: str, owner: str) -> bytes:
        """AES-256-GCM, bound to the record it belongs to."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + _cipher(self._seal).encrypt(
            nonce, text.encode("utf-8", "surrogatepass"), owner.encode("ascii")
        )

    def unseal(self, sealed: bytes, owner: str) -> str:
        from cryptography.exceptions import InvalidTag

        try:
            plain = _cipher(self._seal).decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], owner.encode("ascii")
            )
        except InvalidTag:
            raise RunFailed("a kept text does not open with this key: it was changed or moved") from None
        return plain.decode("utf-8", "surrogatepass")


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("keeping case texts", "service") from None
    return AESGCM(key)


def _write_new(path: Path) -> None:
    """Whole or not there, and once: two services that start together agree on one key."""
    try:
        make_folder(path.parent)
        create_once(path, secrets.token_hex(KEY_BYTES) + "\n", 0o600)
    except CannotWrite as error:
        raise BadInput(f"the audit key cannot be made: {error}") from None
