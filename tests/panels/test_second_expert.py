"""A user's own panel hears MiniLM where it is installed; a packaged one does not."""

from pathlib import Path

import pytest

from simdx.cli.options import go_fast
from simdx.panels import PACKAGED, load_panel


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text("labels: [{name: migraine}, {name: tension headache}]\n")
    return path


def test_where_it_is_installed(file: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMDX_FAST")
    assert load_panel(file).embedder == "wordllama"
    (private_home / "models" / "minilm").mkdir(parents=True)
    assert load_panel(file).embedder == "wordllama+minilm"
    assert {load_panel(name).embedder for name in PACKAGED} == {"wordllama"}
    file.write_text("embedder: hashing\n" + file.read_text())
    assert load_panel(file).embedder == "hashing"


def test_fast_goes_without(file: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (private_home / "models" / "minilm").mkdir(parents=True)
    monkeypatch.delenv("SIMDX_FAST")
    go_fast(False)
    assert load_panel(file).embedder == "wordllama+minilm"
    go_fast(True)
    assert load_panel(file).embedder == "wordllama"
