"""`simdx scale`: exit codes, one JSON object, and what goes wrong in one line."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.conftest import Cli


@pytest.fixture
def source(tmp_path: Path) -> Path:
    texts = ["A soft bluish swelling of the lower lip.", "A smooth red burning tongue.", None]
    parquet.write_table(pa.table({"id": ["a", "b", "c"], "text": texts}), tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


def test_classify_in_this_process(cli: Cli, source: Path, tmp_path: Path) -> None:
    arguments = (
        "scale", "classify", source, tmp_path / "out", "--panel", "oral-lesions", "--embedder", "hashing",
        "--method", "m-smc",
    )  # fmt: skip
    ran = cli(*arguments, "--in-process", "--json")
    assert (ran.json["rows"], ran.json["answered"], ran.json["failed"]) == (3, 2, 1)
    assert [f["id"] for f in ran.json["failures"]] == ["c"]
    assert "row 'c'" in ran.err
    again = cli(*arguments, "--in-process", "--json")
    assert again.json["blocks_before"] == again.json["blocks"] == 1
    assert "another settings" in cli(*arguments, "--in-process", "--seed", 3).complaint


def test_bank_from_several_endpoints(cli: Cli, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "bank", "--json")
    build = ("scale", "bank", "--panel", "oral-lesions", "--per-label", 3, *out)
    made = cli(*build, "--endpoint", "scripted", "--endpoint", "scripted:delay=.001").json
    assert made["complete"]
    assert sum(e["answered"] for e in made["endpoints"]) == made["asked"]
    assert json.loads((tmp_path / "bank" / "manifest.json").read_text())["hash"] == made["hash"]
