"""Two builds of the wheel at one SOURCE_DATE_EPOCH are the same bytes; nothing is fetched to build it."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

PARTS = ("src", "pyproject.toml", "README.md", "LICENSE", "NOTICE")


def build(source: Path, out: Path, umask: int) -> Path:
    """A wheel from a copy of the sources, with new file times and another umask each time."""
    out.mkdir()
    for part in PARTS:
        at = ROOT / part
        if at.is_dir():
            shutil.copytree(
                at, source / part, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copy
            )
        elif at.exists():
            source.mkdir(exist_ok=True)
            shutil.copy(at, source / part)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1780000000", "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=out, check=False, umask=umask
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(tmp_path: Path) -> None:
    one = build(tmp_path / "a", tmp_path / "one", 0o022)
    two = build(tmp_path / "somewhere" / "else", tmp_path / "two", 0o077)
    assert one.name == two.name
    assert hashlib.sha256(one.read_bytes()).hexdigest() == hashlib.sha256(two.read_bytes()).hexdigest()
    names = zipfile.ZipFile(one).namelist()
    assert "simdx/panels/data/oral-lesions/bank.jsonl" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pkl", ".pickle"))]
