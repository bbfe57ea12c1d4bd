"""The committed pictures are what the script draws: same files, same words, much the same numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT

PICTURES = ROOT / "docs" / "pictures"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def texts(path: Path) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.parse(path).iter() if e.tag.endswith("}text")]


@pytest.mark.slow
def test_they_can_be_drawn_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "docs/tools/pictures.py", "--out", tmp_path], cwd=ROOT, check=True)
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn == sorted(path.name for path in PICTURES.glob("*.svg"))
    for name in drawn:
        new, old = texts(tmp_path / name), texts(PICTURES / name)
        assert [_NUMBER.sub("#", t) for t in new] == [_NUMBER.sub("#", t) for t in old], name
        numbers = [[float(n) for t in side for n in _NUMBER.findall(t)] for side in (new, old)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.02, rel=0.02), name


def test_the_pictures_of_the_code_show_the_code() -> None:
    done = subprocess.run(
        [sys.executable, "docs/tools/house.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_are_light() -> None:
    for path in PICTURES.rglob("*.svg"):
        assert path.stat().st_size < 100_000, path.name
