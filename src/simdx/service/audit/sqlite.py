"""The audit log in a SQLite file: nothing to install, one writer at a time, durable at every commit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, RunFailed

_HEADER = b"SQLite format 3\0"


class SqliteDatabase:
    name = "sqlite"
    lock_head = (
        "SELECT seq, hash, key_id FROM chain_head"  # the transaction is immediate: it holds the write lock
    )

    def __init__(self, path: str, must_exist: bool = False) -> None:
        self._path = Path(path)
        self.place = str(self._path)
        if must_exist and not self._path.is_file():
            raise BadInput(f"no audit log at {self._path}: give --url, the one the service was run with")
        self._refuse_cut(must_exist)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():  # the owner's eyes only, before the first byte is in it
                os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise BadInput(f"the audit log {self._path} cannot be written: {error.strerror}") from None

    def _refuse_cut(self, must_exist: bool) -> None:
        """SQLite takes the first bytes of a database that was cut off for a new, empty one."""
        try:
            with self._path.open("rb") as file:
                start = file.read(100)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInput(f"the audit log {self._path} cannot be read: {error.strerror}") from None
        if not start and must_exist:
            raise BadInput(f"the audit log {self._path} is empty: restore it from a copy")
        if start and (len(start) < 100 or not start.startswith(_HEADER)):
            raise RunFailed(
                f"the audit log {self._path} cannot be used now: it is damaged or cut off; restore it from "
                "a copy"
            )

    def damage(self, connection: sqlite3.Connection) -> str | None:
        """What the database finds wrong with its own file, tables and indices."""
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()
        return None if found and found[0] == "ok" else "the database file is damaged"

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # a purged text leaves no bytes in free pages
        return connection

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    @contextmanager
    def snapshot(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.rollback()

    def execute(self, connection: sqlite3.Connection, sql: str, values: Sequence[Any] = ()) -> Any:
        return connection.execute(sql, values)

    def stream(self, connection: sqlite3.Connection, sql: str) -> Generator[tuple[Any, ...]]:
        yield from connection.execute(sql)

    def is_failure(self, error: Exception) -> bool:
        # A damaged page may hold names and values that are no text at all.
        return isinstance(error, sqlite3.Error | UnicodeDecodeError)
