"""kill -9 of every writer right before a rename: nothing half-written is seen, and a second run ends it.

Run as a script it prints what was found wrong, as JSON: python -m tests.faults.test_killed_writers FOLDER

A writer runs once undisturbed, in this process, so that every module is loaded and its end state is known.
Then a fork of this process runs it again in a world of its own and is killed right before its last rename.
What is visible then must be as before or as in the end, and the same command again must end as if nothing had
happened, without a scratch file left.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import typer

from simdx.amortised.network import save
from simdx.cli.main import program
from simdx.service.auth import TokenFile
from tests.conftest import ROOT
from tests.faults.world import toy_network, use_home, write_world

TIMES = ("seconds", "cost", "versions", "created", "revoked", "expires", "seal")


def simdx(*args: str) -> Any:
    return typer.main.get_command(program(args)).main(
        args=list(args), prog_name="simdx", standalone_mode=False
    )


def at(folder: Path, *command: str) -> Any:
    """A command line in a folder, for which `@` stands in its words."""
    use_home(folder)
    return simdx(*(part.replace("@", str(folder)) for part in command))


def take(folder: Path, reviewer: str) -> None:
    """Fill the form of one reviewer and import it."""
    form = folder / "review" / f"form-{reviewer}.csv"
    lines = form.read_text("utf-8").splitlines()
    rest = [line.rsplit(",", 4)[0] + ",4,5,," for line in lines[2:]]
    form.write_text("\n".join([*lines[:2], *rest]) + "\n", "utf-8")
    at(folder, "review", "import", "@/review", "--from", str(form), "--role", "dentist")


def add_token(folder: Path) -> None:
    tokens = TokenFile(folder / "tokens.json")
    if all(token.name != "ward" for token in tokens.list()):
        tokens.new("ward", ("classify",))


@dataclass(frozen=True)
class Writer:
    """A job in a folder, what comes before it, and the files it is for."""

    run: Callable[[Path], Any]
    before: Callable[[Path], Any] = lambda folder: None
    shows: tuple[str, ...] = ("out",)


def command(*words: str, before: tuple[str, ...] = (), shows: tuple[str, ...] = ("out",)) -> Writer:
    return Writer(lambda folder: at(folder, *words), lambda folder: before and at(folder, *before), shows)


OUT = ("--out", "@/out")
PANEL, FULL = ("--panel", "@/panel.yaml"), ("--panel", "@/with-bank.yaml")
ROWS = ("--from", "@/rows.jsonl")
IMPORT = ("bank", "import", *PANEL, *ROWS, "--out", "@/bank")
BUILD = ("bank", "build", *PANEL, "--simulator", "scripted", "--background", "2", *OUT, "--per-label")
REVIEW = ("review", "make", "--data", "@/cases.jsonl", "--reviewer", "anna", "--reviewer", "ben", "--out")
WRITERS = {
    "bank build": command(*BUILD, "2"),
    "bank grown": command(*BUILD, "3", before=(*BUILD, "2")),
    "bank import": command("bank", "import", *PANEL, *ROWS, "--background", "@/rows.jsonl", *OUT),
    "bank merge": command("bank", "merge", "@/rows.jsonl", "@/rows.jsonl", *PANEL, *OUT),
    "bank export": command(
        "bank", "export", "@/bank", "--to", "@/out.jsonl", shows=("out.jsonl",), before=IMPORT
    ),
    "evaluate": command(
        "evaluate", *FULL, "--data", "@/cases.jsonl", *OUT, shows=("out/metrics.json", "out/cases.parquet")
    ),
    "classify": command("classify", "red fruit", *FULL, "--html", "@/a.html", shows=("a.html",)),
    "policy": command("policy", "tune", *FULL, "--out", "@/policy.yaml", shows=("policy.yaml",)),
    "panel new": command("panel", "new", "@/fresh.yaml", shows=("fresh.yaml",)),
    "review make": command(*REVIEW, "@/out"),
    "review import": Writer(
        lambda folder: take(folder, "anna"),
        lambda folder: (at(folder, *REVIEW, "@/review"), take(folder, "ben")),
        ("cases.jsonl.review.jsonl",),
    ),
    "network": Writer(
        lambda folder: save(toy_network(2), folder / "out"),
        lambda folder: save(toy_network(1), folder / "out"),
    ),
    "tokens": Writer(
        add_token,
        lambda folder: TokenFile(folder / "tokens.json").new("clinic", ("classify",)),
        ("tokens.json",),
    ),
}


def state(folder: Path, writer: Writer) -> dict[str, Any]:
    """The files a writer is for, without times and without their place."""
    paths = {p for name in writer.shows for p in (folder / name, *(folder / name).rglob("*"))}
    visible = [p for p in sorted(paths) if p.is_file() and not p.name.startswith(".")]
    return {str(path.relative_to(folder)): content(path, folder) for path in visible}


def content(path: Path, folder: Path) -> Any:
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pydict()
    if path.name == "tokens.json":  # the rest is random
        return [token["name"] for token in json.loads(path.read_bytes())["tokens"]]
    data = path.read_bytes().replace(str(folder).encode(), b"@")
    try:
        rows = (
            [json.loads(line) for line in data.splitlines()] if path.suffix == ".jsonl" else json.loads(data)
        )
    except ValueError:
        return hashlib.sha256(data).hexdigest()
    # Answers lie in the order of their arrival, which a second run may change.
    return timeless(sorted(rows, key=lambda r: r["key"]) if path.name == "answers.jsonl" else rows)


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def renames(work: Callable[[], Any], die_at: int) -> int:
    """How many files `work` puts in place; before the one with this number the process is killed."""
    count, real = 0, os.replace

    def replace(*args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*args, **kwargs)

    os.replace = replace
    try:
        work()
    finally:
        os.replace = real
    return count


def problems(writer: Writer, root: Path) -> list[str]:
    whole, here = fresh(writer, root / "whole"), fresh(writer, root / "killed")
    before = state(here, writer)
    last = renames(lambda: writer.run(whole), 0)
    expected, found = state(whole, writer), list[str]()
    if (child := os.fork()) == 0:
        renames(lambda: writer.run(here), last)
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        found.append(f"rename {last} was not reached")
    for name, seen in state(here, writer).items():
        if seen not in (before.get(name), expected.get(name)) and name != "out/answers.jsonl":
            found.append(f"{name} is neither the old file nor the new one")
    writer.run(here)
    found += [f"run again: {n} differs" for n, seen in state(here, writer).items() if seen != expected.get(n)]
    hidden = [p for p in here.rglob(".*") if p.is_file() and "home" not in p.parts and p.suffix != ".lock"]
    return found + [f"left behind: {path.name}" for path in hidden]


def fresh(writer: Writer, folder: Path) -> Path:
    write_world(folder)
    writer.before(folder)
    return folder


@pytest.mark.slow
def test_every_writer_is_killed(tmp_path: Path) -> None:
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    script = [sys.executable, "-m", "tests.faults.test_killed_writers", str(tmp_path)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **one})
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {name: [] for name in WRITERS}


if __name__ == "__main__":
    told = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    verdict = {}
    for name, writer in WRITERS.items():
        try:
            verdict[name] = problems(writer, Path(sys.argv[1]) / name.replace(" ", "-"))
        except Exception as error:
            verdict[name] = [f"{type(error).__name__}: {error}"]
    os.write(told, json.dumps(verdict).encode())
