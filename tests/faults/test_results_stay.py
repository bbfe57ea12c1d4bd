"""A failure on the way to a second run takes nothing of the first away."""

import shutil
from pathlib import Path

from simdx.experiments.config import read_config
from simdx.experiments.runner import Outcome, Watch, run_experiment
from simdx.runs import Store
from tests.faults.workloads import EXPERIMENT


def again(world: Path, said: list[str] | None = None) -> Outcome:
    watch = Watch(said.append) if said is not None else None
    return run_experiment(read_config(world / "experiment.yaml"), world / "out", base=world, watch=watch)


def test_results_outlive_a_run_whose_data_is_away(world: Path) -> None:
    """The disk with the cases is not mounted for once: the failure is on record, the results come back."""
    (world / "experiment.yaml").write_text(EXPERIMENT)
    first = again(world)
    assert not first.failed
    shutil.move(world / "cases.jsonl", world / "away.jsonl")
    assert len(again(world).failed) == 2
    assert all(record.status == "failed" for record in Store(world / "out").records())
    shutil.move(world / "away.jsonl", world / "cases.jsonl")
    third = again(world)
    assert third.resumed == 2
    assert third.records == first.records


def test_a_damaged_record_is_told_and_made_again(world: Path) -> None:
    (world / "experiment.yaml").write_text(EXPERIMENT)
    first = again(world)
    path = next((world / "out" / "cells").glob("*.json"))
    path.write_text(path.read_text().replace('"accuracy": 1.0', '"accuracy": 0.5').replace("0.", "0.0", 1))
    assert Store(world / "out").read(path.stem) is None
    said: list[str] = []
    second = again(world, said)
    assert second.resumed == 1
    assert any("record is damaged" in line for line in said)
    assert [r["metrics"] for r in second.records] == [r["metrics"] for r in first.records]
