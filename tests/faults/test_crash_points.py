"""Killed, torn, full, read-only, failing to sync: at every call that changes the disk, for every writer.

What must hold, whatever the point: nothing that was acknowledged is lost, nothing half-written is visible, a
run that survives ends with one clear line, and the same command again ends as if nothing had happened.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import shim
from tests.faults.workloads import WORKLOADS

# Points a fault is put at in a quick run: each so-manieth, and always the first and the last.
QUICK = (
    "bank:killed:5", "bank:torn:13", "bank:full:9", "bank:read-only:1", "bank-grown:killed:14",
    "bank-import:killed:5", "network:killed:4", "network:full:2", "audit:killed:48", "audit:full:90",
    "audit-rotate:killed:40", "tokens:killed:8", "review-make:killed:7", "replies:killed:4",
    "models:killed:5",
)  # fmt: skip
# Some jobs fit and tune for a second or more before they write; their points are sampled more sparsely.
COSTLY = {"evaluate": 8, "policy": 3, "classify": 2}
KINDS = ("torn", "full", "unsynced", "read-only", "cut-short")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = shim.built(tmp_path_factory.mktemp("shim"))
    if found is None:
        pytest.skip("a C compiler on Linux is needed to put faults below Python")
    return found


def explore(library: Path, folder: Path, *wanted: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.faults.driver", str(folder), *wanted]
    done = subprocess.run(
        command, env=shim.environment(library, folder / "home"), cwd=shim.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


def check(found: dict[str, dict[str, Any]]) -> None:
    problems = [f"{name}: {problem}" for name, one in found.items() for problem in one["problems"]]
    assert not problems, "\n".join(problems[:20])
    for name, one in found.items():
        assert one["reached"] == one["tried"] > 0, (name, one)


def test_every_writer_survives_faults_at_some_points(library: Path, tmp_path: Path) -> None:
    check(explore(library, tmp_path, *QUICK))


def test_the_library_does_what_it_says(library: Path, tmp_path: Path) -> None:
    """A writer that is not careful is found out: otherwise nothing above means anything."""
    code = """
import os, sys
from pathlib import Path
from tests.faults import shim
library, folder, how = shim.Shim.loaded(), Path(sys.argv[1]), int(sys.argv[2])
library.watch(folder)
library.arm(3, how, 28)
try:
    (folder / "a").write_text("whole")          # an open and a write
    library.count == 2 or sys.exit(9)
    (folder / "b").write_bytes(b"0123456789")   # the open is the third call, the write the fourth
except OSError as error:
    print(error.errno)
"""

    def run(how: int) -> tuple[int, str, list[str]]:
        folder = tmp_path / str(how)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder), str(how)], capture_output=True, text=True,
            env=shim.environment(library, tmp_path), cwd=shim.ROOT,
        )  # fmt: skip
        return done.returncode, done.stdout.strip(), sorted(p.name for p in folder.iterdir())

    assert run(shim.COUNT) == (0, "", ["a", "b"])
    assert run(shim.KILL) == (-9, "", ["a"])
    assert run(shim.FAIL) == (0, "28", ["a"])


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_killed_at_every_point(name: str, library: Path, tmp_path: Path) -> None:
    check(explore(library, tmp_path, f"{name}:killed:{COSTLY.get(name, 1)}"))


@pytest.mark.slow
def test_every_writer_meets_every_kind_of_failure(library: Path, tmp_path: Path) -> None:
    many = {"audit": 20, "audit-rotate": 20}
    several = [f"{name}:{kind}:{many.get(name, 6)}" for name in WORKLOADS if name not in COSTLY
               for kind in KINDS]  # fmt: skip
    costly = [f"{name}:{kind}:8" for name in COSTLY for kind in ("full", "read-only")]
    found = explore(library, tmp_path, *several, *costly)
    check({name: one for name, one in found.items() if one["points"]})
    assert sum(one["tried"] for one in found.values()) > 100
