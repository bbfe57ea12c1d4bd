"""Tokens, key and log lie in a data folder, not in a cache that anyone may empty."""

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
