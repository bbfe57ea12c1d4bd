"""The README works as printed, and figures, words and pictures of the pages stay within their limits."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools import figures, outputs
from tests.conftest import ROOT
from tests.docs.test_tutorial import run_block, runnable

README = ROOT / "README.md"
MOST_WORDS = 35_000  # of all pages under docs


@pytest.mark.slow
def test_every_command_of_the_readme_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    blocks = [block for block in runnable(README) if not block.remark.startswith("not run: ")]
    assert {block.language for block in blocks} == {"bash", "python"}
    assert sum(bool(block.shown) for block in blocks) >= 2
    for block in blocks:
        run_block(block, tmp_path, "README.md", COLUMNS=outputs.WIDTH)


def test_pages_quote_the_figures_of_the_records() -> None:
    command = [sys.executable, "docs/tools/figures.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    used = {
        name
        for page in figures.PAGES
        for _, name, _ in figures.PLACE.findall((ROOT / page).read_text("utf-8"))
    }
    assert used == set(figures.MADE)


def test_another_figure_in_a_page_is_found() -> None:
    text = README.read_text("utf-8")
    place = figures.PLACE.search(text)
    assert place is not None
    changed = text.replace(place[0], place[0].replace(" %", " ‰", 1))
    assert changed != text
    assert figures.filled(changed) == text


def test_the_readme_is_short_and_its_picture_light() -> None:
    text = README.read_text("utf-8")
    prose = re.sub(r"^```.*?^```$|^\|.*?$", "", text, flags=re.M | re.S)
    assert len(prose.split()) < 600
    assert len(text.splitlines()) < 130
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", text)
    assert (ROOT / picture).stat().st_size <= 200_000


def test_the_pages_together_have_few_words_and_the_glossary_few_terms() -> None:
    words = sum(len(page.read_text("utf-8").split()) for page in (ROOT / "docs").rglob("*.md"))
    assert words <= MOST_WORDS
    rows = re.findall(r"^\| (?!term |---)", (ROOT / "docs/glossary.md").read_text("utf-8"), re.M)
    assert 10 <= len(rows) <= 20
