"""Bringing a log's schema up to date: numbered SQL files, each applied once, in order, atomically.

The files speak PostgreSQL. SQLite has other names for two types, which its `Database` knows.
"""

import re
from functools import cache
from importlib import resources
from typing import Any

from simdx.errors import BadInput
from simdx.service.audit.database import Database


@cache
def migrations() -> dict[int, str]:
    folder = resources.files("simdx.service.audit") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return {int(f.name.split("_")[0]): f.read_text(encoding="utf-8") for f in files}


def migrate(database: Database, connection: Any, upto: int | None = None) -> int:
    """Apply what is missing and return the version reached."""
    database.execute(connection, "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    current, latest = version_of(database, connection), max(migrations())
    if current > latest:
        raise BadInput(
            f"this audit log has schema version {current}, this simdx knows {latest}: upgrade simdx"
        )
    for number in range(current + 1, (upto or latest) + 1):
        with database.writing(connection):
            if database.lock_version:
                database.execute(connection, database.lock_version)
            # Another service may have applied it while we waited for the lock.
            if version_of(database, connection) >= number:
                continue
            for statement in migrations()[number].split(";"):
                if statement.strip():
                    database.execute(connection, _in(database, statement))
            database.execute(connection, "INSERT INTO schema_version (version) VALUES (?)", [number])
    return version_of(database, connection)


def version_of(database: Database, connection: Any) -> int:
    found = database.execute(connection, "SELECT coalesce(max(version), 0) FROM schema_version").fetchone()[0]
    if not isinstance(found, int):
        raise BadInput(f"the audit log {database.place} is damaged: its schema has no version")
    return found


def _in(database: Database, statement: str) -> str:
    return re.sub(r"\b[A-Z]+\b", lambda word: database.types.get(word[0], word[0]), statement)
