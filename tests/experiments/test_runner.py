"""Running grids: records, resuming, failures, subsets, and nothing that carries a case's words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.baselines import interview as machine
from simdx.errors import BadInput
from simdx.experiments import cells
from simdx.experiments.config import read_config
from simdx.experiments.runner import Outcome, Watch, run_experiment
from simdx.methods import fitted
from simdx.runs import Store
from tests.baselines.conftest import Oracle
from tests.experiments.conftest import World


def run(world: World, path: Path, **options: Any) -> Outcome:
    return run_experiment(read_config(path), world.out, base=world.folder, **options)


def test_a_grid_leaves_a_whole_record_for_every_cell(world: World) -> None:
    outcome = run(world, world.write(methods=["m-smc", "centroid", "supervised"], seeds=[0, 1]))
    assert len(outcome.records) == 6
    assert not outcome.failed
    for record in Store(world.out).records():
        assert record.done
        assert record["metrics"]["n"] == 18
        assert record["metrics"]["ci"]["accuracy"] is not None
        assert record.hashes.keys() == {"data", "bank", "panel"}
        assert record.versions["simdx"]
        assert record.cost["infer_seconds"] >= 0
        rows = record.rows
        assert len(rows["id"]) == len(rows["posterior"]) == 18
        np.testing.assert_allclose(np.sum(rows["posterior"], axis=1), 1, atol=1e-5)
        right = [
            max(p) == p[record["labels"].index(y)]
            for p, y in zip(rows["posterior"], rows["label"], strict=True)
        ]
        assert np.mean(right) >= record["metrics"]["accuracy"] - 1e-9
    summary = json.loads((world.out / "summary.json").read_text())
    assert (len(summary["rows"]), summary["config"]["seeds"]) == (6, [0, 1])


def test_no_word_of_a_case_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "opened", lambda name: Oracle())
    run(world, world.write(simulators=["oracle"], methods=["m-smc", "logits", "ensemble"]))
    written = "".join(p.read_text() for p in world.out.rglob("*") if p.is_file())
    assert "apple-0" in written  # ids are there
    assert "secret" not in written


def test_changed_cases_or_bank_are_run_anew(world: World) -> None:
    path = world.write()
    run(world, path)
    bank = world.folder / "bank.jsonl"
    bank.write_text(bank.read_text() + '\n{"label": "apple", "text": "one more orchard"}')
    assert run(world, path).resumed == 0


def test_a_method_whose_figures_moved_is_run_anew_and_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.write(methods=["m-smc", "d-smc"])
    run(world, path)
    assert run(world, path).resumed == 2
    monkeypatch.setattr(fitted, "_EDITIONS", {"d-smc": "moved"})
    assert run(world, path).resumed == 1


def test_a_failed_cell_is_on_record_and_tried_again(world: World) -> None:
    path = world.write(
        panels=[
            {"panel": "panel.yaml", "data": "cases.jsonl"},
            {"panel": "panel.yaml", "data": "absent.jsonl"},
        ],
        methods=["m-smc", "no-such-method"],
    )
    outcome = run(world, path)
    assert (len(outcome.records), len(outcome.failed)) == (4, 3)
    errors = sorted(record.error or "" for record in outcome.failed)
    assert "absent.jsonl" in errors[0] + errors[1]
    assert any("no-such-method" in error for error in errors)
    assert "failed: " in (world.out / "summary.md").read_text()
    (world.folder / "absent.jsonl").write_text((world.folder / "cases.jsonl").read_text())
    again = run(world, path)
    assert (again.resumed, len(again.failed)) == (1, 2)


def test_an_unforeseen_error_is_named_by_kind_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("secret words of a case")

    monkeypatch.setattr(cells, "measure_cell", broken)
    (record,) = run(world, world.write()).failed
    assert record.error.startswith("failed with ValueError at test_runner.py")
    assert "secret" not in record.dumps()


def test_a_subset_is_random_stated_and_shared(world: World) -> None:
    part = {"panel": "panel.yaml", "data": "cases.jsonl", "subset": 7}
    outcome = run(world, world.write(panels=[part], methods=["m-smc", "centroid"]))
    one, two = outcome.records
    ids = [set(record.rows["id"]) for record in (one, two)]
    assert ids[0] == ids[1]
    assert one["data"] | {"n": 7, "of": 18, "subset_seed": 0} == one["data"]
    larger = run(world, world.write(panels=[{**part, "subset": 9}], methods=["m-smc"])).records[0]
    assert ids[0] < set(larger.rows["id"])
    other = run(world, world.write(panels=[part], methods=["m-smc"], subset_seed=5)).records[0]
    assert set(other.rows["id"]) != ids[0]


def test_models_are_asked_once_for_all_methods_and_only_for_what_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = Oracle(concurrency=1)
    monkeypatch.setattr(machine, "opened", lambda name: oracle)
    path = world.write(
        simulators=["oracle"], methods=["logits", "ensemble", {"method": "fidelity", "calibration": 0.4}]
    )
    said: list[str] = []
    outcome = run(world, path, watch=Watch(say=said.append))
    assert not outcome.failed
    assert "oracle: 378 questions at most" in said[0]  # 18 cases × (3 + 8 + 10)
    # Case by case, each case's questions in a row: a case already left is never asked about again.
    order = [r.prompt.splitlines()[1] for r in oracle.asked if "secret" in r.prompt]
    blocks = [case for i, case in enumerate(order) if i == 0 or order[i - 1] != case]
    assert len(order) == 378
    assert len(blocks) == len(set(blocks)) == 18
    asked = len(oracle.asked)
    record = next(r for r in outcome.records if r["cell"]["method"]["method"] == "fidelity")
    assert record["asking"]["readable"] == 180
    assert record["calibrated"]["fitted_on"] + record["calibrated"]["metrics"]["n"] == 18
    run(world, world.write(simulators=["oracle"], methods=["ensemble", "elicited"]))
    new = [r for r in oracle.asked[asked:] if "secret" in r.prompt]
    assert len(new) == 18  # the elicitation alone


def test_unanswered_cases_are_scored_and_left_out_as_stated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Oracle(answer=lambda request: "who knows" if "secret words 0" in request.prompt else "A")
    monkeypatch.setattr(machine, "opened", lambda name: silent)
    (record,) = run(world, world.write(simulators=["oracle"], methods=["ensemble"])).records
    assert (record["asking"]["unanswered_cases"], record["metrics"]["n"]) == (3, 18)
    assert (record["answered"]["n"], record["answered"]["metrics"]["n"]) == (15, 15)
    assert record["answered"]["accuracy_strict"] == pytest.approx(5 / 18)
    assert record["metrics"]["accuracy"] == pytest.approx(6 / 18)  # the tie falls to the first label


def test_a_remote_model_is_a_recorded_failure_without_permission(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose name does not tell; a name that does is refused before the run."""
    far = Oracle()
    far.remote = True
    monkeypatch.setattr(machine, "opened", lambda name: far)
    path = world.write(simulators=["oracle"], methods=["logits"])
    (record,) = run(world, path).failed
    assert "--allow-remote" in (record.error or "")
    assert not far.asked
    (record,) = run(world, path, allow_remote=True).records
    assert (record.status, record["remote"]) == ("done", True)


def test_a_bank_of_the_simulator_is_built_when_it_is_wanted(world: World) -> None:
    path = world.write(
        simulators=["scripted"],
        banks=[{"name": "own", "path": str(world.folder / "banks/{panel}-{simulator}"), "per_label": 4}],
    )
    (record,) = run(world, path).records
    assert record.done, record.error
    assert record["cell"]["simulator"] == "scripted"
    assert (world.folder / "banks" / "toy-scripted" / "manifest.json").is_file()


def test_an_absent_bank_fails_without_naming_the_machine(world: World) -> None:
    path = world.write(simulators=["s"], banks=[{"name": "own", "path": "$NOWHERE/{panel}-{simulator}"}])
    (record,) = run(world, path).failed
    assert "$NOWHERE/{panel}-{simulator}" in (record.error or "")


def test_out_must_be_a_folder(world: World) -> None:
    world.out.write_text("a file")
    with pytest.raises(BadInput, match="folder"):
        run(world, world.write())
