"""Bringing a log's schema up to date: numbered SQL files, each applied once, in order, atomically."""

from __future__ import annotations

from importlib import resources
from typing import Any

from simdx.errors import BadInput
from simdx.service.audit.database import Database


def migrations(dialect: str) -> list[tuple[int, str]]:
    folder = resources.files("simdx.service.audit") / "migrations" / dialect
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [(int(f.name.split("_")[0]), f.read_text(encoding="utf-8")) for f in files]


def migrate(database: Database, connection: Any, upto: int | None = None) -> int:
    """Apply what is missing and return the version reached."""
    steps = [(n, sql) for n, sql in migrations(database.name) if upto is None or n <= upto]
    database.execute(connection, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    current = version_of(database, connection)
    latest = migrations(database.name)[-1][0]
    if current > latest:
        raise BadInput(
            f"this audit log has schema version {current}, this simdx knows {latest}: upgrade simdx"
        )
    for number, sql in steps:
        if number <= current:
            continue
        with database.writing(connection):
            # Another service may have applied it while we waited for the lock.
            if version_of(database, connection, lock=True) >= number:
                continue
            for statement in sql.split(";"):
                if statement.strip():
                    database.execute(connection, statement)
            database.execute(connection, "INSERT INTO schema_version (version) VALUES (?)", [number])
    return version_of(database, connection)


def version_of(database: Database, connection: Any, lock: bool = False) -> int:
    if lock and database.name == "postgresql":
        database.execute(connection, "LOCK TABLE schema_version IN EXCLUSIVE MODE")
    found = database.execute(connection, "SELECT coalesce(max(version), 0) FROM schema_version").fetchone()[0]
    if not isinstance(found, int):
        raise BadInput(f"the audit log {database.place} is damaged: its schema has no version")
    return found
