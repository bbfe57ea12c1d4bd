"""The log in a database: SQLite in a file, or PostgreSQL by URL, with the same few statements.

Appending is serialised by the database, not by this process, so several services may write one log.
"""

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, RunFailed
from simdx.service.audit.checkpoints import Anchor, CheckpointProblem
from simdx.service.audit.database import AuditUnavailable, database_at, migrate
from simdx.service.audit.reader import AuditReader
from simdx.service.audit.record import COLUMNS, AuditRecord, Entry, canonical, now, record_bytes
from simdx.service.audit.refusals import Refusals
from simdx.service.audit.ring import AuditKey, KeyRing, add_key, retire_before

PURGE_SECONDS = 60.0
_KNOWN = (
    "INSERT INTO checkpoints (file, number) VALUES (?, ?) ON CONFLICT (file) DO UPDATE "
    "SET number = excluded.number WHERE checkpoints.number < excluded.number"
)
_INSERT = f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class AuditStore(AuditReader):
    def __init__(
        self,
        url: str,
        ring: KeyRing,
        *,
        keep_text: bool = False,
        keep_text_days: float = 30.0,
        checkpoints: Path | None = None,
        must_exist: bool = False,
    ) -> None:
        """`sqlite:///FILE` or `postgresql://…`; the schema is brought up to date on opening."""
        super().__init__(database_at(url, must_exist), ring, checkpoints)
        self._keep, self._days = keep_text, keep_text_days
        self._anchor = Anchor(self._file)
        self._refusals = Refusals()
        self.note_refusal = self._refusals.note  # `tend` writes the counts
        self._lock = threading.Lock()
        self._connection: Any = None
        self._purged = -PURGE_SECONDS
        # A new log takes the newest key; an old one must have been written with one of these.
        sql = "UPDATE chain_head SET key_id = ? WHERE key_id IS NULL"
        with self._db.opened() as connection:
            migrate(self._db, connection)
            with self._db.writing(connection):
                self._db.execute(connection, sql, [ring.newest.id])
                found = self._db.execute(connection, "SELECT key_id FROM chain_head").fetchone()
                if found is None or ring.get(found[0]) is None:
                    raise BadInput(
                        "this audit log was written with another key: give the --audit-key it was made with"
                    )

    # ----------------------------------------------------------------- writing

    def append(self, entries: Sequence[Entry]) -> list[AuditRecord]:
        """Add the entries in one transaction: all of them, or none and AuditUnavailable.

        Where the records before them wait too long for their checkpoint, that comes first.
        """
        if not entries:
            return []
        with self._writing() as connection:
            if self._anchor.overdue:
                self._write_checkpoint(connection)
            with self._db.writing(connection):
                seq, previous, key = self._locked_head(connection)
                records = self._append(connection, entries, seq, previous, key)
            self._anchor.wait(records[-1].seq, records[-1].hash, key)
            return records

    def _locked_head(self, connection: Any) -> tuple[int, str, AuditKey]:
        """The head, kept from other writers, and the key in use: another process may have changed it."""
        seq, previous, key_id = self._db.execute(connection, self._db.lock_head).fetchone()
        return seq, previous, self._key(key_id)

    def _append(
        self, connection: Any, entries: Sequence[Entry], seq: int, previous: str, key: AuditKey
    ) -> list[AuditRecord]:
        at = now()
        records: list[AuditRecord] = []
        for entry in entries:
            seq += 1
            people = {f"{role}_hash": key.person_hash(role, who) for role, who in entry.people.items()}
            content: dict[str, Any] = {
                "seq": seq, "id": entry.id, "at": at, "kind": entry.kind, "caller": entry.caller,
                "panel": entry.panel, "about": entry.about,
                "text_hash": None if entry.text is None else key.text_hash(entry.text),
                "prior": _json(entry.prior), "answer": _json(entry.answer),
                "versions": _json(entry.versions), "context": _json({**entry.context, **people} or None),
            }  # fmt: skip
            chained = key.chain_hash(previous, record_bytes(content))
            records.append(AuditRecord(**content, previous=previous, hash=chained))
            previous = chained
        self._db.execute_many(connection, _INSERT, [[getattr(r, c) for c in COLUMNS] for r in records])
        if self._keep:
            expires = (datetime.now(UTC) + timedelta(days=self._days)).isoformat(timespec="seconds")
            kept = [(e.id, key.seal(e.text, e.id), expires, key.id) for e in entries if e.text is not None]
            sql = "INSERT INTO texts (id, sealed, expires_at, key_id) VALUES (?, ?, ?, ?)"
            self._db.execute_many(connection, sql, kept)
        sql = "UPDATE chain_head SET seq = ?, hash = ?, key_id = ?"
        self._db.execute(connection, sql, [seq, previous, key.id])
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

    # ----------------------------------------------------------------- by the clock

    def tend(self) -> None:
        """What has to happen though nobody asks: refusals recorded, the head anchored, old texts gone."""
        self._flush()
        if time.monotonic() - self._purged >= PURGE_SECONDS:
            self.purge()

    def _flush(self, everything: bool = False) -> None:
        refused = self._refusals.take(everything)
        try:
            self.append(refused)
        except Exception:
            self._refusals.give_back(refused)
            raise
        self.checkpoint()

    def checkpoint(self) -> None:
        """Anchor the head this store wrote last, where no checkpoint covers it yet."""
        if self._anchor.waiting:
            with self._writing() as connection:
                self._write_checkpoint(connection)

    def _write_checkpoint(self, connection: Any) -> None:
        """The file first: a log that knows of fewer checkpoints than there are has lost nothing."""
        try:
            made = self._anchor.write(self._ring)
        except CheckpointProblem:
            self._reload()  # the last line may be under a key that is newer than ours
            try:
                made = self._anchor.write(self._ring)
            except CheckpointProblem as error:
                raise AuditUnavailable(str(error)) from None
        if made is not None:
            self._db.execute(connection, _KNOWN, [made.file, made.number])

    def resume(self) -> None:
        """For a writer that starts: refuse a log that its checkpoints contradict, then anchor its head."""
        file, known = self._file, self.known_checkpoints()
        if file is None:
            return
        try:
            last = file.last(self._ring)
        except CheckpointProblem as error:
            raise AuditUnavailable(str(error)) from None
        if last is not None:
            found = self._read("SELECT hash FROM records WHERE seq = ?", [last.records])
            if last.records and (not found or found[0][0] != last.head):
                raise AuditUnavailable(
                    f"the audit log {self._db.place} does not have the record {last.records} that its "
                    f"checkpoint of {last.at} in {file.path} saw: records were cut off, an older copy was "
                    "put back, or it is another log; see 'simdx audit verify'"
                )
            if last.number < known.get(last.file, 0):
                raise AuditUnavailable(
                    f"the checkpoint file {file.path} was cut: put it back, or move it away to begin another"
                )
        with self._writing() as connection, self._db.writing(connection):
            seq, head, key = self._locked_head(connection)
        self._anchor.wait(seq, head, key)
        self.checkpoint()

    def ready(self) -> None:
        super().ready()
        if self._anchor.overdue:
            self.checkpoint()

    def purge(self) -> int:
        """Delete the texts whose time is over, and say how many."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        with self._writing() as connection:
            gone = self._db.execute(connection, "DELETE FROM texts WHERE expires_at <= ?", [moment]).rowcount
        self._purged = time.monotonic()
        return int(gone)

    # ----------------------------------------------------------------- changing the key (`rotate`)

    def switch_key(self, ring: KeyRing) -> None:
        """Go on with the next key of the ring. A record says so, the first to be written with it."""
        self._ring = ring
        with self._writing() as connection:
            with self._db.writing(connection):
                seq, previous, key = self._locked_head(connection)
                following = ring.after(key)
                if following is None:  # another process was first
                    return
                entry = Entry(
                    id=f"{uuid.uuid4().hex}.0", kind="key", caller="local", panel="",
                    context={"from": key.id, "to": following.id},
                )  # fmt: skip
                (record,) = self._append(connection, [entry], seq, previous, following)
            self._anchor.wait(record.seq, record.hash, following)

    def reseal(self) -> tuple[int, int]:
        """Seal kept texts with the key in use, some at a time; how many, and how many did not open."""
        key, done, stuck, last = self.key_in_use(), 0, 0, ""
        some = "SELECT id, sealed, key_id FROM texts WHERE key_id <> ? AND id > ? ORDER BY id LIMIT 100"
        while True:
            with self._writing() as connection, self._db.writing(connection):
                rows = self._db.execute(connection, some, [key.id, last]).fetchall()
                for owner, sealed, key_id in rows:
                    try:
                        again = key.seal(self._key(key_id).unseal(bytes(sealed), owner), owner)
                    except RunFailed:
                        stuck += 1
                        continue
                    sql = "UPDATE texts SET sealed = ?, key_id = ? WHERE id = ?"
                    self._db.execute(connection, sql, [again, key.id, owner])
                    done += 1
            if not rows:
                return done, stuck
            last = rows[-1][0]

    def close(self) -> None:
        try:
            self._flush(everything=True)
        finally:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None


def _json(value: Any) -> str | None:
    return None if value is None else canonical(value)


open_store = AuditStore


@dataclass(frozen=True, slots=True)
class Rotation:
    key: str
    texts: int  # sealed again
    stuck: int  # that did not open and were left as they were


def prepare(store: AuditStore, path: Path) -> str:
    """Put the next key into the file and use it nowhere yet, so that the file can be copied first."""
    following = KeyRing.from_file(path).after(store.key_in_use())
    return (following or add_key(path).newest).id


def rotate(store: AuditStore, path: Path) -> Rotation:
    """A new key for a log, in steps of which each may be the last before a crash.

    The new key is put into the key file; one transaction switches the log to it, with a record that says so;
    kept texts are sealed again; the old key is marked as retired. It stays in the file: it verifies the
    records it wrote. Running it again finishes what was begun.
    """
    store.resume()  # no new key for a log that was cut
    ring, current = KeyRing.from_file(path), store.key_in_use()
    earlier = ring.keys[: [key.id for key in ring.keys].index(current.id)]
    if all(key.id in ring.retired for key in earlier):  # else the switch was made and the rest was not
        prepare(store, path)
        store.switch_key(KeyRing.from_file(path))
    texts, stuck = store.reseal()
    store.checkpoint()
    current = store.key_in_use()
    retire_before(path, current)
    return Rotation(current.id, texts, stuck)
