"""The tutorial and the Python of the how-tos work as printed: blocks are run in order, outputs compared."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import Block, missing_lines, run_block, runnable

TUTORIAL = ROOT / "docs" / "tutorial.md"


def blocks(slow: bool) -> list[Block]:
    chosen = [b for b in runnable(TUTORIAL) if not b.remark.startswith("not run: ")]
    return [b for b in chosen if slow or b.remark != "slow"]


def test_what_needs_no_language_model(tmp_path: Path) -> None:
    chosen = blocks(slow=False)
    assert sum(bool(b.shown) for b in chosen) >= 6, "the tutorial shows hardly any output to compare"
    for block in chosen:
        run_block(block, tmp_path, "docs/tutorial.md")


@pytest.mark.slow
def test_what_needs_one(tmp_path: Path) -> None:
    chosen = blocks(slow=True)
    first = next(i for i, block in enumerate(chosen) if block.remark == "slow")
    for block in chosen[first - 1 :]:  # the block before the first slow one makes its panel
        run_block(block, tmp_path, "docs/tutorial.md")


@pytest.mark.parametrize(
    ("shown", "output", "missing"),
    [
        ("a 0.900", "  a   0.91  ", []),
        ("a 0.900", "  a   0.95  ", ["a 0.900"]),
        ("a … 0.5", "a ███ 0.5", []),
        ("a … 0.5", "b ███ 0.5", ["a … 0.5"]),
        ("review: …", "review: because of 3 things", []),
        ("12 of 12  x", "11 of 12  x", ["12 of 12  x"]),
    ],
)
def test_outputs_are_compared_so_that_they_can_differ(shown: str, output: str, missing: list[str]) -> None:
    assert missing_lines((shown,), output) == missing


HOWTOS = sorted((ROOT / "docs/howto").glob("*.md"))


def python_blocks(remark: str) -> list[tuple[str, Block]]:
    found = [(page.name, block) for page in HOWTOS for block in runnable(page)]
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
