"""The fuzz targets hold on their seeds, and the driver reports a planted fault as the failure it is."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuzz import run
from fuzz.targets import TARGETS
from simdx.service.config import ServiceConfig
from simdx.service.state import Registry
from tests.conftest import ROOT

needs_atheris = pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is for x86-64 Linux alone")


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_taken(name: str, tmp_path: Path) -> None:
    loaded = {"registry": Registry(ServiceConfig(panels={"oral-lesions": None}))} if name == "http" else {}
    target = TARGETS[name](tmp_path, **loaded)
    seeds = sorted((ROOT / "fuzz" / "corpus" / name).iterdir())
    assert len(seeds) >= 4
    for seed in seeds:
        data = seed.read_bytes()
        assert len(data) <= run.LONGEST_INPUT
        target(data)
        target(data[: len(data) // 2])
    target(b"")


@needs_atheris
@pytest.mark.slow
def test_a_planted_fault_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HANG_SECONDS", 2)
    sound = run.run_target("tests.fuzz.planted:sound", 2, tmp_path)
    assert sound["finding"] is None
    assert sound["inputs"] > 100
    found = run.run_target("tests.fuzz.planted:traceback", 20, tmp_path)
    assert found["finding"]["kind"] == "traceback"
    assert any("planted" in line for line in found["finding"]["said"])
    found = run.run_target("tests.fuzz.planted:hang", 20, tmp_path)
    assert found["finding"]["kind"] == "hang"
    assert {path.name.split("-")[-2] for path in (tmp_path / "findings").iterdir()} == {"crash", "timeout"}


def test_the_committed_record_is_enough_and_clean() -> None:
    record = json.loads((ROOT / "results" / "fuzz.json").read_text())
    assert {run["target"] for run in record["targets"]} == set(TARGETS)
    assert set(run.SHARES) == set(TARGETS)
    assert min(run["inputs"] for run in record["targets"]) >= 25_000
    assert record["inputs"] >= 200_000
    assert record["findings"] == 0
