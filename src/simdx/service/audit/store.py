"""The log in a database: SQLite in a file, or PostgreSQL by URL, with the same few statements.

Appending is serialised by the database, not by this process, so several services may write one log.
Reads open a connection of their own and never wait for a writer's lock in this process.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

from simdx.errors import BadInput, RunFailed
from simdx.service.audit.key import AuditKey
from simdx.service.audit.record import COLUMNS, GENESIS, Entry, Record, canonical, now
from simdx.service.audit.verify import Verdict, verify

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM records"
_INSERT = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


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

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any: ...
    def stream(self, connection: Any, sql: str) -> Iterator[tuple[Any, ...]]: ...
    def damage(self, connection: Any) -> str | None: ...
    def is_failure(self, error: Exception) -> bool: ...


class AuditStore:
    def __init__(
        self, database: Database, key: AuditKey, *, keep_text: bool = False, keep_text_days: float = 30.0
    ) -> None:
        self._db = database
        self._key = key
        self._keep = keep_text
        self._days = keep_text_days
        self._lock = threading.Lock()
        self._connection: Any = None
        self._purge_due = ""
        with self._guard():
            from simdx.service.audit.migrate import migrate

            connection = database.connect()
            try:
                migrate(database, connection)
                self._check_key(connection)
            finally:
                connection.close()

    # ----------------------------------------------------------------- writing

    def append(self, entries: Sequence[Entry]) -> list[Record]:
        """Add the entries in one transaction: all of them, or none and AuditUnavailable."""
        if not entries:
            return []
        with self._guard(), self._lock:
            if self._connection is None:
                self._connection = self._db.connect()
            try:
                with self._db.writing(self._connection):
                    return self._append(self._connection, entries)
            except Exception:
                # A broken connection is not used again; the next append opens a new one.
                self._connection.close()
                self._connection = None
                raise

    def _append(self, connection: Any, entries: Sequence[Entry]) -> list[Record]:
        seq, previous = self._db.execute(connection, self._db.lock_head).fetchone()
        at = now()
        records = []
        for entry in entries:
            seq += 1
            unhashed = Record(
                seq=seq, id=entry.id, at=at, kind=entry.kind, caller=entry.caller, panel=entry.panel,
                about=entry.about,
                text_hash=None if entry.text is None else self._key.text_hash(entry.text),
                prior=_json(entry.prior), answer=_json(entry.answer), versions=_json(entry.versions),
                previous=previous, hash="",
            )  # fmt: skip
            previous = self._key.chain_hash(previous, unhashed.content())
            values = [getattr(unhashed, c) for c in COLUMNS[:-1]]
            self._db.execute(connection, _INSERT, [*values, previous])
            records.append(replace(unhashed, hash=previous))
            if self._keep and entry.text is not None:
                self._keep_text(connection, entry.id, entry.text)
        self._db.execute(connection, "UPDATE chain_head SET seq = ?, hash = ?", [seq, previous])
        self._purge(connection, at)
        return records

    def _keep_text(self, connection: Any, owner: str, text: str) -> None:
        expires = (datetime.now(UTC) + timedelta(days=self._days)).isoformat(timespec="seconds")
        self._db.execute(
            connection,
            "INSERT INTO texts (id, sealed, expires_at) VALUES (?, ?, ?)",
            [owner, self._key.seal(text, owner), expires],
        )

    def _purge(self, connection: Any, at: str) -> None:
        """Expired texts go, at most once a minute."""
        if at[:16] == self._purge_due:
            return
        self._purge_due = at[:16]
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        self._db.execute(connection, "DELETE FROM texts WHERE expires_at <= ?", [moment])

    # ----------------------------------------------------------------- reading

    def find(self, record_id: str) -> Record | None:
        rows = self._read(f"{_SELECT} WHERE id = ?", [record_id])
        return Record(*rows[0]) if rows else None

    def page(
        self, *, limit: int = 50, before: int | None = None, panel: str | None = None, kind: str | None = None
    ) -> list[Record]:
        """The latest records first, optionally those before a sequence number."""
        wanted, values = ["1 = 1"], list[Any]()
        for column, value in (("panel = ?", panel), ("kind = ?", kind), ("seq < ?", before)):
            if value is not None:
                wanted.append(column)
                values.append(value)
        rows = self._read(
            f"{_SELECT} WHERE {' AND '.join(wanted)} ORDER BY seq DESC LIMIT ?", [*values, limit]
        )
        return [Record(*row) for row in rows]

    def records(self) -> Generator[Record]:
        """Every record in order, streamed."""
        with self._guard():
            connection = self._db.connect()
            try:
                for row in self._db.stream(connection, f"{_SELECT} ORDER BY seq"):
                    yield Record(*row)
            finally:
                connection.close()

    def head(self) -> tuple[int, str]:
        rows = self._read("SELECT seq, hash FROM chain_head")
        try:
            return (int(rows[0][0]), str(rows[0][1])) if rows else (0, GENESIS)
        except (TypeError, ValueError):
            raise AuditUnavailable(
                f"the audit log {self._db.place} is damaged: its head is no head"
            ) from None

    def damage(self) -> str | None:
        """What is wrong with the database as a file, beyond the chain; None where nothing is."""
        with self._guard(), closing(self._db.connect()) as connection:
            return self._db.damage(connection)

    def verify(self) -> Verdict:
        """Walk the whole chain to the head as it was when the walk began."""
        head = self.head()
        with closing(self.records()) as records:
            return verify(islice(records, head[0]), self._key, head)

    def text_of(self, record_id: str) -> str | None:
        """The kept text of a record, unsealed; None when it was never kept or has expired."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        rows = self._read("SELECT sealed FROM texts WHERE id = ? AND expires_at > ?", [record_id, moment])
        return self._key.unseal(bytes(rows[0][0]), record_id) if rows else None

    def ready(self) -> None:
        """Raises AuditUnavailable when the database does not answer."""
        self.head()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._guard():
            connection = self._db.connect()
            try:
                return list(self._db.execute(connection, sql, values).fetchall())
            finally:
                connection.close()

    def _check_key(self, connection: Any) -> None:
        with self._db.writing(connection):
            self._db.execute(
                connection,
                "INSERT INTO settings (name, value) VALUES ('key_id', ?) ON CONFLICT (name) DO NOTHING",
                [self._key.id],
            )
            found = self._db.execute(connection, "SELECT value FROM settings WHERE name = 'key_id'")
            if found.fetchone()[0] != self._key.id:
                raise BadInput(
                    "this audit log was written with another key: give the --audit-key it was made with"
                )

    def _guard(self) -> _Guard:
        return _Guard(self._db)


class _Guard:
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


def _json(value: Any) -> str | None:
    return None if value is None else canonical(value)


def open_store(
    url: str,
    key: AuditKey,
    *,
    keep_text: bool = False,
    keep_text_days: float = 30.0,
    must_exist: bool = False,
) -> AuditStore:
    """`sqlite:///FILE` or `postgresql://…`; the schema is brought up to date on opening."""
    database: Database
    if url.startswith("sqlite:///"):
        from simdx.service.audit.sqlite import SqliteDatabase

        database = SqliteDatabase(url.removeprefix("sqlite:///"), must_exist=must_exist)
    elif url.startswith(("postgresql://", "postgres://")):
        from simdx.service.audit.postgresql import PostgresDatabase

        database = PostgresDatabase(url)
    else:
        raise BadInput("an audit log is sqlite:///FILE or postgresql://USER@HOST/NAME")
    return AuditStore(database, key, keep_text=keep_text, keep_text_days=keep_text_days)
