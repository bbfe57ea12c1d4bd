"""The answers of a build, append-only, one JSON line each: nothing that was paid for is ever lost.

A row is one write to a file opened for appending, so a killed process leaves whole rows and at most one
torn last line, which the next opening repairs. Rows reach the disk within `SYNC_SECONDS` or when the
store is closed: a power cut costs at most that. A lock refuses a second builder on the same folder.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from simdx.disk import CannotWrite, seal_holds, sealed
from simdx.errors import BadInput
from simdx.simulators.base import Completion

STORE_FILE = "answers.jsonl"
LOCK_FILE = ".build.lock"
SYNC_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One row: an answered request, or with `error` a failed attempt at one."""

    key: str
    model: str
    stratum: str
    index: int
    topic: str
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    error: str | None = None
    facets: dict[str, str] = field(default_factory=dict)


class AnswerStore:
    """Answers by key. Use as a context manager: it holds the folder's lock while it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / STORE_FILE
        self.answers: dict[str, StoredAnswer] = {}
        self.failures: dict[str, int] = {}
        self._lock = FileLock(folder / LOCK_FILE, timeout=0)
        self._file: int | None = None
        self._synced = 0.0

    def __enter__(self) -> AnswerStore:
        where = f"'{self.folder}'"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise BadInput(f"another build is running on {where}: wait for it, or stop it first") from None
        except OSError as error:
            raise BadInput(f"{where} cannot be written: {error.strerror}") from None
        try:
            _repair_last_line(self.path)
            for answer in read_answers(self.path):
                self._remember(answer)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise self._cannot_go_on(error) from None
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._file is not None
        try:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)
                self._file = None
        except OSError as problem:
            if error is None:  # otherwise what went wrong first is the thing to tell
                raise self._cannot_go_on(problem) from None
        finally:
            self._lock.release()

    def append(self, answer: StoredAnswer) -> None:
        assert self._file is not None, "the store is not open"
        # Half a surrogate pair has no place in a file; the seal is over what the file can hold.
        row = json.loads(json.dumps(asdict(answer), ensure_ascii=False).encode("utf-8", "replace"))
        line = json.dumps(sealed(row), ensure_ascii=False).encode("utf-8") + b"\n"
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a full disk or a signal may cut a write short
                written += os.write(self._file, line[written:])
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            raise self._cannot_go_on(error) from None
        self._remember(answer)

    def _cannot_go_on(self, error: OSError) -> CannotWrite:
        return CannotWrite(
            f"'{self.path}' cannot be written: {error.strerror}; the answers in it are kept, run the same "
            "command again when that is mended"
        )

    def _remember(self, answer: StoredAnswer) -> None:
        if answer.error is None:
            self.answers.setdefault(answer.key, answer)
        else:
            self.failures[answer.key] = self.failures.get(answer.key, 0) + 1


def answer_row(completion: Completion, **place: Any) -> StoredAnswer:
    same = ("text", "finish_reason", "prompt_tokens", "completion_tokens", "error")
    taken = {name: getattr(completion, name) for name in same}
    return StoredAnswer(seconds=round(completion.seconds, 4), **taken, **place)


def read_answers(path: Path) -> Iterator[StoredAnswer]:
    """Every row of a store; a damaged row other than a torn last line is refused by its number."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line.decode("utf-8"))
                if not isinstance(row, dict) or ("seal" in row and not seal_holds(row)):
                    raise ValueError
                answer = StoredAnswer(**{name: value for name, value in row.items() if name != "seal"})
                if not isinstance(answer.key, str) or not isinstance(answer.text, str):
                    raise TypeError
            except (ValueError, TypeError, RecursionError):
                raise BadInput(
                    f"{path.name} line {number} is not an answer as it was written: restore the file, or "
                    "remove that line and it is asked again"
                ) from None
            yield answer


def _repair_last_line(path: Path) -> None:
    """Mend the row a killed builder was writing: end it where it is whole, drop it where it is not."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        last = next(iter(deque(file, maxlen=1)), b"\n")
        if last.endswith(b"\n"):
            return
        try:
            json.loads(last.decode("utf-8"))
            file.write(b"\n")
        except ValueError:
            file.truncate(file.tell() - len(last))
        file.flush()
        os.fsync(file.fileno())
