"""The chain: the key that makes it, and the walk that verifies it."""

import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import merge
from pathlib import Path
from typing import Any

from simdx.disk import CannotWrite, create_once, make_folder, sweep
from simdx.errors import BadInput
from simdx.service.audit.checkpoints import Checkpoint
from simdx.service.audit.record import GENESIS, AuditRecord, Entry, canonical, hashed_part

KEY_BYTES = 32


class AuditKey:
    """Independent keys for chain, texts and people, from one secret outside the database.

    Whoever can write the database alone can neither rebuild the chain nor test guesses against the hashes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise BadInput(f"an audit key is {KEY_BYTES} bytes; this one has {len(secret)}")
        uses = (b"chain", b"text", b"person")
        self._chain, self._text, self._person = (_mac(secret, b"simdx audit " + use) for use in uses)
        self.id = _mac(self._chain, b"id").hex()[:16]  # names the key without giving it away

    @classmethod
    def from_file(cls, path: Path, create: bool = False) -> "AuditKey":
        """The key in `path`; with `create`, a new one for the owner only where there is no file."""
        try:
            if create and not path.exists():
                make_folder(path.parent)
                create_once(path, secrets.token_hex(KEY_BYTES) + "\n")  # two services that start agree on one
            elif create:
                sweep(path.parent, f".{path.name}-*")  # of a start that was killed
            return cls(bytes.fromhex(path.read_text(encoding="ascii")))
        except FileNotFoundError:
            raise BadInput(f"no audit key at {path}: give --key, the file the service was run with") from None
        except (OSError, CannotWrite) as error:
            raise BadInput(f"the audit key {path} cannot be used: {error}") from None
        except (ValueError, BadInput):
            said = f"is not {2 * KEY_BYTES} hexadecimal digits: restore it from a copy"
            raise BadInput(f"the audit key {path} {said}; no other key opens its log") from None

    def chain_hash(self, previous: str, content: bytes) -> str:
        return _mac(self._chain, previous.encode("ascii") + b"\n" + content).hex()

    def text_hash(self, text: str) -> str:
        return _mac(self._text, text.encode("utf-8", "surrogatepass")).hex()

    def person_hash(self, role: str, identifier: str) -> str:
        """Names a person to whoever has the key and asks for them by id, and to nobody else."""
        return _mac(self._person, f"{role}\n{identifier}".encode("utf-8", "surrogatepass")).hex()

    def chained(self, entry: Entry, seq: int, at: str, previous: str) -> AuditRecord:
        """The record of an entry in its place."""
        people = {f"{role}_hash": self.person_hash(role, who) for role, who in entry.people.items()}
        said: dict[str, Any] = {
            "seq": seq, "id": entry.id, "at": at, "kind": entry.kind, "caller": entry.caller,
            "panel": entry.panel, "about": entry.about,
            "text_hash": None if entry.text is None else self.text_hash(entry.text),
            "prior": _flat(entry.prior), "answer": _json(entry.answer), "versions": _flat(entry.versions),
            "context": _json({**entry.context, **people} or None),
        }  # fmt: skip
        return AuditRecord(**said, previous=previous, hash=self.chain_hash(previous, hashed_part(said)))

    def made(self, record: AuditRecord) -> bool:
        """Is the record as this key chained it?"""
        try:
            return record.hash == self.chain_hash(record.previous, record.content())
        except (TypeError, ValueError):  # a value that no record can hold
            return False


def _json(value: Any) -> str | None:
    return None if value is None else canonical(value)


def _flat(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else _spelled(tuple(value.items()))


@lru_cache(maxsize=256)
def _spelled(items: tuple[tuple[str, Any], ...]) -> str:
    """Priors and versions are the same from answer to answer."""
    return canonical(dict(items))


def _mac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


@dataclass(frozen=True, slots=True)
class Verdict:
    ok: bool
    records: int
    head: str
    problem: str | None = None
    checkpoints: int = 0  # met on the way


def verify(
    records: Iterable[AuditRecord],
    key: AuditKey,
    head: tuple[int, str] | None = None,
    checkpoints: Iterable[Iterator[Checkpoint]] = (),
    noted: str | None = None,
) -> Verdict:
    """Walk a whole log in order, past the checkpoints of each of its files.

    `head` is as the log has it. `noted` is a head somebody wrote down, which must still be in the chain.
    """
    waiting = merge(*checkpoints, key=lambda found: found.records)
    following = next(waiting, None)
    count, last, met = 0, GENESIS, 0

    def wrong(problem: str) -> Verdict:
        return Verdict(False, count, last, problem, met)

    for record in records:
        number = count + 1
        if record.seq != number:
            return wrong(f"record {number} is missing")
        if record.previous != last:
            return wrong(f"record {number} does not follow the one before it")
        if not key.made(record):
            return wrong(f"record {number} was changed, or written with another key")
        count, last = number, record.hash
        noted = None if noted == last else noted
        while following is not None and following.records <= count:
            if following.records and (following.records, following.head) != (count, last):
                return wrong(
                    f"the checkpoint of {following.at} does not match record {following.records}: the log "
                    "was rewritten, or the checkpoints are damaged or another log's"
                )
            met, following = met + 1, next(waiting, None)
    if following is not None and following.records:
        return wrong(
            f"the log ends at record {count}, the checkpoint of {following.at} saw record "
            f"{following.records}: the newest records were cut off, or an older copy was put back"
        )
    if head is not None and head != (count, last):
        return wrong(f"the log ends at record {count}, its head was record {head[0]}")
    if noted is not None:
        return wrong("the head noted earlier is not in the chain: records were cut off or rewritten")
    return Verdict(True, count, last, None, met)
