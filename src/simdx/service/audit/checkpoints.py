"""Checkpoints: the head of the chain, noted outside the database, so that a cut at its end shows.

A line of the file says how many records the log had and what its head was. It carries the code of the line
before and one of its own, both under the audit key, so no line can be changed, left out or added without it.
The database in turn knows how many lines each file has: a file that was cut shows as well.

The file is only ever appended to, so it may be made append-only (`chattr +a`) or lie on a store that is. A
line that was torn by a crash is left where it is; the next one begins on a line of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from filelock import FileLock
from pydantic import ConfigDict, TypeAdapter

from simdx.errors import RunFailed
from simdx.service.audit.record import GENESIS, content_bytes, now
from simdx.service.audit.ring import AuditKey, KeyRing

CHECKPOINT_SECONDS = 1.0  # the longest a record waits for one: what a crash, or a cut, may take unseen
_TAIL = 4_096  # bytes: several lines


class CheckpointProblem(RunFailed):
    """The file cannot be written, or is not as it was written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    file: str  # a random name, the same in all lines: a log may have a file on each of several machines
    number: int  # from 1
    records: int  # how many records the log had; also the sequence number of the newest
    head: str
    at: str
    key: str
    previous: str
    mac: str

    def holds(self, ring: KeyRing) -> bool:
        key = ring.get(self.key)
        return key is not None and key.checkpoint_mac(self._content()) == self.mac

    def _content(self) -> bytes:
        return content_bytes({k: v for k, v in asdict(self).items() if k != "mac"})

    @classmethod
    def after(cls, last: Checkpoint | None, records: int, head: str, key: AuditKey) -> Checkpoint:
        file, number, previous = (
            (last.file, last.number + 1, last.mac) if last else (secrets.token_hex(8), 1, GENESIS)
        )
        unsigned = cls(file, number, records, head, now(), key.id, previous, "")
        return cls(**{**asdict(unsigned), "mac": key.checkpoint_mac(unsigned._content())})


_LINE = TypeAdapter(Checkpoint)


class CheckpointFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: Checkpoint | None = None  # the latest this process knows to be in the file

    def last(self, ring: KeyRing) -> Checkpoint | None:
        """The latest checkpoint; a file that lost one this process knew of is a problem."""
        found, known = self._tail(ring), self._last
        if known is not None:
            same = found is not None and found.number == known.number and found.mac == known.mac
            later = found is not None and found.number > known.number and found.file == known.file
            if not (same or later):
                raise CheckpointProblem(f"the checkpoint file {self.path} was cut or replaced: put it back")
        self._last = found
        return found

    def append(self, records: int, head: str, key: AuditKey, ring: KeyRing) -> Checkpoint:
        """Note a head, on the disk before this returns. One that a later head covers is not noted again."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=-1, mode=0o600):
                last = self.last(ring)
                if last is not None and last.records == records and last.head != head:
                    raise CheckpointProblem(f"the checkpoints in {self.path} are another log's")
                covered = last is not None and last.records >= records
                made = last if last is not None and covered else Checkpoint.after(last, records, head, key)
                self._write(b"" if covered else json.dumps(asdict(made)).encode("ascii") + b"\n")
                self._last = made
                return made
        except OSError as error:
            raise self._failed("written", error) from None

    def read(self, ring: KeyRing) -> Iterator[Checkpoint]:
        """Every checkpoint that is there now, in order; CheckpointProblem at the first flaw."""
        try:
            return self._lines(ring, self.path.stat().st_size)
        except FileNotFoundError:
            return iter(())
        except OSError as error:
            raise self._failed("read", error) from None

    def _lines(self, ring: KeyRing, end: int) -> Iterator[Checkpoint]:
        previous: Checkpoint | None = None
        try:
            with self.path.open("rb") as file:
                while file.tell() < end and (line := file.readline(_TAIL)):
                    found = _parsed(line)
                    if found is not None:  # else torn by a crash: its number comes again
                        self._check(found, previous, ring)
                        previous = found
                        yield found
        except OSError as error:
            raise self._failed("read", error) from None

    def _failed(self, how: str, error: OSError) -> CheckpointProblem:
        return CheckpointProblem(f"the checkpoint file {self.path} cannot be {how}: {error.strerror}")

    def _check(self, found: Checkpoint, previous: Checkpoint | None, ring: KeyRing) -> None:
        number = previous.number + 1 if previous else 1
        before = (previous.file, previous.mac, previous.records) if previous else (found.file, GENESIS, -1)
        file, mac, records = before
        problem = None
        if found.number != number or found.file != file:
            problem = "is missing or damaged"
        elif not found.holds(ring):
            problem = "was changed, or written with another key"
        elif found.previous != mac or found.records <= records:
            problem = "does not follow the one before it"
        if problem:
            raise CheckpointProblem(f"checkpoint {number} of {self.path} {problem}")

    def _tail(self, ring: KeyRing) -> Checkpoint | None:
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", error) from None
        for line in reversed(lines):
            found = _parsed(line)
            if found is not None and found.holds(ring):
                return found
            if found is not None:
                raise CheckpointProblem(
                    f"the end of the checkpoint file {self.path} was changed, or written with another key"
                )
        if size > _TAIL:
            raise CheckpointProblem(f"the end of the checkpoint file {self.path} is damaged")
        return None

    def _write(self, line: bytes) -> None:
        new = not self.path.exists()
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            if line and size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # the last line was torn
            while line:
                line = line[os.write(handle, line) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:  # bring the new name to the disk too
            with contextlib.suppress(OSError):
                handle = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


class Anchor:
    """A log's own writer of checkpoints: the head that waits for one, and since when; none without a file."""

    def __init__(self, file: CheckpointFile | None) -> None:
        self._file = file
        self.waiting: tuple[int, str, AuditKey] | None = None
        self._since = 0.0

    def wait(self, records: int, head: str, key: AuditKey) -> None:
        if self.waiting is None:
            self._since = time.monotonic()
        self.waiting = (records, head, key) if self._file else None

    @property
    def overdue(self) -> bool:
        return self.waiting is not None and time.monotonic() - self._since >= CHECKPOINT_SECONDS

    def write(self, ring: KeyRing) -> Checkpoint | None:
        if self._file is None or self.waiting is None:
            return None
        made = self._file.append(*self.waiting, ring)
        self.waiting = None
        return made


def _parsed(line: bytes) -> Checkpoint | None:
    """The checkpoint of a line; None for half a line."""
    try:
        return _LINE.validate_json(line)
    except ValueError:
        return None
