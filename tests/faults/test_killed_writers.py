"""kill -9 of every writer right before a rename: nothing half-written is seen, and a second run ends it.

Run as a script it prints what was found wrong, as JSON: python -m tests.faults.test_killed_writers FOLDER

A writer runs once undisturbed, in this process, so that every module is loaded and its renames are counted.
Then a fork of this process runs it in a world of its own and is killed right before its last rename. Every
file that is visible then is as it was, or as a rename put it there whole; and the same command again ends
with the same files as the undisturbed run, without a scratch file left.
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

import pytest
import typer

from simdx.amortised.network import save
from simdx.cli.main import program
from simdx.service.auth import TokenFile
from tests.conftest import ROOT
from tests.faults.world import toy_network, write_world

JOURNAL = "answers.jsonl"  # of a build: a line for each answer, written as it comes


def at(folder: Path, *command: str) -> Any:
    """A command line in a folder, for which `@` stands in its words."""
    os.environ["SIMDX_HOME"] = str(folder / "home")  # caches of this world, too, lie inside it
    words = [part.replace("@", str(folder)) for part in command]
    main = typer.main.get_command(program(tuple(words)))
    return main.main(args=words, prog_name="simdx", standalone_mode=False)


def take(folder: Path, reviewer: str) -> None:
    """Fill the form of one reviewer and import it."""
    form = folder / "review" / f"form-{reviewer}.csv"
    lines = form.read_text("utf-8").splitlines()
    rest = [line.rsplit(",", 4)[0] + ",4,5,," for line in lines[2:]]
    filled = folder / f"filled-{reviewer}.csv"
    filled.write_text("\n".join([*lines[:2], *rest]) + "\n", "utf-8")
    at(folder, "review", "import", "@/review", "--from", str(filled), "--role", "dentist")


def add_token(folder: Path) -> None:
    tokens = TokenFile(folder / "tokens.json")
    if all(token.name != "ward" for token in tokens.list()):
        tokens.new("ward", ("classify",))


@dataclass(frozen=True)
class Writer:
    """A job in a folder, and what comes before it."""

    run: Callable[[Path], Any]
    before: Callable[[Path], Any] = lambda folder: None


def command(*words: str, before: tuple[str, ...] = ()) -> Writer:
    return Writer(lambda folder: at(folder, *words), lambda folder: before and at(folder, *before))


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
    "bank export": command("bank", "export", "@/bank", "--to", "@/out.jsonl", before=IMPORT),
    "evaluate": command("evaluate", *FULL, "--data", "@/cases.jsonl", *OUT),
    "classify": command("classify", "red fruit", *FULL, "--html", "@/a.html"),
    "policy": command("policy", "tune", *FULL, "--out", "@/policy.yaml"),
    "panel new": command("panel", "new", "@/fresh.yaml"),
    "review make": command(*REVIEW, "@/out"),
    "review import": Writer(
        lambda folder: take(folder, "anna"),
        lambda folder: (at(folder, *REVIEW, "@/review"), take(folder, "ben")),
    ),
    "network": Writer(
        lambda folder: save(toy_network(2), folder / "out"),
        lambda folder: save(toy_network(1), folder / "out"),
    ),
    "tokens": Writer(
        add_token, lambda folder: TokenFile(folder / "tokens.json").new("clinic", ("classify",))
    ),
}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def visible(folder: Path) -> dict[str, Path]:
    """The files a user sees, by name; caches in `home` are not among them."""
    found = [p for p in folder.rglob("*") if p.is_file() and "home" not in p.relative_to(folder).parts]
    return {str(p.relative_to(folder)): p for p in found if not p.name.startswith(".")}


def renames(work: Callable[[], Any], die_at: int = 0, noted: Path | None = None) -> int:
    """How many files `work` puts in place; before the one with this number the process is killed."""
    count, real = 0, os.replace

    def replace(source: Any, target: Any, **more: Any) -> None:
        nonlocal count
        count += 1
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if noted is not None:
            with noted.open("a") as file:
                file.write(digest(Path(source)) + "\n")
        real(source, target, **more)

    os.replace = replace
    try:
        work()
    finally:
        os.replace = real
    return count


def problems(writer: Writer, root: Path) -> list[str]:
    whole, here = fresh(writer, root / "whole"), fresh(writer, root / "killed")
    before = {digest(path) for path in visible(here).values()}
    last, noted, found = renames(lambda: writer.run(whole)), root / "noted", list[str]()
    noted.touch()
    if (child := os.fork()) == 0:
        renames(lambda: writer.run(here), last, noted)
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        found.append(f"rename {last} was not reached")
    put = before | set(noted.read_text().split())
    for name, path in visible(here).items():
        if digest(path) not in put and path.name != JOURNAL and not name.startswith("filled-"):
            found.append(f"{name} is neither the old file nor a new one that is whole")
    writer.run(here)
    if visible(here).keys() != visible(whole).keys():
        found.append("run again: other files than in an undisturbed run")
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
