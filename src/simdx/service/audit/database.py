"""The databases a log may lie in: what differs between SQLite and PostgreSQL, and how failures are told.

The statements are the same for both, with `?` for a value; numbered SQL files make the schema.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from simdx.errors import BadInput, MissingExtra, RunFailed


class AuditUnavailable(RunFailed):
    """The log cannot be written or read now. No answer leaves the service without its record."""


Transaction = Callable[[Any], AbstractContextManager[Any]]


class Database:
    """One place for a log; each kind of database fills in what it does in its own way."""

    name: str
    place: str  # for messages
    types: Mapping[str, str] = {}  # names of types that differ from those in the migrations
    lock_head = "SELECT seq, hash, key_id FROM chain_head"  # and keep other writers out until the end
    lock_version = ""  # a statement that keeps others from migrating until the transaction ends
    failures: tuple[type[Exception], ...] = ()

    connect: Callable[[], Any]
    writing: Transaction  # commits at the end or leaves nothing behind
    snapshot: Transaction  # reads within it see one state, whatever others write meanwhile

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        return connection.execute(sql, values)

    def execute_many(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        connection.executemany(sql, rows)

    def stream(self, connection: Any, sql: str) -> Generator[tuple[Any, ...]]:
        yield from connection.execute(sql)

    def damage(self, connection: Any) -> str | None:
        """What the database finds wrong with its own files; None too where a server looks after them."""
        return None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turns the database's own errors into AuditUnavailable; their text may quote values: dropped."""
        try:
            yield
        except self.failures as error:
            raise AuditUnavailable(
                f"the audit log {self.place} cannot be used now ({self.name}: {type(error).__name__})"
            ) from None

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A connection for a while, guarded."""
        with self.guarded(), closing(self.connect()) as connection:
            yield connection


class SqliteDatabase(Database):
    """A file: nothing to install, one writer at a time, durable at every commit."""

    name = "sqlite"
    types = {"BIGINT": "INTEGER", "BYTEA": "BLOB"}
    # A damaged page may hold names and values that are no text at all.
    failures = (sqlite3.Error, UnicodeDecodeError)

    def __init__(self, path: str, must_exist: bool = False) -> None:
        self._path = Path(path)
        self.place = str(self._path)
        if must_exist and not self._path.is_file():
            raise BadInput(f"no audit log at {self._path}: give --url, the one the service was run with")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():  # the owner's eyes only, before the first byte is in it
                os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise BadInput(f"the audit log {self._path} cannot be written: {error.strerror}") from None
        try:
            with self._path.open("rb") as file:
                start = file.read(100)
        except OSError as error:
            raise BadInput(f"the audit log {self._path} cannot be read: {error.strerror}") from None
        # SQLite takes the first bytes of a database that was cut off for a new, empty one.
        if not start and must_exist:
            raise BadInput(f"the audit log {self._path} is empty: restore it from a copy")
        if start and (len(start) < 100 or not start.startswith(b"SQLite format 3\0")):
            said = "it is damaged or cut off; restore it from a copy"
            raise RunFailed(f"the audit log {self._path} cannot be used now: {said}")

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        # Secure delete: a purged text leaves no bytes in free pages.
        for set_to in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {set_to}")
        return connection

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")  # holds the write lock from here on: `lock_head` need not
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

    def damage(self, connection: sqlite3.Connection) -> str | None:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()
        return None if found and found[0] == "ok" else "the database file is damaged"


class PostgresDatabase(Database):
    """A server: for services on several machines that share one chain."""

    name = "postgresql"
    place = "in PostgreSQL"  # not the URL: it may hold a password
    lock_head = Database.lock_head + " FOR UPDATE"
    lock_version = "LOCK TABLE schema_version IN EXCLUSIVE MODE"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("an audit log in PostgreSQL", "service") from None
        self._psycopg, self._url = psycopg, url
        self.failures = (psycopg.Error,)

    def connect(self) -> Any:
        return self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=5, options="-c statement_timeout=30000"
        )

    def writing(self, connection: Any) -> AbstractContextManager[Any]:
        return connection.transaction()

    def snapshot(self, connection: Any) -> AbstractContextManager[Any]:
        connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
        return connection.transaction()

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        # No statement of ours has a literal question mark or percent sign.
        return connection.execute(sql.replace("?", "%s"), values or None)

    def execute_many(self, connection: Any, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def stream(self, connection: Any, sql: str) -> Generator[tuple[Any, ...]]:
        with connection.transaction(), connection.cursor(name="records") as cursor:
            cursor.execute(sql)
            yield from cursor


def database_at(url: str, must_exist: bool = False) -> Database:
    """`sqlite:///FILE` or `postgresql://…`."""
    if url.startswith("sqlite:///"):
        return SqliteDatabase(url.removeprefix("sqlite:///"), must_exist=must_exist)
    if url.startswith(("postgresql://", "postgres://")):
        return PostgresDatabase(url)
    raise BadInput("an audit log is sqlite:///FILE or postgresql://USER@HOST/NAME")


@cache
def migrations() -> dict[int, str]:
    folder = resources.files("simdx.service.audit") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return {int(f.name.split("_")[0]): f.read_text(encoding="utf-8") for f in files}


def migrate(database: Database, connection: Any, upto: int | None = None) -> int:
    """Bring the schema up to date: what is missing is applied once, in order, each file atomically.

    Returns the version reached. The files speak PostgreSQL; SQLite has other names for two types.
    """
    database.execute(connection, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    current, latest = version_of(database, connection), max(migrations())
    if current > latest:
        said = f"this audit log has schema version {current}, this simdx knows {latest}: upgrade simdx"
        raise BadInput(said)
    for number in range(current + 1, (upto or latest) + 1):
        with database.writing(connection):
            if database.lock_version:
                database.execute(connection, database.lock_version)
            # Another service may have applied it while we waited for the lock.
            if version_of(database, connection) >= number:
                continue
            for statement in migrations()[number].split(";"):
                if statement.strip():
                    spelt = re.sub(r"\b[A-Z]+\b", lambda w: database.types.get(w[0], w[0]), statement)
                    database.execute(connection, spelt)
            database.execute(connection, "INSERT INTO schema_version (version) VALUES (?)", [number])
    return version_of(database, connection)


def version_of(database: Database, connection: Any) -> int:
    found = database.execute(connection, "SELECT coalesce(max(version), 0) FROM schema_version").fetchone()[0]
    if not isinstance(found, int):
        raise BadInput(f"the audit log {database.place} is damaged: its schema has no version")
    return found
