"""The audit log in a database: SQLite in a file, or PostgreSQL by URL, with the same few statements.

It holds no case text, only a keyed hash. The database serialises appending, not this process, so several
services may write one log. What a record says and how the records are chained is in `audit_chain`.
"""

import os
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, RunFailed
from simdx.service import audit_chain as chain
from simdx.service.audit_chain import COLUMNS, GENESIS, AuditKey, AuditRecord, AuditUnavailable, Entry

CHECKPOINT_SECONDS = 1.0  # the longest a record waits for its checkpoint: what a crash may take unseen
REFUSAL_SECONDS = 60.0  # between two records of callers that were turned away
ADDRESSES = 16  # counted one by one in that time; the rest are counted together
# One row an event, each hashed over the one before it. JSON columns are the exact text that was hashed, so
# they are TEXT and not a JSON type that would re-spell them.
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS records (
      seq BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, at TEXT NOT NULL, kind TEXT NOT NULL,
      caller TEXT NOT NULL, panel TEXT NOT NULL, about TEXT, text_hash TEXT, prior TEXT, answer TEXT,
      versions TEXT, context TEXT, previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS chain_head (
      one INTEGER PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL, hash TEXT NOT NULL, key_id TEXT)""",
)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM records"
_ROW = f"({', '.join('?' * len(COLUMNS))})"
# How a transaction begins. One writer at a time, of all services; a reader sees one state throughout.
_WRITING = {"sqlite": ["BEGIN IMMEDIATE"], "postgresql": ["BEGIN", "SELECT pg_advisory_xact_lock(7349)"]}
_READING = {"sqlite": ["BEGIN"], "postgresql": ["BEGIN ISOLATION LEVEL REPEATABLE READ"]}


class Database:
    """Statements have `?` for a value, and no literal question mark or percent sign."""

    def __init__(self, url: str, must_exist: bool = False) -> None:
        """`sqlite:///FILE` or `postgresql://…`."""
        self._url = url
        self._kept: Any = None
        self.failures: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)  # a page of no text
        if url.startswith("sqlite:///"):
            self.kind, self.place = "sqlite", url.removeprefix("sqlite:///")
            _check_file(Path(self.place), must_exist)
        elif url.startswith(("postgresql://", "postgres://")):
            import psycopg

            self.failures = (psycopg.Error,)
            self.kind, self.place = "postgresql", "in PostgreSQL"  # not the URL, which may hold a password
        else:
            raise BadInput("an audit log is sqlite:///FILE or postgresql://USER@HOST/NAME")

    def connect(self) -> Any:
        if self.kind == "postgresql":
            import psycopg

            limit = "-c statement_timeout=30000"
            return psycopg.connect(self._url, autocommit=True, connect_timeout=5, options=limit)
        connection = sqlite3.connect(self.place, timeout=10, isolation_level=None, check_same_thread=False)
        for set_to in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {set_to}")
        return connection

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        if self.kind == "sqlite":
            return connection.execute(sql, values)
        return connection.execute(sql.replace("?", "%s"), values or None)

    @contextmanager
    def opened(self, begin: dict[str, list[str]] = _READING, keep: bool = False) -> Iterator[Any]:
        """A connection in a transaction, which an error undoes; `keep`: the writer's, for the next time too.

        The database's own errors become AuditUnavailable; their text may quote values: dropped.
        """
        connection = None
        try:
            connection = (self._kept if keep else None) or self.connect()
            if keep:
                self._kept = None  # a broken one is not used again
            for statement in begin[self.kind]:
                self.execute(connection, statement)
            yield connection
            self.execute(connection, "COMMIT")
            if keep:
                self._kept, connection = connection, None
        except self.failures as error:
            kind = type(error).__name__
            raise AuditUnavailable(f"the audit log {self.place} cannot be used now ({kind})") from None
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def records(self, connection: Any) -> Generator[AuditRecord]:
        """Every record in order, some at a time, inside a transaction."""
        names = {} if self.kind == "sqlite" else {"name": "records"}  # a cursor in the server
        with closing(connection.cursor(**names)) as cursor:
            cursor.execute(f"{_SELECT} ORDER BY seq")
            yield from (AuditRecord(*row) for row in cursor)

    def is_damaged(self, connection: Any) -> bool:
        """Does SQLite find anything wrong with its file? A server looks after its own."""
        check = "PRAGMA integrity_check(1)"
        return self.kind == "sqlite" and self.execute(connection, check).fetchone() != ("ok",)


def _check_file(path: Path, must_exist: bool) -> None:
    """Refuse what SQLite would take for a new database, or make an empty one for the owner only."""
    if must_exist and not path.is_file():
        raise BadInput(f"no audit log at {path}: give --url, the one the service was run with")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "rb") as file:
            start = file.read(100)
    except OSError as error:
        raise BadInput(f"the audit log {path} cannot be opened: {error.strerror}") from None
    if not start and must_exist:
        raise BadInput(f"the audit log {path} is empty: restore it from a copy")
    if start and (len(start) < 100 or not start.startswith(b"SQLite format 3\0")):
        raise RunFailed(f"the audit log {path} is damaged or cut off: restore it from a copy")


class AuditStore:
    def __init__(
        self, url: str, key: AuditKey, *, checkpoints: Path | None = None, must_exist: bool = False
    ) -> None:
        """A new log gets its tables; its head is noted in the file `checkpoints`."""
        self._db, self._key, self._file = Database(url, must_exist), key, checkpoints
        self._lock = threading.Lock()  # held by the one who writes
        self._since: float | None = None  # when the oldest record without a checkpoint was written
        self._refused: Counter[tuple[str, str]] = Counter()
        self._counting = threading.Lock()
        self._told = -REFUSAL_SECONDS
        first = f"INSERT INTO chain_head VALUES (1, 0, '{GENESIS}', ?) ON CONFLICT (one) DO NOTHING"
        with self._db.opened(_WRITING) as connection:
            for statement in SCHEMA:
                self._db.execute(connection, statement)
            self._db.execute(connection, first, [key.id])
            if self._db.execute(connection, "SELECT key_id FROM chain_head").fetchone()[0] != key.id:
                said = "this audit log was written with another key: give the --audit-key it was made with"
                raise BadInput(said)

    # ----------------------------------------------------------------- writing

    def append(self, entries: Sequence[Entry]) -> None:
        """Add the entries in one transaction: all of them, or none and AuditUnavailable.

        Records that wait too long for their checkpoint get it first, so that none is answered without.
        """
        if not entries:
            return
        self.checkpoint(if_overdue=True)
        with self._lock, self._db.opened(_WRITING, keep=True) as connection:
            seq, previous = self._head(connection)
            at, records = chain.now(), list[AuditRecord]()
            for number, entry in enumerate(entries, seq + 1):
                records.append(self._key.chained(entry, number, at, previous))
                previous = records[-1].hash
            sql = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES {', '.join([_ROW] * len(records))}"
            self._db.execute(connection, sql, [getattr(r, column) for r in records for column in COLUMNS])
            sql = "UPDATE chain_head SET seq = ?, hash = ?"
            self._db.execute(connection, sql, [seq + len(records), previous])
        if self._file is not None and self._since is None:
            self._since = time.monotonic()

    def checkpoint(self, if_overdue: bool = False) -> None:
        """Note the head; refuse a log that does not have the record its last checkpoint saw."""
        since = self._since
        if if_overdue and (since is None or time.monotonic() - since < CHECKPOINT_SECONDS):
            return
        if self._file is not None:
            chain.note(self._file, self._head_after)
        if since == self._since:  # else a record was written meanwhile
            self._since = None

    def _head_after(self, last: chain.Checkpoint | None) -> chain.Checkpoint:
        if last is not None and last.records:
            found = self._read("SELECT hash FROM records WHERE seq = ?", [last.records])
            if not found or found[0][0] != last.head:
                raise AuditUnavailable(
                    f"the audit log {self._db.place} does not have the record {last.records} that its "
                    f"checkpoint of {last.at} saw: records were cut off, an older copy was put back, or it "
                    "is another log; see 'simdx audit verify'"
                )
        return chain.Checkpoint(*self.head(), chain.now())

    def note_refusal(self, address: str, reason: str, count: int = 1) -> None:
        """Count a caller that was turned away; `tend` records the counts. It touches no disk."""
        place = (address[:64], reason[:64])
        with self._counting:
            if place not in self._refused and len(self._refused) >= ADDRESSES:
                place = ("other addresses", place[1])
            self._refused[place] += count

    def tend(self, everything: bool = False) -> None:
        """What has to happen though nobody asks: refusals recorded, the head noted."""
        if everything or time.monotonic() - self._told >= REFUSAL_SECONDS:
            with self._counting:  # taken once, whoever else tends
                counts, self._refused = self._refused, Counter()
            told = [{"address": a, "reason": r, "count": n} for (a, r), n in counts.items()]
            try:
                self.append([Entry(f"{uuid.uuid4().hex}.0", "refused", "", "", context=one) for one in told])
            except AuditUnavailable:
                for (address, reason), count in counts.items():
                    self.note_refusal(address, reason, count)
                raise
            if counts:
                self._told = time.monotonic()
        if self._since is not None:
            self.checkpoint()

    def close(self) -> None:
        try:
            self.tend(everything=True)
        finally:
            with self._lock:
                self._db.close()

    # ----------------------------------------------------------------- reading, on a connection of its own

    def find(self, record_id: str) -> AuditRecord | None:
        return next(iter(self.page(id=record_id)), None)

    def page(
        self, *, limit: int = 50, before: int | None = None, kind: str | None = None, id: str | None = None
    ) -> list[AuditRecord]:
        """The latest records first, optionally those before a sequence number, of a kind, or with an id."""
        wanted = {"kind = ?": kind, "seq < ?": before, "id = ?": id, "seq >= ?": 0}
        wanted = {column: value for column, value in wanted.items() if value is not None}
        sql = f"{_SELECT} WHERE {' AND '.join(wanted)} ORDER BY seq DESC LIMIT ?"
        return [AuditRecord(*row) for row in self._read(sql, [*wanted.values(), limit])]

    def records(self) -> Generator[AuditRecord]:
        """Every record in order, streamed."""
        with self._db.opened() as connection:
            yield from self._db.records(connection)

    def head(self) -> tuple[int, str]:
        with self._db.opened() as connection:
            return self._head(connection)

    def _head(self, connection: Any) -> tuple[int, str]:
        row = self._db.execute(connection, "SELECT seq, hash FROM chain_head").fetchone()
        if row is None or not isinstance(row[0], int):
            raise AuditUnavailable(f"the audit log {self._db.place} is damaged: it has no head")
        return row[0], str(row[1])

    def verify(self, *, files: Sequence[Path] = (), noted: str | None = None) -> chain.Verdict:
        """Walk the whole chain, past the checkpoints of this store's file and of the others given.

        The files are opened before the log: while others write, it is never behind them.
        """
        own = [self._file] if self._file else []
        opened = [chain.read_checkpoints(path) for path in dict.fromkeys([*own, *files])]
        with self._db.opened() as connection:
            head = self._head(connection)
            with closing(self._db.records(connection)) as records:
                found = chain.verify(records, self._key, head, opened, noted)
            if found.ok and self._db.is_damaged(connection):
                return replace(found, ok=False, problem="the database file is damaged")
            return found

    def ready(self) -> None:
        """Raises AuditUnavailable when the database does not answer or the head cannot be noted."""
        self.head()
        self.checkpoint(if_overdue=True)

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._db.opened() as connection:
            return list(self._db.execute(connection, sql, values).fetchall())
