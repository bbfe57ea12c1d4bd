"""The same log in a real PostgreSQL server, started for the test in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simdx.errors import RunFailed
from simdx.service.audit import AuditStore
from simdx.service.audit.database import PostgresDatabase
from tests.service import anchor_checks, audit_checks
from tests.service.audit_checks import entry

pytestmark = pytest.mark.slow


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    which = shutil.which("initdb")
    return Path(which).parent if which else None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
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
    subprocess.run(
        [binaries / "pg_ctl", "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start"],
        **run,
    )
    try:
        yield f"postgresql:///postgres?host={folder}&user=simdx"
    finally:
        subprocess.run([binaries / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop"], **run)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: str) -> str:
    """A database of its own for each test."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def open_log(url: str) -> Iterator[Callable[..., AuditStore]]:
    yield from audit_checks.opener(url)


@pytest.fixture
def raw(url: str) -> Callable[[str], list[tuple[Any, ...]]]:
    import psycopg

    def run(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    return run


def test_chain(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_chain(open_log)


def test_all_or_nothing(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_all_or_nothing(open_log)


def test_tampering(open_log: Callable[..., AuditStore], raw: Callable[[str], Any]) -> None:
    audit_checks.check_tampering(open_log, raw)


def test_texts(open_log: Callable[..., AuditStore], raw: Callable[[str], Any]) -> None:
    audit_checks.check_texts(open_log, raw)


def test_an_old_log_holds_and_goes_on(open_log: Callable[..., AuditStore], url: str) -> None:
    audit_checks.check_an_old_log(open_log, PostgresDatabase(url))


def test_other_key(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_other_key(open_log)


def test_many_writers(open_log: Callable[..., AuditStore]) -> None:
    audit_checks.check_many_writers(open_log)


def test_meddling_with_the_file_shows(open_log: Callable[..., AuditStore], tmp_path: Path) -> None:
    anchor_checks.check_meddling_with_the_file_shows(open_log, tmp_path)


def test_a_cut_shows(open_log: Callable[..., AuditStore], raw: Callable[[str], Any], tmp_path: Path) -> None:
    anchor_checks.check_a_cut_shows(open_log, raw, tmp_path)


def test_a_rewritten_end_shows(
    open_log: Callable[..., AuditStore], raw: Callable[[str], Any], tmp_path: Path
) -> None:
    anchor_checks.check_a_rewritten_end_shows(open_log, raw, tmp_path)


def test_an_older_copy_shows(
    server: str, url: str, open_log: Callable[..., AuditStore], raw: Callable[[str], Any], tmp_path: Path
) -> None:
    """A database restored from a dump of an hour ago."""
    import psycopg

    anchor_checks.filled(open_log, tmp_path / "noted").close()
    name = url.split("/")[3].split("?")[0]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}_old TEMPLATE {name}")  # type: ignore[arg-type]
    anchor_checks.filled(open_log, tmp_path / "noted").close()
    (old,) = (
        store(checkpoints=tmp_path / "noted")
        for store in audit_checks.opener(url.replace(name, f"{name}_old"))
    )
    anchor_checks.refused(old, "an older copy was put back")
    old.close()


def test_a_cut_file_stops_its_writer(open_log: Callable[..., AuditStore], tmp_path: Path) -> None:
    anchor_checks.check_a_cut_file_stops_its_writer(open_log, tmp_path)


def test_several_writers(open_log: Callable[..., AuditStore], tmp_path: Path) -> None:
    anchor_checks.check_several_writers(open_log, tmp_path)


def test_rotation(open_log: Callable[..., AuditStore], raw: Callable[[str], Any], tmp_path: Path) -> None:
    anchor_checks.check_rotation(open_log, raw, tmp_path)


def test_a_rotation_for_several_machines(open_log: Callable[..., AuditStore], tmp_path: Path) -> None:
    anchor_checks.check_a_rotation_for_several_machines(open_log, tmp_path)


def test_an_interrupted_rotation(open_log: Callable[..., AuditStore], tmp_path: Path) -> None:
    anchor_checks.check_an_interrupted_rotation(open_log, tmp_path)


def test_refusals(open_log: Callable[..., AuditStore]) -> None:
    anchor_checks.check_refusals(open_log)


def test_a_lost_connection_is_opened_again(
    open_log: Callable[..., AuditStore], raw: Callable[[str], Any]
) -> None:
    store = open_log()
    store.append([entry(1)])
    raw(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(RunFailed, match="cannot be used now"):
        store.append([entry(2)])
    store.append([entry(3)])
    assert store.verify().records == 2
