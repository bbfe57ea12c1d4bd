"""Every target for a bounded time, one record: `python -m fuzz.run [--seconds 80] [--out out/fuzz]`.

Prints one JSON object and writes it to `OUT/fuzz.json`. Exits 1 when any target ended in a traceback or met
an input that took longer than its limit; the inputs that did it lie under `OUT/findings`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzz.targets import TARGETS
from simdx.runs import current_commit

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
HANG_SECONDS = 20  # of one input
MEMORY_MB = 4_096
LONGEST_INPUT = 4_096
# How the time is dealt out, one share a target on average: an answer of the service or a YAML file costs
# fifty times a prior, and every door should be tried tens of thousands of times.
SHARES = {
    "panel_yaml": 1.6, "policy": 2.2, "http": 1.6, "page": 0.5, "cases": 0.6, "bank_jsonl": 0.3, "prior": 0.2,
}  # fmt: skip
# Every input is written to a file. On a disk that was nine tenths of the time.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
ENDINGS = {0: None, 70: "hang", 71: "out of memory", 77: "traceback"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=80, help="per target, on average")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    parser.add_argument("targets", nargs="*", help="default: all")
    arguments = parser.parse_args()
    if find_spec("atheris") is None:
        parser.exit(2, "atheris is not installed: it has wheels for x86-64 Linux alone\n")
    started, commit = time.gmtime(), current_commit()  # as it begins: it takes minutes, and people commit
    runs = []
    for name in arguments.targets or list(TARGETS):
        seconds = max(
            1, round(SHARES.get(name, 1.0) * arguments.seconds)
        )  # none at all would mean without end
        runs.append(run_target(name, seconds, arguments.out))
    record = {
        "command": " ".join(["python -m fuzz.run --seconds", str(arguments.seconds), *arguments.targets]),
        "commit": commit,
        "date": time.strftime("%Y-%m-%d", started),
        "python": platform.python_version(),
        "atheris": version("atheris"),
        "hang_seconds": HANG_SECONDS,
        "longest_input_bytes": LONGEST_INPUT,
        "inputs": sum(run["inputs"] for run in runs),
        "findings": sum(run["finding"] is not None for run in runs),
        "targets": runs,
    }
    text = json.dumps(record, indent=1)
    (arguments.out / "fuzz.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if record["findings"] else 0


def run_target(name: str, seconds: int, out: Path) -> dict[str, Any]:
    """One target in a child process: how many inputs, what coverage, and what it found."""
    findings = out / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    seeds = CORPUS / name
    with tempfile.TemporaryDirectory(prefix="simdx-fuzz-", dir=SCRATCH) as scratch:
        grown = Path(scratch) / "corpus"
        grown.mkdir()
        command = [
            sys.executable, "-m", "fuzz.one", name, f"-max_total_time={seconds}", f"-timeout={HANG_SECONDS}",
            f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LONGEST_INPUT}", "-print_final_stats=1",
            f"-dict={ROOT / 'fuzz' / 'words.dict'}",
            f"-artifact_prefix={findings}/{re.sub(r'[^a-z_]', '-', name)}-", str(grown),
            *([str(seeds)] if seeds.is_dir() else []),
        ]  # fmt: skip
        # One thread for products of a few rows: more of them wait for each other.
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": scratch, **threads}
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
        elapsed = time.monotonic() - started
    log = done.stderr + done.stdout
    ending = ENDINGS.get(done.returncode, f"exit {done.returncode}")
    return {
        "target": name,
        "inputs": _last(r"stat::number_of_executed_units:\s*(\d+)", log) or _last(r"^#(\d+)", log) or 0,
        "seconds": round(elapsed, 1),
        "coverage": _last(r"cov: (\d+)", log),
        "features": _last(r"ft: (\d+)", log),
        "slowest_input_seconds": _last(r"stat::slowest_unit_time_sec:\s*(\d+)", log),
        "finding": None if ending is None else {"kind": ending, "said": _tail(log)},
    }


def _last(pattern: str, log: str) -> int | None:
    found = re.findall(pattern, log, flags=re.M)
    return int(found[-1]) if found else None


def _tail(log: str) -> list[str]:
    """The end of what a failed target said, without the rows of progress."""
    lines = [line for line in log.splitlines() if line.strip() and not re.match(r"#\d+|INFO|stat::", line)]
    return [line[:300] for line in lines[-25:]]


if __name__ == "__main__":
    sys.exit(main())
