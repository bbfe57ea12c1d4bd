"""What the fault tests share: a small world of files."""

from pathlib import Path

import pytest

from tests.faults.world import write_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A panel with a bank beside it, labelled cases, and a cache folder of its own."""
    folder = tmp_path / "world"
    write_world(folder)
    monkeypatch.setenv("SIMDX_HOME", str(folder / "home"))
    return folder
