"""The tutorial works as printed: its blocks are run in order and its outputs are compared."""

from __future__ import annotations

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
