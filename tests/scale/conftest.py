"""A toy job and Parquet files of its cases."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from simdx.abc.prior import Prior
from simdx.methods import Settings
from simdx.scale.classify import Job
from simdx.types import Bank, Panel
from tests.loopback import until


@pytest.fixture
def job(toy_panel: Panel, toy_bank: Bank) -> Job:
    return Job(toy_panel, toy_bank, Settings(), None, Prior.uniform(3))


def case_texts(bank: Bank, count: int) -> list[str]:
    """Distinct texts in the bank's own words."""
    rng = np.random.default_rng(11)
    words = sorted({word for text in bank.texts for word in text.split()})
    return [" ".join(rng.choice(words, size=8)) + f" n{i}" for i in range(count)]


def write_file(
    path: Path, ids: Sequence[object], texts: Sequence[str | None], *, row_group: int = 50
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": list(ids), "text": pa.array(list(texts), type=pa.string())})
    parquet.write_table(table, path, row_group_size=row_group)


def answers(folder: Path) -> Any:
    """All answers by id."""
    return parquet.read_table(folder).sort_by("id")


def wait_for_parts(out: Path, count: int, driver: subprocess.Popen[bytes]) -> None:
    until(lambda: len(list(out.glob("part-*.parquet"))) >= count or driver.poll() is not None, 240)
    assert driver.poll() is None, "the run ended before it could be killed"


@pytest.fixture
def cases(tmp_path: Path, toy_bank: Bank) -> tuple[Path, list[str]]:
    """A folder of two files, 130 rows in row groups of 50, and its texts in order."""
    texts = case_texts(toy_bank, 130)
    write_file(tmp_path / "in" / "a.parquet", range(100), texts[:100])
    write_file(tmp_path / "in" / "deep" / "b.parquet", range(100, 130), texts[100:])
    return tmp_path / "in", texts
