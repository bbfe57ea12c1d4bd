"""The Python of the how-tos runs; the call of a record system is made to a real service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import Block, missing_lines, runnable

PAGES = sorted((ROOT / "docs/howto").glob("*.md"))


def python_blocks(remark: str) -> list[tuple[str, Block]]:
    found = [(page.name, block) for page in PAGES for block in runnable(page)]
    return [(name, b) for name, b in found if b.language == "python" and b.remark == remark]


def run(block: Block, folder: Path, **environment: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", block.body],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert not missing_lines(block.shown, ended.stdout), ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), python_blocks(""), ids=lambda v: v if isinstance(v, str) else "")
def test_python(page: str, block: Block, tmp_path: Path) -> None:
    run(block, tmp_path)


@pytest.mark.slow
def test_a_record_system_calls(tmp_path: Path) -> None:
    blocks = python_blocks("service")
    assert blocks
    options = ["--port", "0", "--panel", "oral-lesions", "--audit", "none"]
    command = [sys.executable, "-m", "simdx", "serve", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            address = next(m[0] for line in service.stderr if (m := re.search(r"http://127[\d.]+:\d+", line)))
            for _, block in blocks:
                run(block, tmp_path, SIMDX_URL=address)
        finally:
            service.terminate()
