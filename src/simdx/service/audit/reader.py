"""Reading the log: a record, a page, all of it, and whether it holds.

Every read opens a connection of its own and never waits for a writer's lock in this process.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simdx.errors import BadInput
from simdx.service.audit.checkpoints import CheckpointFile, CheckpointProblem
from simdx.service.audit.database import AuditUnavailable, Database
from simdx.service.audit.record import COLUMNS, GENESIS, AuditRecord
from simdx.service.audit.ring import AuditKey, KeyRing
from simdx.service.audit.verify import Verdict, verify

_HEAD = "SELECT seq, hash FROM chain_head"
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM records"


class AuditReader:
    def __init__(self, database: Database, ring: KeyRing, checkpoints: Path | None) -> None:
        self._db, self._ring = database, ring
        self._file = None if checkpoints is None else CheckpointFile(checkpoints)

    def key_in_use(self) -> AuditKey:
        return self._key(str(self._read("SELECT key_id FROM chain_head")[0][0]))

    def find(self, record_id: str) -> AuditRecord | None:
        rows = self._read(f"{_SELECT} WHERE id = ?", [record_id])
        return AuditRecord(*rows[0]) if rows else None

    def page(
        self, *, limit: int = 50, before: int | None = None, panel: str | None = None, kind: str | None = None
    ) -> list[AuditRecord]:
        """The latest records first, optionally those before a sequence number."""
        wanted, values = ["1 = 1"], list[Any]()
        for column, value in (("panel = ?", panel), ("kind = ?", kind), ("seq < ?", before)):
            if value is not None:
                wanted.append(column)
                values.append(value)
        sql = f"{_SELECT} WHERE {' AND '.join(wanted)} ORDER BY seq DESC LIMIT ?"
        return [AuditRecord(*row) for row in self._read(sql, [*values, limit])]

    def records(self) -> Generator[AuditRecord]:
        """Every record in order, streamed."""
        with self._db.opened() as connection:
            for row in self._db.stream(connection, f"{_SELECT} ORDER BY seq"):
                yield AuditRecord(*row)

    def head(self) -> tuple[int, str]:
        return self._as_head(self._read(_HEAD))

    def _as_head(self, rows: Sequence[Any]) -> tuple[int, str]:
        try:
            return (int(rows[0][0]), str(rows[0][1])) if rows else (0, GENESIS)
        except (TypeError, ValueError):
            raise self._damaged("its head is no head") from None

    def _damaged(self, what: str) -> AuditUnavailable:
        return AuditUnavailable(f"the audit log {self._db.place} is damaged: {what}")

    def damage(self) -> str | None:
        """What is wrong with the database as a file, beyond the chain; None where nothing is."""
        with self._db.opened() as connection:
            return self._db.damage(connection)

    def known_checkpoints(self) -> dict[str, int]:
        """How many checkpoints each file holds, or more."""
        rows = self._read("SELECT file, number FROM checkpoints")
        try:
            return {str(file): int(number) for file, number in rows}
        except (TypeError, ValueError):
            raise self._damaged("a number of checkpoints is no number") from None

    def verify(
        self, *, files: Sequence[Path] = (), without: Sequence[str] = (), noted: str | None = None
    ) -> Verdict:
        """Walk the whole chain, past every checkpoint of this store's file and of the others given.

        The order matters while others write: what the log knows of its checkpoints, then the files, then the
        log. Each was written after the one that is looked at next.
        """
        self._reload()
        own = [] if self._file is None else [self._file.path]
        known = {file: n for file, n in self.known_checkpoints().items() if file not in without}
        try:
            opened = [CheckpointFile(path).read(self._ring) for path in dict.fromkeys([*own, *files])]
        except CheckpointProblem as error:
            return Verdict(False, *self.head(), str(error))
        with self._db.opened() as connection, self._db.snapshot(connection):
            head = self._as_head(self._db.execute(connection, _HEAD).fetchall())
            with closing(self._db.stream(connection, f"{_SELECT} ORDER BY seq")) as rows:
                records = (AuditRecord(*row) for row in rows)
                return verify(records, self._ring, head, checkpoints=opened, known=known, noted=noted)

    def text_of(self, record_id: str) -> str | None:
        """The kept text of a record, unsealed; None when it was never kept or has expired."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        sql = "SELECT sealed, key_id FROM texts WHERE id = ? AND expires_at > ?"
        rows = self._read(sql, [record_id, moment])
        return self._key(rows[0][1]).unseal(bytes(rows[0][0]), record_id) if rows else None

    def ready(self) -> None:
        """Raises AuditUnavailable when the database does not answer."""
        self.head()

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._db.opened() as connection:
            return list(self._db.execute(connection, sql, values).fetchall())

    def _key(self, key_id: str) -> AuditKey:
        if self._ring.get(key_id) is None:
            self._reload()
        found = self._ring.get(key_id)
        if found is None:
            said = "the audit log has another key: put the key file it was rotated with here too"
            raise AuditUnavailable(said)
        return found

    def _reload(self) -> None:
        """Another process may have rotated the key."""
        try:
            self._ring = self._ring.read_again()
        except BadInput as error:
            raise AuditUnavailable(str(error)) from None
