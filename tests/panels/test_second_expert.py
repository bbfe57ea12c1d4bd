"""A user's own panel hears MiniLM where it is installed; a packaged one does not."""

from pathlib import Path

import pytest

from simdx.cli.options import go_fast
from simdx.panels import PACKAGED, load_panel


@pytest.fixture
def file(tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A panel file, where MiniLM's weights are installed."""
    monkeypatch.delenv("SIMDX_FAST")
    (private_home / "models" / "minilm").mkdir(parents=True)
    path = tmp_path / "p.yaml"
    path.write_text("labels: [{name: migraine}, {name: tension headache}]\n")
    return path


def test_a_users_own_panel_hears_it_where_it_is_installed(
    file: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_fast(False)
    assert load_panel(file).embedder == "wordllama+minilm"
    assert {load_panel(name).embedder for name in PACKAGED} == {"wordllama"}
    monkeypatch.setenv("SIMDX_FAST", "")  # and is unset in the end
    go_fast(True)
    assert load_panel(file).embedder == "wordllama"
    monkeypatch.setenv("SIMDX_FAST", "")
    (private_home / "models" / "minilm").rmdir()
    assert load_panel(file).embedder == "wordllama"
    file.write_text("embedder: hashing\n" + file.read_text())
    assert load_panel(file).embedder == "hashing"
