"""On a real Ray cluster of several nodes on this machine: the same bits as one process, through every death.

Workers and nodes are killed by signal while blocks are under way, never before the first block is done.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from simdx.scale.blocks import ParquetSource
from simdx.scale.classify import DONE_FILE, Job, JobSummary, classify_parquet
from simdx.scale.cluster import OnRay, connected, in_this_process
from simdx.types import Bank
from tests.scale.conftest import answers, case_texts, wait_for_parts, write_file

pytestmark = [
    pytest.mark.slow,
    # Ray's own code: sockets and files its helper processes leave to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:ray"),
]

# Half a core each, so that all actors still fit on one node after the other has died.
SMALL, WIDE = OnRay(1, 1, 0.5), OnRay(2, 3, 0.5)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one node of four logical cores each; tests add nodes they mean to kill."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # By default workers yield to everything else on the machine. The name is spelt as Ray spells it.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    made.add_node(num_cpus=4)
    made.wait_for_nodes()
    try:
        with connected(made.address, allow_remote=True):
            yield made
    finally:
        made.shutdown()


@pytest.fixture
def many(tmp_path: Path, toy_bank: Bank) -> Path:
    """2,400 rows in 60 row groups: enough blocks that a run is still under way when something dies."""
    texts: list[str | None] = list(case_texts(toy_bank, 2400))
    texts[7], texts[1000] = None, " "
    for part in range(2):
        rows = range(part * 1200, (part + 1) * 1200)
        write_file(tmp_path / "in" / f"{part}.parquet", rows, [texts[i] for i in rows], row_group=40)
    return tmp_path / "in"


def check_against_one_process(job: Job, source: Path, out: Path, summary: JobSummary, scratch: Path) -> None:
    """Every row once, poisoned rows named, and not one bit different from a single process."""
    classify_parquet(job, ParquetSource(str(source)), str(scratch), in_this_process, block_rows=40)
    expected = answers(scratch)
    found = answers(out)
    assert found.column("id").to_pylist() == list(range(2400))
    assert found.equals(expected)
    assert {p.name for p in out.glob("*.parquet")} == {p.name for p in scratch.glob("*.parquet")}
    assert not list(out.glob("*.part"))
    assert {f["id"] for f in summary.failures} == {"7", "1000"}
    assert (summary.rows, summary.failed) == (2400, 2)


def actors_of(node: Any) -> list[Any]:
    """The processes of our stages that run on a node."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = []
    for child in psutil.Process(raylet).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if re.search("MapWorker|Actor", " ".join(child.cmdline())):
                found.append(child)
    return found


@pytest.mark.parametrize("pools", [SMALL, WIDE], ids=["one-of-each", "two-and-three"])
def test_as_one_process_whatever_the_number_of_workers(
    cluster: Any, job: Job, many: Path, tmp_path: Path, pools: OnRay
) -> None:
    out = tmp_path / "out"
    summary = classify_parquet(job, ParquetSource(str(many)), str(out), pools, block_rows=40)
    check_against_one_process(job, many, out, summary, tmp_path / "alone")


def test_a_worker_and_a_node_killed_in_mid_run(cluster: Any, job: Job, many: Path, tmp_path: Path) -> None:
    doomed = cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes()
    out = tmp_path / "out"
    killed: list[str] = []

    def watch(done: int, total: int) -> None:
        # Called in the driver as blocks come in: deaths happen at known points of the run.
        if done >= 200 and not killed:
            for worker in [w for node in cluster.list_all_nodes() for w in actors_of(node)][:1]:
                os.kill(worker.pid, signal.SIGKILL)
                killed.append("worker")
        elif done >= 600 and killed == ["worker"]:
            assert done < total
            cluster.remove_node(doomed, allow_graceful=False)
            killed.append("node")

    summary = classify_parquet(
        job, ParquetSource(str(many)), str(out), OnRay(3, 4, 0.5), block_rows=40, watch=watch
    )
    assert killed == ["worker", "node"]
    check_against_one_process(job, many, out, summary, tmp_path / "alone")


def test_a_killed_driver_and_the_run_that_goes_on(cluster: Any, job: Job, many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [sys.executable, "-m", "tests.scale.run_job", str(many), str(out), cluster.address]
    driver = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_parts(out, 5, driver)
    finally:
        driver.kill()
        driver.wait()
    assert not (out / DONE_FILE).exists()
    before = {p.name: p.stat().st_mtime_ns for p in out.glob("part-*.parquet")}
    summary = classify_parquet(job, ParquetSource(str(many)), str(out), SMALL, block_rows=40)
    assert summary.blocks_before >= 5
    kept = {p.name: p.stat().st_mtime_ns for p in out.glob("part-*.parquet")}
    assert all(kept[name] == when for name, when in before.items())
    check_against_one_process(job, many, out, summary, tmp_path / "alone")


OWN = """
import os, sys
from pathlib import Path
import psutil
from simdx.scale.cluster import connected
with connected(None, cpus=1):
    import ray
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [c.laddr.ip for p in ours for c in p.net_connections("inet") if c.status == "LISTEN"]
    token = Path.home() / ".ray" / "auth_token"
    print(sorted(set(sockets)), oct(token.stat().st_mode & 0o777))
"""


@pytest.mark.parametrize("before", [False, True])
def test_a_ray_of_our_own_is_on_loopback_and_its_token_for_the_owner(tmp_path: Path, before: bool) -> None:
    """It listened on every address, and whoever could read the home folder could read its token."""
    if before:  # left there by a Ray that somebody else started
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", OWN], env={**kept, "HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    addresses, mode = done.stdout.strip().rsplit(" ", 1)
    assert set(re.findall(r"'(.*?)'", addresses)) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert addresses != "[]"
    assert mode == "0o600"
