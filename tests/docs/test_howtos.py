"""The Python of the how-tos runs; the call of a record system is made to a real service."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import Block, run_block, runnable

PAGES = sorted((ROOT / "docs/howto").glob("*.md"))


def python_blocks(remark: str) -> list[tuple[str, Block]]:
    found = [(page.name, block) for page in PAGES for block in runnable(page)]
    return [(name, b) for name, b in found if b.language == "python" and b.remark == remark]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), python_blocks(""), ids=lambda v: v if isinstance(v, str) else "")
def test_python(page: str, block: Block, tmp_path: Path) -> None:
    run_block(block, tmp_path, page)


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
            for page, block in blocks:
                run_block(block, tmp_path, page, SIMDX_URL=address)
        finally:
            service.terminate()
