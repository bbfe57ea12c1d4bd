"""Where a log lies: SQLite in a file, or PostgreSQL. The statements are the same, with `?` for a value."""

import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.service.audit.checkpoints import AuditUnavailable

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


class Database:
    def __init__(self, url: str, must_exist: bool = False) -> None:
        """`sqlite:///FILE` or `postgresql://…`."""
        self._url = url
        self._file: Path | None = None
        self.failures: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)  # a page of no text
        self.place = "in PostgreSQL"  # for messages; not the URL, which may hold a password
        if url.startswith("sqlite:///"):
            self._file = Path(url.removeprefix("sqlite:///"))
            self.place = str(self._file)
            _check_file(self._file, must_exist)
        elif url.startswith(("postgresql://", "postgres://")):
            try:
                import psycopg
            except ImportError:
                raise MissingExtra("an audit log in PostgreSQL", "service") from None
            self.failures = (psycopg.Error,)
        else:
            raise BadInput("an audit log is sqlite:///FILE or postgresql://USER@HOST/NAME")

    def connect(self) -> Any:
        if self._file is None:
            import psycopg

            return psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, options="-c statement_timeout=30000"
            )
        connection = sqlite3.connect(self._file, timeout=10, isolation_level=None, check_same_thread=False)
        for set_to in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {set_to}")
        return connection

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        if self._file is not None:
            return connection.execute(sql, values)
        # No statement of ours has a literal question mark or percent sign.
        return connection.execute(sql.replace("?", "%s"), values or None)

    def stream(self, connection: Any, sql: str) -> Generator[tuple[Any, ...]]:
        """The rows, some at a time, inside a transaction."""
        with closing(connection.cursor() if self._file else connection.cursor(name="records")) as cursor:
            cursor.execute(sql)
            yield from cursor

    @contextmanager
    def reading(self, connection: Any) -> Iterator[None]:
        """Reads within it see one state, whatever others write meanwhile."""
        self.execute(connection, "BEGIN" if self._file else "BEGIN ISOLATION LEVEL REPEATABLE READ")
        try:
            yield
        finally:
            connection.rollback()

    @contextmanager
    def writing(self, connection: Any) -> Iterator[None]:
        """One writer at a time, of all services; it commits at the end or leaves nothing behind."""
        for lock in ("BEGIN IMMEDIATE",) if self._file else ("BEGIN", "SELECT pg_advisory_xact_lock(7349)"):
            self.execute(connection, lock)
        try:
            yield
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def damage(self, connection: Any) -> str | None:
        """What SQLite finds wrong with its file; a server looks after its own."""
        if self._file and self.execute(connection, "PRAGMA integrity_check(1)").fetchone() != ("ok",):
            return "the database file is damaged"
        return None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns the database's own errors into AuditUnavailable; their text may quote values: dropped."""
        try:
            yield
        except self.failures as error:
            kind = type(error).__name__
            raise AuditUnavailable(f"the audit log {self.place} cannot be used now ({kind})") from None

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A connection for a while, guarded."""
        with self.guarded(), closing(self.connect()) as connection:
            yield connection


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
