"""Audit logs for tests: the same checks over SQLite always, over a real PostgreSQL server when slow."""

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simdx.service.audit import _WRITING, AuditStore, Database
from simdx.service.audit_chain import AuditKey, Entry

Open = Callable[..., AuditStore]
Raw = Callable[[str], list[tuple[Any, ...]]]
KEY = AuditKey(bytes(range(32)))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file():
        pytest.skip("PostgreSQL is not installed")
    binaries = found[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="simdx-pg-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL cannot run as root and there is no user postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    run = {"check": True, "capture_output": True, "cwd": folder, **user}
    subprocess.run([binaries / "initdb", "-D", folder / "data", "-A", "trust", "-U", "simdx"], **run)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    control = [binaries / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run([*control, "-o", options, "-l", folder / "log", "start"], **run)
    try:
        yield f"postgresql:///postgres?host={folder}&user=simdx"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **run)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a log of its own for each test."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'audit.sqlite3'}"
    import psycopg

    server, name = request.getfixturevalue("server"), f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def open_log(url: str) -> Iterator[Open]:
    """Opens logs at one address and closes them all in the end."""
    with ExitStack() as opened:

        def open_log(key: AuditKey = KEY, **options: Any) -> AuditStore:
            return opened.enter_context(closing(AuditStore(url, key, **options)))

        yield open_log


@pytest.fixture
def raw(url: str) -> Raw:
    """A statement of someone who writes the database itself."""

    def run(sql: str) -> list[tuple[Any, ...]]:
        database = Database(url)
        with database.opened(_WRITING) as connection:
            cursor = database.execute(connection, sql)
            return cursor.fetchall() if cursor.description else []

    return run


def entry(i: int, **changes: Any) -> Entry:
    made = Entry(
        id=f"{i:032x}.0", kind="answer", caller="me", panel="p", prior={"a": 0.5, "b": 0.5},
        answer={"label": "a", "posterior": {"a": 0.9, "b": 0.1}}, versions={"simdx": "1"},
        text=f"case {i} é\x00",
    )  # fmt: skip
    return replace(made, **changes)
