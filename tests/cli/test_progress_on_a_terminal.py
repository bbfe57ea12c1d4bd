"""What a person at a terminal sees of a long command, and what a file or a pipe gets instead.

At a terminal the commands run as programs of their own, their stderr a pseudo-terminal: bars ask the system
whether they are looked at, and nothing in this process could answer for it.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from simdx.cli.output import say_model
from simdx.simulators import DEFAULT
from tests.cli.conftest import Cli

BUILD = (
    "bank", "build", "--panel", "oral-lesions", "--simulator", "scripted", "--per-label", "20",
    "--background", "5", "--rehearsal", "0",
)  # fmt: skip
LIVE = (
    "classify", "a sore smooth tongue", "--panel", "oral-lesions", "--method", "m-smc", "--engine", "live",
    "--simulator", "scripted", "--budget", "40", "--json",
)  # fmt: skip
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*arguments: object, width: int) -> tuple[int, str, str]:
    """(exit code, stdout, what the terminal was sent on stderr without its control sequences)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "simdx", *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs,
        stdin=subprocess.DEVNULL, text=True, env={**environment, "TERM": "xterm-256color"},
    ) as running:  # fmt: skip
        os.close(theirs)
        seen = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody writes to the terminal any more
                break
            if not data:
                break
            seen += data
        os.close(ours)
        out = running.stdout.read()
    return running.returncode, out, ESCAPES.sub("", seen.decode("utf-8"))


def test_a_build_shows_how_far_how_fast_and_how_dear(tmp_path: Path) -> None:
    prices = ("--price-in", 1, "--price-out", 1000)
    code, out, seen = on_a_terminal(*BUILD, *prices, "--out", tmp_path / "bank", "--json", width=80)
    assert code == 0, seen
    assert '"complete": true' in out
    last = " ".join(seen.split())[-320:]  # the bar as it was left; a narrow terminal folds its words
    assert "65/65" in last
    assert re.search(r"ETA 0:00:00", last)
    assert re.search(r"[1-9]\d* texts/min, \d+ tok/s, [1-9]\d* tokens, \d+ rejected", last)
    cost = re.search(r"cost (\d+\.\d{4})", last)
    assert float(cost.group(1)) > 0


def test_a_build_in_a_pipe_draws_nothing(tmp_path: Path, cli: Cli) -> None:
    done = cli(*BUILD, "--price-out", 1000, "--out", tmp_path / "bank", "--json")
    assert done.code == 0
    (line,) = done.err.splitlines()  # what the simulator can do, said before it begins
    assert line.startswith("scripted: has ")


@pytest.mark.slow
def test_live_answers_count_their_calls_on_a_terminal(private_home: Path, cli: Cli) -> None:
    code, out, seen = on_a_terminal(*LIVE, width=120)
    assert code == 0, seen
    assert '"llm_calls": ' in out
    calls = [int(n) for n in re.findall(r"(\d+) calls, \d+ a minute, \d+ tokens, \d+ rejected", seen)]
    assert calls, seen
    assert calls == sorted(calls)
    assert "the language model simulates new texts" in seen
    quiet = cli(*LIVE)
    assert quiet.err.startswith("warning: stopped early: the budget was used up")
    assert quiet.err.count("\n") == 1
    assert quiet.json["posterior"] == json.loads(out)["posterior"]


@pytest.mark.parametrize(
    ("method", "engine", "simulator", "said"),
    [
        ("m-smc", "live", None, f"{DEFAULT} (--simulator"),
        ("elicited", "exact", None, f"asking {DEFAULT} (--simulator"),
        ("m-smc", "live", "scripted", "the language model simulates new texts"),
        ("elicited", "exact", "scripted", ""),
        ("auto", "exact", None, ""),
    ],
)
def test_a_model_nobody_chose_is_named_on_a_terminal_alone(
    monkeypatch, capsys, method: str, engine: str, simulator: str | None, said: str
) -> None:
    say_model(method, engine, simulator)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say_model(method, engine, simulator)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (1 if said else 0)
    assert all(line.startswith(said) for line in lines)
