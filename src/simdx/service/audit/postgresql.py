"""The audit log in PostgreSQL: for services on several machines that share one chain."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from simdx.errors import MissingExtra

CONNECT_SECONDS = 5


class PostgresDatabase:
    name = "postgresql"
    place = "in PostgreSQL"  # not the URL: it may hold a password
    lock_head = "SELECT seq, hash, key_id FROM chain_head FOR UPDATE"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("an audit log in PostgreSQL", "service") from None
        self._psycopg = psycopg
        self._url = url

    def connect(self) -> Any:
        return self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_SECONDS, options="-c statement_timeout=30000"
        )

    def writing(self, connection: Any) -> AbstractContextManager[Any]:
        return connection.transaction()

    def snapshot(self, connection: Any) -> AbstractContextManager[Any]:
        connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
        return connection.transaction()

    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        # No statement of ours has a literal question mark or percent sign.
        return connection.execute(sql.replace("?", "%s"), values or None)

    def stream(self, connection: Any, sql: str) -> Generator[tuple[Any, ...]]:
        with connection.transaction(), connection.cursor(name="records") as cursor:
            cursor.execute(sql)
            yield from cursor

    def damage(self, connection: Any) -> str | None:
        """The server looks after its own files."""
        return None

    def is_failure(self, error: Exception) -> bool:
        return isinstance(error, self._psycopg.Error)
