"""Checkpoints: the head of the chain, noted outside the database, so that a cut at its end shows.

A line says how many records the log had and what its head was. The head is a keyed hash, so nobody without
the key can invent a line that the chain would meet. The file is only appended to: it may be append-only
(`chattr +a`) or lie on another machine's disk.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from simdx.errors import RunFailed

CHECKPOINT_SECONDS = 1.0  # the longest a record waits for one: what a crash, or a cut, may take unseen
_TAIL = 4_096  # bytes: several lines


class AuditUnavailable(RunFailed):
    """The log cannot be written or read now. No answer leaves the service without its record."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    records: int  # how many records the log had; also the sequence number of the newest
    head: str
    at: str


class CheckpointFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, head_after: Callable[[Checkpoint | None], Checkpoint]) -> None:
        """Append the head that `head_after` gives for the last line, on the disk before this returns.

        A lock on the file keeps the lines in order where several services write it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "rb+", 0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                tail = file.read()
                last = next(filter(None, map(_parsed, reversed(tail.split(b"\n")))), None)
                made = head_after(last)
                if last is None or made.records > last.records:
                    torn = b"\n" if tail and not tail.endswith(b"\n") else b""  # by a crash: left as it is
                    file.write(torn + json.dumps(asdict(made)).encode("ascii") + b"\n")
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._failed("written", error) from None

    def read(self) -> Iterator[Checkpoint]:
        """Every checkpoint that is there when this is called, in order; half a line is passed over."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return iter(())
        except OSError as error:
            raise self._failed("read", error) from None
        return _checkpoints(file, os.fstat(file.fileno()).st_size)

    def _failed(self, how: str, error: OSError) -> AuditUnavailable:
        return AuditUnavailable(f"the checkpoint file {self.path} cannot be {how}: {error.strerror}")


def _checkpoints(file: BinaryIO, end: int) -> Iterator[Checkpoint]:
    with file:
        while file.tell() < end and (line := file.readline(_TAIL)):
            if found := _parsed(line):
                yield found


def _parsed(line: bytes) -> Checkpoint | None:
    try:
        row = json.loads(line)
        return Checkpoint(int(row["records"]), str(row["head"]), str(row["at"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
