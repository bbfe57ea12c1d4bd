"""Two processes on one store at the same moment: neither loses what the other wrote, or one is refused.

Both wait at a gate until the other is there too, so that they meet in every run.
"""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

from simdx.amortised.network import load
from simdx.bank.files import problems_of
from simdx.disk import write_atomically
from simdx.review import read_scores
from simdx.service.audit import AuditKey, AuditStore
from simdx.service.auth import TokenFile
from tests.conftest import ROOT
from tests.faults.test_killed_writers import REVIEW, WRITERS, at, fresh
from tests.faults.world import write_world

# Each of two processes: load everything, wait for the other, work, and tell how it ended in one JSON line.
SCRIPT = """
import json, os, sys, time
from pathlib import Path
me, folder = int(sys.argv[1]), Path(sys.argv[2])
os.environ["SIMDX_HOME"] = str(folder / "home")
from simdx.errors import SimdxError
{imports}
(folder / f"ready-{{me}}").touch()
while not (folder / f"ready-{{1 - me}}").exists():
    time.sleep(0.001)
told = []
try:
{work}
except SimdxError as error:
    told.append("refused: " + str(error))
print(json.dumps(told))
"""


def both(folder: Path, imports: str, work: str) -> list[list[str]]:
    script = SCRIPT.format(imports=imports, work="\n".join(f"    {line}" for line in work.splitlines()))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(me), str(folder)], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for me in (0, 1)
    ]  # fmt: skip
    out = []
    for process in started:
        said, problems = process.communicate()
        assert process.returncode == 0, problems[-2000:]
        out.append(json.loads(said.splitlines()[-1]))
    return out


def test_tokens_and_the_audit_log(tmp_path: Path) -> None:
    """Both start on nothing: one key, one chain, every record and every token."""
    work = """\
key = AuditKey.from_file(folder / "audit.key", create=True)
store = AuditStore(f"sqlite:///{folder}/audit.sqlite3", key, checkpoints=folder / "audit.checkpoints")
tokens = TokenFile(folder / "tokens.json")
for i in range(15):
    store.append([Entry(f"{me}.{i}", "answer", "me", "toy", answer={"label": "apple"})])
    tokens.new(f"of {me} number {i}", ("classify",))
    if i % 3 == 0:
        tokens.revoke(f"of {me} number {i}")
    store.checkpoint()
store.close()
told.append(key.id)"""
    imports = """\
from simdx.service.audit import AuditKey, AuditStore, Entry
from simdx.service.auth import TokenFile"""
    first, second = both(tmp_path, imports, work)
    assert first == second
    store = AuditStore(
        f"sqlite:///{tmp_path}/audit.sqlite3", AuditKey.from_file(tmp_path / "audit.key"),
        checkpoints=tmp_path / "audit.checkpoints",
    )  # fmt: skip
    verdict = store.verify()
    assert (verdict.ok, verdict.records, verdict.problem) == (True, 30, None)
    assert 15 <= verdict.checkpoints <= 30  # one covers both where one came right after the other
    assert {record.id for record in store.records()} == {f"{me}.{i}" for me in (0, 1) for i in range(15)}
    tokens = TokenFile(tmp_path / "tokens.json").list()
    assert len(tokens) == 30
    assert sum(token.revoked is not None for token in tokens) == 10


def test_a_bank_a_review_a_network_and_a_cache(tmp_path: Path) -> None:
    """A second builder is refused or comes too late to matter; the rest is whole."""
    write_world(tmp_path)
    write_world(tmp_path / "reviewed")
    at(tmp_path / "reviewed", *REVIEW, "@/review")
    work = """\
save(toy_network(me), folder / "network")
take(folder / "reviewed", ("anna", "ben")[me])
for i in range(20):
    save_arrays(folder / "cache.safetensors", {"vectors": np.full((40, 40), float(me))})
    told += [] if load_arrays(folder / "cache.safetensors") else ["a cache that is not whole"]
WRITERS["bank build"].run(folder / "bank")"""
    imports = """\
import numpy as np
import simdx.bank.builder
from simdx.amortised.network import save
from simdx.disk import load_arrays, save_arrays
from tests.faults.world import toy_network
from tests.faults.test_killed_writers import WRITERS, take"""
    fresh(WRITERS["bank build"], tmp_path / "bank")
    told = [line for lines in both(tmp_path, imports, work) for line in lines]
    assert all(line.startswith("refused: another ") for line in told), told
    assert load(tmp_path / "network").card.settings["seed"] in (0, 1)
    scores = read_scores(tmp_path / "reviewed" / "cases.jsonl.review.jsonl")
    assert {score.reviewer for score in scores} == {"anna", "ben"}
    assert list(problems_of(tmp_path / "bank" / "out")) == []
    left = [p for p in tmp_path.rglob(".*-????????") if p.is_file()]
    assert left == []


def test_a_living_writers_scratch_file_is_left_alone(tmp_path: Path) -> None:
    """A second writer removes what a dead one left, and nothing that is held."""
    target = tmp_path / "file.json"
    dead, living = tmp_path / ".file.json-aaaaaaaa", tmp_path / ".file.json-bbbbbbbb"
    other = tmp_path / ".file.json-not-ours-at-all"
    for path in (dead, living, other):
        path.write_text("half")
    with living.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(target, "whole")
    assert target.read_text() == "whole"
    assert not dead.exists()
    assert living.exists()
    assert other.exists()
