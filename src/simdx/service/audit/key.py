"""The key behind the audit log: it keys chain, checkpoints and hashes of texts and people, and seals texts.

It lies outside the database (`ring`), so that someone who can write the database alone can neither rebuild
the chain after a change nor test guesses against the hashes.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from simdx.errors import BadInput, MissingExtra, RunFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


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
        data = text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._text, data, "sha256").hex()

    def checkpoint_mac(self, content: bytes) -> str:
        return hmac.digest(self._checkpoint, content, "sha256").hex()

    def person_hash(self, role: str, identifier: str) -> str:
        """Names a person to whoever has the key and asks for them by id, and to nobody else."""
        data = f"{role}\n{identifier}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._person, data, "sha256").hex()

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
