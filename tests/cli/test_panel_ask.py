"""`simdx panel calibrate PANEL --ask TEXTS`: one key a text at a terminal, kept after every key."""

import io
import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simdx.archive import MOST
from simdx.methods.calibration import FEWEST_CASES
from simdx.methods.calibration_record import FILE, read_file
from tests.cli.conftest import Cli
from tests.cli.test_panel_calibrate import BOATS, BOOKS, FRUIT, panel, rows

__all__ = ["panel"]
KEY = {"ripe": "1", "deep": "2", "dusty": "0"}  # the first word of a text says which key is right


@pytest.fixture
def texts(panel: Path) -> Path:
    path = panel.with_name("texts.txt")
    lines = [json.loads(line)["text"] for line in (rows(FRUIT, 20) + rows(BOATS, 20)).splitlines()]
    first = ["ripe"] * 20 + ["deep"] * 20
    path.write_text("".join(f"{word} {line}\n" for word, line in zip(first, lines, strict=True)))
    return path


def at_the_keys(panel: Path, texts: Path, script: str) -> tuple[int, str]:
    """The program at a terminal of its own; each letter of the script answers a text, `=` the right one."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "simdx", "panel", "calibrate", str(panel), "--ask", str(texts)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        seen, asked = "", 0
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody writes to the terminal any more
                break
            seen += data.decode("utf-8", "replace")
            while seen.count("q stop: ") > asked and asked < len(script):
                shown = seen.split("q stop: ")[asked].rpartition(" ---")[2]
                word = re.search("|".join(KEY), shown)
                assert word is not None
                key = KEY[word[0]] if script[asked] == "=" else script[asked]
                asked += 1
                os.write(ours, key.encode())
        os.close(ours)
    return running.returncode, seen


def labels_of(panel: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in panel.with_name("labelled.jsonl").read_text().splitlines()]


def test_keys_label_undo_skip_stop_and_go_on(panel: Path, texts: Path, private_home: Path) -> None:
    code, seen = at_the_keys(panel, texts, "=1u=sx=q")  # a wrong key, undone; one skipped; no key at all
    assert code == 0, seen
    for said in ("undone", "skipped", "no such key", f"3 texts are labelled; {FEWEST_CASES} are needed"):
        assert said in seen
    kept = labels_of(panel)
    assert len(kept) == 3
    assert all({"ripe": "apple", "deep": "boat"}[row["text"].split()[0]] == row["label"] for row in kept)
    assert stat.S_IMODE(panel.with_name("labelled.jsonl").stat().st_mode) == 0o600
    assert not panel.with_name(FILE).exists()  # fewer than it takes leave the calibration as it is
    code, seen = at_the_keys(panel, texts, "=" * (MOST - 3))
    assert code == 0, seen
    assert "--- 4 of 20 ---" in seen
    assert labels_of(panel)[:3] == kept
    assert "on 20 labelled cases" in seen
    ((_, found),) = read_file(panel.with_name(FILE)).items()
    assert (found.basis, found.n) == ("measured", 20)


def test_lines_of_a_pipe_and_none_of_these(
    cli: Cli, panel: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = panel.with_name("texts.csv")
    books = [json.loads(line)["text"] for line in rows(["dusty", *BOOKS], 6).splitlines()]
    table.write_text("text\n" + "".join(f"{line}\n" for line in books))
    monkeypatch.setattr(sys, "stdin", io.StringIO("0\n0\n"))
    told = cli("panel", "calibrate", panel, "--ask", table, "--json").json
    assert (told["labelled"], told["needed"], told["calibration"]) == (2, FEWEST_CASES, None)
    assert {row["label"] for row in labels_of(panel)} == {"none of these"}


def test_fewer_texts_than_are_needed_are_told_before_anything_is_asked(
    cli: Cli, panel: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = panel.with_name("few.txt")
    few.write_text("ripe apples on the tree\ndeep water under the boat\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("12"))
    told = cli("panel", "calibrate", panel, "--ask", few)
    assert f"These are too few: {FEWEST_CASES} labels are needed." in told.err
    few.write_text(" \n")
    assert "few.txt has no texts" in cli("panel", "calibrate", panel, "--ask", few).complaint
