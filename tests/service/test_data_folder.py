"""Tokens, key and log lie in a data folder; what an earlier simdx left in the cache folder is not lost."""

import errno
import json
import os
from pathlib import Path

import platformdirs
import pytest

from simdx.service.config import ServiceConfig
from tests.service.test_cli import simdx


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The platform's cache and data folders, both inside this test's."""
    for name in ("SIMDX_HOME", "SIMDX_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_: str(tmp_path / "cache"))
    monkeypatch.setattr(platformdirs, "user_data_dir", lambda *_: str(tmp_path / "data"))
    return tmp_path / "cache" / "service", tmp_path / "data" / "service"


def listed() -> tuple[list[str], str]:
    """The names `simdx token list` shows, without $SIMDX_HOME, and what it says beside."""
    done = simdx("token", "list", "--json", home=None)
    return [token["name"] for token in json.loads(done.stdout)["tokens"]], done.stderr


def made(folder: Path, name: str) -> None:
    simdx("token", "new", name, "--token-file", str(folder / "tokens.json"), home=None)


def test_nothing_that_must_last_lies_in_the_cache(folders: tuple[Path, Path]) -> None:
    cache, data = folders
    config = ServiceConfig()
    assert {Path(p).parent for p in (config.token_file, config.audit_key)} == {data}
    assert config.audit_url == f"sqlite:///{data}/audit.sqlite3"
    simdx("token", "new", "clinic", home=None)
    assert (data / "tokens.json").exists()
    assert not cache.exists()


def test_the_environment_names_another_place(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMDX_HOME", "/somewhere")
    assert Path(ServiceConfig().audit_key) == Path("/somewhere/service/audit.key")
    monkeypatch.setenv("SIMDX_DATA", "/elsewhere")
    assert Path(ServiceConfig().audit_key) == Path("/elsewhere/audit.key")


def test_files_in_the_old_place_are_moved_with_one_line(folders: tuple[Path, Path]) -> None:
    cache, data = folders
    made(cache, "clinic")
    (cache / "audit.sqlite3-wal").write_text("x")
    names, said = listed()
    assert (names, said.count("\n")) == (["clinic"], 1)
    assert str(cache) in said
    assert str(data) in said
    assert (data / "audit.sqlite3-wal").exists()
    assert not cache.exists()
    assert listed() == (["clinic"], "")


def test_files_that_cannot_be_moved_are_named(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, _ = folders
    made(cache, "clinic")

    def other_disk(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", other_disk)
    done = simdx("token", "list", home=None)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"SIMDX_DATA={cache}" in done.stderr
    assert (cache / "tokens.json").exists()


@pytest.mark.parametrize("named", [False, True])
def test_a_folder_in_use_or_named_takes_nothing_over(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    cache, data = folders
    made(cache, "old")
    made(data, "new")
    if named:
        monkeypatch.setenv("SIMDX_DATA", str(tmp_path / "named"))
    names, said = listed()
    assert names == ([] if named else ["new"])
    assert str(cache) in said
    assert (cache / "tokens.json").exists()
