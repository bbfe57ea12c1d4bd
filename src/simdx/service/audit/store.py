"""The log in a database: SQLite in a file, or PostgreSQL by URL, with the same few statements.

The database serialises appending, not this process, so several services may write one log.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from simdx.errors import BadInput
from simdx.service.audit.chain import AuditKey, Verdict, verify
from simdx.service.audit.checkpoints import CHECKPOINT_SECONDS, AuditUnavailable, Checkpoint, CheckpointFile
from simdx.service.audit.database import SCHEMA, Database
from simdx.service.audit.record import COLUMNS, GENESIS, AuditRecord, Entry, now

REFUSAL_SECONDS = 60.0  # between two records of callers that were turned away
ADDRESSES = 16  # counted one by one in that time; the rest are counted together
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM records"
_ROW = f"({', '.join('?' * len(COLUMNS))})"


class AuditStore:
    def __init__(
        self, url: str, key: AuditKey, *, checkpoints: Path | None = None, must_exist: bool = False
    ) -> None:
        """`sqlite:///FILE` or `postgresql://…`; a new log gets its tables, and its head is `checkpoints`'."""
        self._db, self._key = Database(url, must_exist), key
        self._file = None if checkpoints is None else CheckpointFile(checkpoints)
        self._lock = threading.Lock()  # held by the one who writes
        self._connection: Any = None
        self._since: float | None = None  # when the oldest record without a checkpoint was written
        self._refused: Counter[tuple[str, str]] = Counter()
        self._counting = threading.Lock()
        self._told = -REFUSAL_SECONDS
        first = f"INSERT INTO chain_head VALUES (1, 0, '{GENESIS}', ?) ON CONFLICT (one) DO NOTHING"
        with self._db.opened() as connection, self._db.writing(connection):
            for statement in SCHEMA:
                self._db.execute(connection, statement)
            self._db.execute(connection, first, [key.id])
            if self._db.execute(connection, "SELECT key_id FROM chain_head").fetchone()[0] != key.id:
                said = "this audit log was written with another key: give the --audit-key it was made with"
                raise BadInput(said)

    # ----------------------------------------------------------------- writing

    def append(self, entries: Sequence[Entry]) -> list[AuditRecord]:
        """Add the entries in one transaction: all of them, or none and AuditUnavailable.

        Records that wait too long for their checkpoint get it first, so that none is answered without.
        """
        if not entries:
            return []
        if self._overdue():
            self.checkpoint()
        with self._writing() as connection, self._db.writing(connection):
            seq, previous = self._head(connection)
            at, records = now(), list[AuditRecord]()
            for number, entry in enumerate(entries, seq + 1):
                records.append(self._key.chained(entry, number, at, previous))
                previous = records[-1].hash
            sql = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES {', '.join([_ROW] * len(records))}"
            self._db.execute(connection, sql, [getattr(r, column) for r in records for column in COLUMNS])
            sql = "UPDATE chain_head SET seq = ?, hash = ?"
            self._db.execute(connection, sql, [records[-1].seq, previous])
        if self._file is not None and self._since is None:
            self._since = time.monotonic()
        return records

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """This store's own connection, for one writer at a time."""
        with self._db.guarded(), self._lock:
            if self._connection is None:
                self._connection = self._db.connect()
            try:
                yield self._connection
            except Exception:
                # A broken connection is not used again; the next writer opens a new one.
                self._connection.close()
                self._connection = None
                raise

    def _overdue(self) -> bool:
        return self._since is not None and time.monotonic() - self._since >= CHECKPOINT_SECONDS

    def checkpoint(self) -> None:
        """Note the head; refuse a log that does not have the record its last checkpoint saw."""
        since = self._since
        if self._file is not None:
            self._file.note(self._head_after)
        if since == self._since:  # else a record was written meanwhile
            self._since = None

    resume = checkpoint  # what a service does first when it starts

    def _head_after(self, last: Checkpoint | None) -> Checkpoint:
        if last is not None and last.records:
            found = self._read("SELECT hash FROM records WHERE seq = ?", [last.records])
            if not found or found[0][0] != last.head:
                raise AuditUnavailable(
                    f"the audit log {self._db.place} does not have the record {last.records} that its "
                    f"checkpoint of {last.at} saw: records were cut off, an older copy was put back, or it "
                    "is another log; see 'simdx audit verify'"
                )
        return Checkpoint(*self.head(), now())

    def note_refusal(self, address: str, reason: str) -> None:
        """Count a caller that was turned away; `tend` records the counts. It touches no disk."""
        place = (address[:64], reason[:64])
        with self._counting:
            if place not in self._refused and len(self._refused) >= ADDRESSES:
                place = ("other addresses", place[1])
            self._refused[place] += 1

    def tend(self, everything: bool = False) -> None:
        """What has to happen though nobody asks: refusals recorded, the head noted."""
        if self._refused and (everything or time.monotonic() - self._told >= REFUSAL_SECONDS):
            counts = Counter(self._refused)
            told = [{"address": a, "reason": r, "count": n} for (a, r), n in counts.items()]
            self.append([Entry(f"{uuid.uuid4().hex}.0", "refused", "", "", context=one) for one in told])
            self._told = time.monotonic()
            with self._counting:
                self._refused -= counts  # what came meanwhile waits
        if self._since is not None:
            self.checkpoint()

    def close(self) -> None:
        try:
            self.tend(everything=True)
        finally:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None

    # ----------------------------------------------------------------- reading, on a connection of its own

    def find(self, record_id: str) -> AuditRecord | None:
        rows = self._read(f"{_SELECT} WHERE id = ?", [record_id])
        return AuditRecord(*rows[0]) if rows else None

    def page(
        self, *, limit: int = 50, before: int | None = None, kind: str | None = None
    ) -> list[AuditRecord]:
        """The latest records first, optionally those before a sequence number."""
        wanted = {"kind = ?": kind, "seq < ?": before}
        wanted = {column: value for column, value in wanted.items() if value is not None}
        sql = f"{_SELECT} WHERE {' AND '.join(['1 = 1', *wanted])} ORDER BY seq DESC LIMIT ?"
        return [AuditRecord(*row) for row in self._read(sql, [*wanted.values(), limit])]

    def records(self) -> Generator[AuditRecord]:
        """Every record in order, streamed."""
        with self._db.opened() as connection, self._db.reading(connection):
            for row in self._db.stream(connection, f"{_SELECT} ORDER BY seq"):
                yield AuditRecord(*row)

    def head(self) -> tuple[int, str]:
        with self._db.opened() as connection:
            return self._head(connection)

    def _head(self, connection: Any) -> tuple[int, str]:
        row = self._db.execute(connection, "SELECT seq, hash FROM chain_head").fetchone()
        if row is None or not isinstance(row[0], int):
            raise AuditUnavailable(f"the audit log {self._db.place} is damaged: it has no head")
        return row[0], str(row[1])

    def verify(self, *, files: Sequence[Path] = (), noted: str | None = None) -> Verdict:
        """Walk the whole chain, past the checkpoints of this store's file and of the others given.

        The files are opened before the log: while others write, it is never behind them.
        """
        own = [] if self._file is None else [self._file.path]
        opened = [CheckpointFile(path).read() for path in dict.fromkeys([*own, *files])]
        with self._db.opened() as connection, self._db.reading(connection):
            head = self._head(connection)
            with closing(self._db.stream(connection, f"{_SELECT} ORDER BY seq")) as rows:
                found = verify((AuditRecord(*row) for row in rows), self._key, head, opened, noted)
            damage = self._db.damage(connection) if found.ok else None
            return replace(found, ok=False, problem=damage) if damage else found

    def ready(self) -> None:
        """Raises AuditUnavailable when the database does not answer or the head cannot be noted."""
        self.head()
        if self._overdue():
            self.checkpoint()

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._db.opened() as connection:
            return list(self._db.execute(connection, sql, values).fetchall())
