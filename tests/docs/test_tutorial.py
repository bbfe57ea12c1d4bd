"""The tutorial and the Python of the how-tos work as printed: blocks are run in order, outputs compared."""

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT

_BLOCK = re.compile(
    r"(?:^<!-- (?P<remark>[^>]*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^```$", re.M | re.S
)
_NUMBER = r"([-+]?\d+(?:\.\d+)?)"


@dataclass(frozen=True)
class Block:
    """One block to run; `shown` is the output block that follows it, if one does."""

    language: str
    body: str
    remark: str
    shown: tuple[str, ...]
    line: int


def runnable(page: Path) -> list[Block]:
    """The bash and python blocks of a page, each with the text block right after it."""
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    blocks = []
    for match, after in zip(found, [*found[1:], None], strict=True):
        if match["language"] not in ("bash", "python"):
            continue
        shown: tuple[str, ...] = ()
        follows = after is not None and after["language"] == "text"
        if follows and not text[match.end() : after.start()].strip():
            shown = tuple(line for line in after["body"].splitlines() if line.strip())
        line = text[: match.start("body")].count("\n") + 1
        blocks.append(Block(match["language"], match["body"], match["remark"] or "", shown, line))
    return blocks


def run_block(block: Block, folder: Path, where: str, **environment: str) -> None:
    """Run it, and compare what it prints with what the page shows."""
    shell = ["bash", "-e", "-c"] if block.language == "bash" else [sys.executable, "-c"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        [*shell, block.body], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200", "PATH": path, **environment},
    )  # fmt: skip
    where = f"{where}, line {block.line}"
    assert ended.returncode == 0, f"{where} ended with {ended.returncode}: {ended.stderr[-2000:]}"
    missing = missing_lines(block.shown, ended.stdout)
    assert not missing, f"{where} did not print {missing} but:\n{ended.stdout}"


def missing_lines(shown: tuple[str, ...], output: str, slack: float = 0.02) -> list[str]:
    """Shown lines that did not come out, in order. `…` stands for anything; numbers may differ a little."""
    lines = output.splitlines()
    at, missing = 0, []
    for wanted in shown:
        hit = next((i for i in range(at, len(lines)) if _alike(wanted, lines[i], slack)), None)
        if hit is None:
            missing.append(wanted)
        else:
            at = hit + 1
    return missing


def _alike(wanted: str, line: str, slack: float) -> bool:
    pattern, numbers = "", []
    for word in wanted.split():
        if word == "…":
            pattern += r"(?:\s+\S+)*?"
            continue
        piece = ""
        for i, part in enumerate(re.split(_NUMBER, word)):
            if i % 2:
                numbers.append(float(part))
                piece += _NUMBER
            else:
                piece += ".*?".join(re.escape(p) for p in part.split("…"))
        pattern += r"\s+" + piece
    found = re.fullmatch(pattern + r"\s*", " " + line)
    if found is None:
        return False
    return all(abs(float(g) - n) <= slack for g, n in zip(found.groups(), numbers, strict=True))


TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    chosen = [b for b in runnable(TUTORIAL) if not b.remark.startswith("not run: ")]
    assert sum(bool(b.shown) for b in chosen) >= 6, "the tutorial shows hardly any output to compare"
    for block in chosen:
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


@pytest.mark.slow
def test_the_page_on_own_panels(tmp_path: Path, private_home: Path) -> None:
    """In order, with the files it speaks of: a reply, texts and labelled cases."""
    told = {"hives": "weals that itch and move", "eczema": "dry cracked patches in the elbow folds"}
    when = ("since Monday", "for weeks", "every evening", "after a shower", "at night", "in spring")
    lines = [
        f"{label} | {time.capitalize()} I have {words}, my skin is red and I scratch."
        for label, words in told.items()
        for time in when
    ]
    lines += [
        f"none of these (condition {i}) | My toe number {i} hurts so much that I limp." for i in range(4)
    ]
    (tmp_path / "reply.txt").write_text("\n".join(lines))
    cases = [json.loads(line) for line in (ROOT / "tests/data/headache_cases.jsonl").read_text().splitlines()]
    for name, columns in (("cases.csv", ("text", "label")), ("texts.csv", ("text",))):
        with (tmp_path / name).open("w", newline="") as file:
            table = csv.DictWriter(file, columns, extrasaction="ignore")
            table.writeheader()
            table.writerows(cases)
    page = ROOT / "docs" / "howto" / "panel.md"
    chosen = [b for b in runnable(page) if b.language == "bash" and not b.remark.startswith("not run: ")]
    assert len(chosen) >= 5
    for block in chosen:
        run_block(block, tmp_path, "docs/howto/panel.md")
