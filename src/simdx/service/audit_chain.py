"""The chain: what a record says, the key that ties it to the one before, and the walk that verifies it.

A chain cannot show that its end is missing: so its head, a keyed hash, is also noted outside the database, in
a file that is only appended to and may be append-only (`chattr +a`) or on another machine.
"""

import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from heapq import merge
from pathlib import Path
from typing import Any, Self

from pydantic_core import to_json

from simdx.disk import CannotWrite, create_once, make_folder, sweep
from simdx.errors import BadInput, RunFailed

GENESIS = "0" * 64
# Answers and what became of them; then who was refused and who read the log.
KINDS = ("answer", "explore", "feedback", "cds", "cds-feedback", "refused", "read")
KEY_BYTES = 32
_JSON = ("prior", "answer", "versions", "context")
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
_TAIL = 4_096  # bytes: several checkpoints


class AuditUnavailable(RunFailed):
    """The log cannot be written or read now. No answer leaves the service without its record."""


# --------------------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class Entry:
    """An event to be recorded. `about` names the earlier record a feedback is about.

    `context` is recorded as it is; of the `people` in it only a keyed hash is, as `<role>_hash`.
    """

    id: str
    kind: str
    caller: str
    panel: str
    prior: Mapping[str, float] | None = None
    answer: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] | None = None
    text: str | None = None
    about: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry in its place. JSON columns are kept as the text that was hashed."""

    seq: int
    id: str
    at: str
    kind: str
    caller: str
    panel: str
    about: str | None
    text_hash: str | None
    prior: str | None
    answer: str | None
    versions: str | None
    context: str | None
    previous: str
    hash: str = ""

    def to_json(self) -> dict[str, Any]:
        return {n: json.loads(v) if n in _JSON and v is not None else v for n, v in asdict(self).items()}


COLUMNS = tuple(AuditRecord.__dataclass_fields__)


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else to_json(value, inf_nan_mode="null", ensure_ascii=True).decode("ascii")


def now(timespec: str = "milliseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def patient_reference(patient: str) -> str:
    """One spelling of a patient's id: record systems send the bare id, a reference, or its whole address."""
    return "/".join(patient.rsplit("/", 2)[-2:]) if "/" in patient else f"Patient/{patient}"


# --------------------------------------------------------------------------- the key


class AuditKey:
    """Independent keys for chain, texts and people, from one secret outside the database.

    Whoever can write the database alone can neither rebuild the chain nor test guesses against the hashes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise BadInput(f"an audit key is {KEY_BYTES} bytes; this one has {len(secret)}")
        uses = (b"chain", b"text", b"person")
        self._chain, self._text, self._person = (
            hmac.digest(secret, b"simdx audit " + use, "sha256") for use in uses
        )
        self.id = _mac(self._chain, "id")[:16]  # names the key without giving it away

    @classmethod
    def from_file(cls, path: Path, create: bool = False) -> Self:
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

    def text_hash(self, text: str) -> str:
        return _mac(self._text, text)

    def person_hash(self, role: str, identifier: str) -> str:
        """Names a person to whoever has the key and asks for them by id, and to nobody else."""
        return _mac(self._person, f"{role}\n{identifier}")

    def chain_hash(self, record: AuditRecord) -> str:
        """Over the record without its hashes, and the one before it; an absent context is left out."""
        said = {column: getattr(record, column) for column in COLUMNS[:-2]}
        if said["context"] is None:
            del said["context"]
        return _mac(self._chain, f"{record.previous}\n{_ENCODER.encode(said)}")

    def chained(self, entry: Entry, seq: int, at: str, previous: str) -> AuditRecord:
        """The record of an entry in its place."""
        people = {f"{role}_hash": self.person_hash(role, who) for role, who in entry.people.items()}
        record = AuditRecord(
            seq, entry.id, at, entry.kind, entry.caller, entry.panel, entry.about,
            None if entry.text is None else self.text_hash(entry.text), _json(entry.prior),
            _json(entry.answer), _json(entry.versions), _json({**entry.context, **people} or None), previous,
        )  # fmt: skip
        return replace(record, hash=self.chain_hash(record))

    def made(self, record: AuditRecord) -> bool:
        """Is the record as this key chained it?"""
        try:
            return record.hash == self.chain_hash(record)
        except (TypeError, ValueError):  # a value that no record can hold
            return False


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()


# --------------------------------------------------------------------------- checkpoints


@dataclass(frozen=True, slots=True)
class Checkpoint:
    records: int  # how many records the log had; also the sequence number of the newest
    head: str
    at: str


def note(file: Path, head_after: Callable[[Checkpoint | None], Checkpoint]) -> None:
    """Append the head that `head_after` gives for the last line, on the disk before this returns.

    A lock on the file keeps the lines in order where several services write it.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb+", 0) as lines:
            fcntl.flock(lines, fcntl.LOCK_EX)
            lines.seek(max(0, lines.seek(0, os.SEEK_END) - _TAIL))
            tail = lines.read()
            last = next(filter(None, map(_parsed, reversed(tail.split(b"\n")))), None)
            made = head_after(last)
            if last is None or made.records > last.records:
                torn = b"\n" if tail and not tail.endswith(b"\n") else b""  # by a crash: left as it is
                lines.write(torn + json.dumps(asdict(made)).encode("ascii") + b"\n")
                os.fsync(lines.fileno())
    except OSError as error:
        raise AuditUnavailable(f"the checkpoint file {file} cannot be written: {error.strerror}") from None


def read_checkpoints(file: Path) -> Iterator[Checkpoint]:
    """Every checkpoint that is there when this is called, in order; half a line is passed over."""
    try:
        lines = file.open("rb")
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise AuditUnavailable(f"the checkpoint file {file} cannot be read: {error.strerror}") from None
    end = os.fstat(lines.fileno()).st_size

    def there() -> Iterator[bytes]:
        with lines:
            while lines.tell() < end:
                yield lines.readline(_TAIL)

    return filter(None, map(_parsed, there()))


def _parsed(line: bytes) -> Checkpoint | None:
    try:
        row = json.loads(line)
        return Checkpoint(int(row["records"]), str(row["head"]), str(row["at"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


# --------------------------------------------------------------------------- the walk


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
