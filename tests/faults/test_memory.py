"""Too little memory: a failure with one line, no half-written file, and the same command works with more.

The limit is on the address space of a child. What runs out first (an array, a library that cannot be
mapped, a thread that cannot be started) depends on the machine, so several limits are tried.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.shim import ROOT
from tests.faults.world import write_world

# The limit is set once everything is loaded, above what is then in use: what runs out is the work's own.
LIMITED = """
import os, resource, sys
import simdx.bank.builder, simdx.classifier, simdx.evaluate, simdx.cli.main as main
from simdx.classifier import Classifier
extra = int(sys.argv[1])
if extra >= 0:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))
main.run(sys.argv[2:])
"""


def run(extra: int, *args: str, home: Path) -> tuple[int, str, str]:
    import os

    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SIMDX_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(extra), *args], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, **threads},
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
    code, out, err = run(8_000_000, *args, home=tmp_path / "home")
    lines = err.strip().splitlines()
    assert code == 1, (code, err[-500:])
    assert len(lines) == 1, err[-500:]
    assert lines[0].startswith("simdx: out of memory"), lines
    assert out == ""
    assert not (tmp_path / "out" / "metrics.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("extra", [0, 1_000_000, 4_000_000, 16_000_000, 64_000_000])
def test_a_build_and_an_answer_at_many_limits(tmp_path: Path, extra: int) -> None:
    write_world(tmp_path)
    jobs = {
        "bank": ("bank", "build", "--panel", f"{tmp_path}/panel.yaml", "--simulator", "scripted",
                 "--per-label", "2", "--out", f"{tmp_path}/bank"),
        "answer": ("classify", "red fruit", "--panel", f"{tmp_path}/with-bank.yaml", "--json"),
    }  # fmt: skip
    for name, args in jobs.items():
        code, _, err = run(extra, *args, home=tmp_path / "home")
        assert "Traceback" not in err, (name, err[-800:])
        if code != 0:
            assert code in (1, 2), (name, code, err[-300:])
            assert err.strip().splitlines()[-1].startswith("simdx: "), (name, err[-300:])
        if (tmp_path / "bank" / "manifest.json").exists():
            from simdx.bank.files import problems_of

            assert list(problems_of(tmp_path / "bank")) == []
        assert run(-1, *args, home=tmp_path / "home")[0] == 0, name
