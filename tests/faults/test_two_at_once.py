"""Two processes on one store at the same moment: neither loses what the other wrote, or one is refused.

Both wait at a gate until the other is there too, so that they meet in every run.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.amortised.network import load, save
from simdx.bank.files import problems_of
from simdx.disk import load_arrays, save_arrays
from simdx.errors import SimdxError
from simdx.review import read_scores
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditKey, Entry
from simdx.service.auth import TokenFile
from tests.faults.test_killed_writers import REVIEW, WRITERS, at, fresh, take
from tests.faults.world import toy_network, write_world

GATE: Any = None  # in each of the two processes


def _stand_at(gate: Any) -> None:
    global GATE
    GATE = gate


def both(work: Callable[[int, Path], str], folder: Path) -> list[str]:
    """What `work` gives in each of two processes."""
    fresh_process = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, fresh_process, _stand_at, (fresh_process.Barrier(2),)) as pool:
        return list(pool.map(work, (0, 1), (folder, folder)))


def open_log(folder: Path, create: bool = False) -> AuditStore:
    key = AuditKey.from_file(folder / "audit.key", create)
    return AuditStore(f"sqlite:///{folder}/audit.sqlite3", key, checkpoints=folder / "audit.checkpoints")


def record_and_make_tokens(me: int, folder: Path) -> str:
    GATE.wait()
    with closing(open_log(folder, create=True)) as store:
        tokens = TokenFile(folder / "tokens.json")
        for i in range(15):
            store.append([Entry(f"{me}.{i}", "answer", "me", "toy", answer={"label": "apple"})])
            tokens.new(f"of {me} number {i}", ("classify",))
            if i % 3 == 0:
                tokens.revoke(f"of {me} number {i}")
            store.checkpoint()
    return AuditKey.from_file(folder / "audit.key").id


def write_everything(me: int, folder: Path) -> str:
    key = record_and_make_tokens(me, folder)
    GATE.wait()
    save(toy_network(me), folder / "network")
    take(folder / "reviewed", ("anna", "ben")[me])
    for _ in range(20):
        save_arrays(folder / "cache.safetensors", {"vectors": np.full((40, 40), float(me))})
        assert load_arrays(folder / "cache.safetensors"), "a cache that is not whole"
    with suppress(SimdxError):  # one of the two may be refused
        WRITERS["bank build"].run(folder / "bank")
    return key


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder in which both wrote everything, and the identity of the audit key that each found."""
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMDX_HOME", str(folder / "home"))
        write_world(folder / "reviewed")
        at(folder / "reviewed", *REVIEW, "@/review")
        fresh(WRITERS["bank build"], folder / "bank")
        return folder, both(write_everything, folder)


def test_tokens_and_the_audit_log(written: tuple[Path, list[str]]) -> None:
    """Both start on nothing: one key, one chain, every record and every token."""
    folder, (first, second) = written
    assert first == second
    with closing(open_log(folder)) as store:
        verdict = store.verify()
        assert (verdict.ok, verdict.records, verdict.problem) == (True, 30, None)
        assert 15 <= verdict.checkpoints <= 30  # one covers both where one came right after the other
        assert {record.id for record in store.records()} == {f"{me}.{i}" for me in (0, 1) for i in range(15)}
    tokens = TokenFile(folder / "tokens.json").list()
    assert len(tokens) == 30
    assert sum(token.revoked is not None for token in tokens) == 10


def test_a_bank_a_review_a_network_and_a_cache(written: tuple[Path, list[str]]) -> None:
    """A second builder is refused or comes too late to matter; the rest is whole."""
    folder, _ = written
    assert load(folder / "network").card.settings["seed"] in (0, 1)
    scores = read_scores(folder / "reviewed" / "cases.jsonl.review.jsonl")
    assert {score.reviewer for score in scores} == {"anna", "ben"}
    assert list(problems_of(folder / "bank" / "out")) == []
    assert [p for p in folder.rglob(".*-????????") if p.is_file()] == []
