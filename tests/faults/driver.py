"""Runs under the preloaded shim: faults at the points of several workloads, each in a fork.

    python -m tests.faults.driver FOLDER WORKLOAD:KIND:EVERY …

A workload runs once undisturbed, so that every module is loaded and its end state is known. Then for
each point a fork runs it into the fault, and another fork looks at what is left, runs it again without a
fault, and compares. Nothing is timed. A JSON object on stdout says what was found.
"""

import errno
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdx.cli.main import guarded
from tests.faults import shim as faults
from tests.faults.shim import Shim
from tests.faults.workloads import WORKLOADS, Workload


@dataclass(frozen=True)
class Kind:
    """One kind of fault. `survives`: the process itself goes on and must say in one line what is wrong."""

    how: int
    error: int
    calls: int
    survives: bool


KINDS = {
    "killed": Kind(faults.KILL, 0, faults.ANY, False),
    "torn": Kind(faults.TEAR, 0, faults.WRITE, False),
    "full": Kind(faults.FAIL, errno.ENOSPC, faults.WRITE | faults.CREATE, True),
    "unsynced": Kind(faults.FAIL, errno.EIO, faults.SYNC, True),
    "read-only": Kind(
        faults.FAIL, errno.EROFS, faults.WRITE | faults.CREATE | faults.CHANGE | faults.OPEN, True
    ),
    "cut-short": Kind(faults.FAIL_ONCE, errno.EINTR, faults.WRITE, True),
}


def main(folder: str, *wanted: str) -> None:
    found = {}
    for item in wanted:
        name, kind, every = item.split(":")
        here = Path(folder) / f"{name}-{kind}"
        here.mkdir()
        found[f"{name}:{kind}"] = explore(name, here, kind, int(every))
        shutil.rmtree(here)
    print(json.dumps(found))


def explore(name: str, root: Path, kind_name: str, every: int) -> dict[str, Any]:
    """One kind of fault at each `every`-th point of one workload."""
    workload, kind, shim = WORKLOADS[name], KINDS[kind_name], Shim.loaded()
    whole = root / "undisturbed"
    whole.mkdir()
    quietly(lambda: workload.prepare(whole))
    code, said = attempt(workload, whole)  # in this very process: its imports serve every fork
    if code != 0:
        return {"points": 0, "tried": 0, "reached": 0, "problems": [f"undisturbed: exit {code}: {said}"]}
    expected = workload.state(whole)
    points = in_fork(lambda: _count(workload, shim, root / "counted", kind))
    problems, reached = [], 0
    # A disk that is read-only is so from the first call on: there is one such point.
    chosen = [1] if kind_name == "read-only" else _every(points, every)
    for point in chosen:
        here = root / f"point-{point}"
        found = _one(workload, shim, here, kind, point, expected)
        reached += found.reached
        problems += [f"{kind_name} at {point} of {points}: {problem}" for problem in found.problems]
    return {"points": points, "tried": len(chosen), "reached": reached, "problems": problems}


def _every(points: int, step: int) -> list[int]:
    """Each `step`-th point, and always the first and the last."""
    return sorted({*range(1, points + 1, step), points} - {0})


@dataclass(frozen=True)
class Found:
    reached: bool
    problems: list[str]


def _one(workload: Workload, shim: Shim, here: Path, kind: Kind, point: int, expected: Any) -> Found:
    here.mkdir()
    quietly(lambda: workload.prepare(here))
    before = workload.state_before(here)

    def disturbed() -> Any:
        shim.watch(here)
        shim.arm(point, kind.how, kind.error, kind.calls)
        code, said = attempt(workload, here)
        hit = shim.count >= point
        shim.arm(0, faults.COUNT)
        return [code, said, hit]

    result = in_fork(disturbed)
    problems = []
    if kind.survives:
        if result is None:
            return Found(True, ["the process died"])
        code, said, reached = result
        if not reached:
            return Found(False, [])
        problems += _complaints(code, said)
    else:
        reached = result is None
        if result is not None and result[0] != 0:
            problems.append(f"exit {result[0]}: {result[1]}")

    ended_well = result is not None and result[0] == 0

    def afterwards() -> list[str]:
        found = workload.look(here, before)
        if not ended_well:  # a run that got over the fault is not repeated
            code, said = attempt(workload, here)
            if code != 0:
                return [*found, f"run again: exit {code}: {said}"]
        state = workload.state(here)
        if state != expected:
            found.append(f"run again: {_difference(state, expected)}")
        left = sorted(str(p.relative_to(here)) for p in here.rglob("*") if workload.is_scratch(p))
        return [*found, *([f"left behind: {left}"] if left else [])]

    return Found(reached, [*problems, *(in_fork(afterwards) or [])])


def _complaints(code: int, said: str) -> list[str]:
    """A run that met a failure either got over it or ends with one clear line."""
    lines = [line for line in said.splitlines() if line.strip()]
    if "Traceback" in said:
        return [f"a traceback: {said[-300:]}"]
    if code == 0:
        return []
    if not lines or not lines[-1].startswith("simdx: "):
        return [f"exit {code} without a line that says why: {said[-200:]!r}"]
    if "failed with" in lines[-1]:
        return [f"an unclear line: {lines[-1]}"]
    return []


def attempt(workload: Workload, folder: Path) -> tuple[int, str]:
    """Run the workload as the command line would; its exit code and what it wrote to stderr."""
    return quietly(lambda: guarded(lambda: workload.run(folder)))


def quietly(work: Callable[[], Any]) -> tuple[Any, str]:
    """What `work` returns and writes to stderr; what it writes to stdout is dropped."""
    read, write = os.pipe()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = os.dup(1), os.dup(2)
    os.dup2(nowhere, 1)
    os.dup2(write, 2)
    try:
        result = work()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for fd in (*kept, write, nowhere):
            os.close(fd)
    with os.fdopen(read, encoding="utf-8", errors="replace") as pipe:
        return result, pipe.read()


def _count(workload: Workload, shim: Shim, here: Path, kind: Kind) -> int:
    here.mkdir()
    quietly(lambda: workload.prepare(here))
    shim.watch(here)
    shim.arm(0, faults.COUNT, 0, kind.calls)
    attempt(workload, here)
    return shim.count


def in_fork(work: Callable[[], Any]) -> Any:
    """What `work` returns in a fork of this process; None where the fork was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            answer = json.dumps(work())
        except BaseException:
            answer = json.dumps([traceback.format_exc()])
        with os.fdopen(write, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"signal {os.WTERMSIG(status)}"
        return None
    return json.loads(text)


def _difference(found: Any, expected: Any) -> str:
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [k for k in {**found, **expected} if found.get(k) != expected.get(k)]
        return f"another end state in {keys[:6]}: {str(found.get(keys[0]))[:300]}"
    return f"another end state: {str(found)[:300]}"


if __name__ == "__main__":
    main(*sys.argv[1:])
