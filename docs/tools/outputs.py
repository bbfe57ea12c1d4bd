"""The README's outputs are real: `python docs/tools/outputs.py` runs its blocks and writes what they print.

Every bash or python block is run in order in one empty folder; a text block right after it is replaced by its
output. `tests/docs/test_readme.py` runs the same blocks and compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = "88"  # columns of the terminal: what fits beside a page's margins
_BLOCK = re.compile(
    r"(?P<remark><!-- not run: [^>]*-->\n)?```(?P<language>bash|python)\n(?P<body>.*?)```\n"
    r"(?:(?P<gap>\n)```text\n(?P<shown>.*?)```\n)?",
    re.S,
)


def printed(language: str, body: str, folder: str) -> str:
    """What a block prints, without blanks at the ends of lines."""
    shell = ["bash", "-e", "-c"] if language == "bash" else [sys.executable, "-c"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "COLUMNS": WIDTH, "PATH": path}
    done = subprocess.run(
        [*shell, body], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def refreshed(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:

        def run(block: re.Match[str]) -> str:
            if block["remark"]:
                return block[0]
            found = printed(block["language"], block["body"], folder)
            if block["shown"] is None:
                return block[0]
            return f"```{block['language']}\n{block['body']}```\n\n```text\n{found}```\n"

        return _BLOCK.sub(run, text)


if __name__ == "__main__":
    page = ROOT / "README.md"
    page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
