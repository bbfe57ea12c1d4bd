"""Too little memory: a failure with one line, no half-written file, and the same command works with more.

The limit is on the address space of a child. What runs out first (an array, a library that cannot be
mapped, a thread that cannot be started) depends on the machine, so several limits are tried. The linear
algebra is warmed up before: without room for its native buffers OpenBLAS ends the process with a line of its
own or waits for ever, which is out of our hands.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from simdx.errors import RunFailed
from simdx.simulators.base import Completion, Request, stream
from tests.conftest import ROOT
from tests.faults.world import write_world

# The limit is set once everything is loaded, above what is then in use: what runs out is the work's own.
LIMITED = """
import os, resource, sys
import simdx.bank.builder, simdx.classifier, simdx.evaluate, simdx.cli.main as main
from simdx.classifier import Classifier
extra = int(sys.argv[1])
Classifier(sys.argv[2], embedder="hashing").infer("red fruit")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))
main.run(sys.argv[3:])
"""


def run(extra: int, *args: str, world: Path) -> tuple[int, str, str]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SIMDX_HOME": str(world / "home")}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(extra), f"{world}/with-bank.yaml", *args], cwd=ROOT,
        capture_output=True, text=True, env={**os.environ, **threads},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_AS"), reason="no limit on memory on this system")
def test_a_case_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    """Thousands of long cases in a few megabytes: exit 1, one line, and no results that look complete."""
    write_world(tmp_path)
    cases = "".join(
        json.dumps({"id": str(i), "label": "apple", "text": f"red fruit {i} " * 400}) + "\n"
        for i in range(6_000)
    )
    (tmp_path / "many.jsonl").write_text(cases)
    args = ("evaluate", "--panel", f"{tmp_path}/with-bank.yaml", "--data", f"{tmp_path}/many.jsonl", "--out",
            f"{tmp_path}/out")  # fmt: skip
    code, out, err = run(8_000_000, *args, world=tmp_path)
    lines = err.strip().splitlines()
    assert code == 1, (code, err[-500:])
    assert len(lines) == 1, err[-500:]
    assert lines[0].startswith("simdx: out of memory"), lines
    assert out == ""
    assert not (tmp_path / "out" / "metrics.json").exists()


@pytest.mark.parametrize("threads", [0, 1])
def test_threads_that_cannot_be_started(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one worker the work of four is done; with none it is one clear failure, and never a wait."""
    start, started = threading.Thread.start, []

    def limited(self: threading.Thread) -> None:
        if len(started) == threads:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    requests = [Request(f"number {i}") for i in range(6)]
    answers = stream(requests, lambda request: Completion(request.prompt, "stop", 0, 0, 0.0), 4)
    if threads:
        assert sorted(position for position, _ in answers) == list(range(6))
    else:
        with pytest.raises(RunFailed, match="out of memory"):
            list(answers)
