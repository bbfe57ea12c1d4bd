"""What a database must offer to hold the log, and how its failures are told."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from simdx.errors import RunFailed


class AuditUnavailable(RunFailed):
    """The log cannot be written or read now. No answer leaves the service without its record."""


class Database(Protocol):
    """What differs between SQLite and PostgreSQL."""

    name: str
    place: str  # for messages
    lock_head: str  # reads the head and keeps other writers out until the transaction ends

    def connect(self) -> Any: ...
    def writing(self, connection: Any) -> AbstractContextManager[Any]:
        """A transaction that commits at the end or leaves nothing behind."""
        ...

    def snapshot(self, connection: Any) -> AbstractContextManager[Any]:
        """Reads within it see one state, whatever others write meanwhile."""
        ...

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any: ...
    def stream(self, connection: Any, sql: str) -> Generator[tuple[Any, ...]]: ...
    def damage(self, connection: Any) -> str | None: ...
    def is_failure(self, error: Exception) -> bool: ...


class Guarded:
    """Turns a database's own errors into AuditUnavailable; their text may quote values, so it is dropped."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and self._db.is_failure(error):
            raise AuditUnavailable(
                f"the audit log {self._db.place} cannot be used now ({self._db.name}: {type(error).__name__})"
            ) from None
