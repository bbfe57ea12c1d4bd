"""A disk that is really full, or really read-only: a small one in memory, mounted for one process alone.

The shim of the other tests says what a call answers; here the kernel does. Mounting takes the right to make a
mount namespace; where that is missing the tests are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.shim import ROOT
from tests.faults.world import write_world

SIMDX = f"{sys.executable} -c 'from simdx.cli.main import run; run()'"


def mounted(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a mount namespace of its own, with a 64 KB disk at `folder`/disk."""
    (folder / "disk").mkdir(exist_ok=True)
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    mount = f"mount -t tmpfs -o size=64k tmpfs {folder}/disk"
    probe = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("this user may not mount a small disk")
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && cd {ROOT} && export SIMDX_HOME={folder}/home\n{script}"],
        capture_output=True, text=True,
    )  # fmt: skip


def build(folder: Path, per_label: int) -> str:
    return (
        f"{SIMDX} bank build --panel {folder}/panel.yaml --simulator scripted --per-label {per_label} "
        f"--out {folder}/disk/bank"
    )


def test_a_full_disk_keeps_every_answer_and_the_build_goes_on_with_room(tmp_path: Path) -> None:
    write_world(tmp_path)
    script = f"""
{build(tmp_path, 60)} >/dev/null 2>{tmp_path}/said; echo "first $?"
cp {tmp_path}/disk/bank/answers.jsonl {tmp_path}/kept.jsonl
ls {tmp_path}/disk/bank
mount -o remount,size=4m {tmp_path}/disk
{build(tmp_path, 60)} >/dev/null 2>&1; echo "second $?"
{SIMDX} bank verify {tmp_path}/disk/bank
cp {tmp_path}/disk/bank/answers.jsonl {tmp_path}/all.jsonl
"""
    done = mounted(tmp_path, script)
    lines = done.stdout.splitlines()
    assert lines[0] == "first 1", done
    assert "manifest.json" not in done.stdout
    said = (tmp_path / "said").read_text().strip().splitlines()[-1]
    assert said.startswith("simdx: ")
    assert "No space left on device" in said
    assert str(tmp_path / "disk" / "bank") in said
    assert "second 0" in lines, done
    assert lines[-1].endswith(": holds"), done
    kept = (tmp_path / "kept.jsonl").read_bytes()
    assert len(kept) > 10_000
    whole = kept[: kept.rindex(b"\n") + 1]
    assert (tmp_path / "all.jsonl").read_bytes().startswith(whole)  # nothing that was paid for is asked again


@pytest.mark.slow
def test_a_read_only_disk_is_one_line_and_no_change(tmp_path: Path) -> None:
    write_world(tmp_path)
    jobs = (
        build(tmp_path, 2),
        f"{SIMDX} review make --data {tmp_path}/cases.jsonl --out {tmp_path}/disk/review",
        f"{SIMDX} token new clinic --token-file {tmp_path}/disk/service/tokens.json",
    )
    script = f"mount -o remount,ro {tmp_path}/disk\n" + "\n".join(f"{job}; echo $?" for job in jobs)
    done = mounted(tmp_path, script + f"\nls -A {tmp_path}/disk")
    assert done.stdout.split() in (["2", "1", "2"], ["1", "1", "2"]), done
    lines = [line for line in done.stderr.splitlines() if line.startswith("simdx: ")]
    assert len(lines) == 3, done.stderr
    assert all("Read-only file system" in line and f"{tmp_path}/disk" in line for line in lines), lines
    assert "Traceback" not in done.stderr
