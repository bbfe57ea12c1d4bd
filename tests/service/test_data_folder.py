"""Tokens, key and log lie in a data folder, not in a cache that anyone may empty."""

from pathlib import Path

import platformdirs
import pytest

from simdx.service.config import ServiceConfig
from tests.service.test_cli import simdx


def test_nothing_that_must_last_lies_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIMDX_HOME", "SIMDX_DATA"):
        monkeypatch.delenv(name, raising=False)
    for folder in ("cache", "data"):
        monkeypatch.setattr(platformdirs, f"user_{folder}_dir", lambda *_, at=tmp_path / folder: str(at))
    data, config = tmp_path / "data" / "service", ServiceConfig()
    assert {config.token_file.parent, config.audit_key.parent} == {data}
    assert config.audit_url == f"sqlite:///{data}/audit.sqlite3"
    simdx("token", "new", "clinic", home=None)
    assert (data / "tokens.json").exists()
    assert not (tmp_path / "cache" / "service").exists()
    for name, key in (("SIMDX_HOME", "/a/service/audit.key"), ("SIMDX_DATA", "/a/audit.key")):
        monkeypatch.setenv(name, "/a")  # the environment names another place
        assert ServiceConfig().audit_key == Path(key)
