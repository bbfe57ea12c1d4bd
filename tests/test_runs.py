"""The one runner: what stands, what is made again, how it fails, and the one layout of a record."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx import runs
from simdx.errors import RunFailed
from simdx.methods import fitted
from simdx.runs import NotRun, Record, Result, Spec, Store, fail, identity, run


class Cases:
    """Data whose content is a word."""

    def __init__(self, content: str) -> None:
        self.hashes = {"data": content}


def counting(calls: list[str], name: str = "one", **settings: Any) -> Spec[Cases]:
    def measure(data: Cases) -> Result:
        calls.append(data.hashes["data"])
        return Result(
            {"metrics": {"ece": 0.125}}, {"id": ["a", "ü"], "p": [0.25, 0.75]}, {"fit_seconds": 0.5}
        )

    return Spec("toy", name, settings or {"seed": 0}, measure)


def test_a_result_stands_while_inputs_settings_and_recipe_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = Store(tmp_path), []
    first = run(counting(calls), Cases("x"), store)
    assert (first.status, first["metrics"], first["seed"]) == ("done", {"ece": 0.125}, 0)
    assert first.cost.keys() == {"started", "seconds", "fit_seconds"}
    # Another version or commit of the same recipe changes nothing, nor does a word in the source.
    monkeypatch.setattr(runs, "versions", lambda: {"simdx": "9.9", "commit": "0123456789ab"})
    assert run(counting(calls), Cases("x"), store) == first
    assert len(calls) == 1
    run(counting(calls), Cases("y"), store)
    run(counting(calls, seed=1), Cases("y"), store)
    monkeypatch.setattr(fitted, "RECIPE_VERSION", fitted.RECIPE_VERSION + 1)
    run(counting(calls, seed=1), Cases("y"), store)
    run(counting(calls, seed=1), Cases("y"), store)
    assert len(calls) == 4
    run(counting(calls, seed=1), Cases("y"), store, fresh=True)
    assert len(calls) == 5


def test_identity_does_not_depend_on_the_order_of_keys() -> None:
    assert identity({"a": 1, "b": 2}, {}) == identity({"b": 2, "a": 1}, {})
    assert len({identity({"a": 1}, {}), identity({}, {"a": 1}), identity({"a": "1"}, {})}) == 3


def test_a_failure_is_on_record_and_quotes_nothing(tmp_path: Path) -> None:
    store, calls = Store(tmp_path), []
    try:
        raise KeyError("words of a patient")
    except KeyError as problem:
        failed = fail(counting(calls), problem, store)
    assert store.read("one") == failed
    assert failed.error.startswith("failed with KeyError at test_runs.py:")
    assert "patient" not in failed.dumps()
    assert fail(counting(calls, name="two"), RunFailed("the disk is full"), store).error == "the disk is full"
    assert run(counting(calls), Cases("x"), store).done  # and does not stand


def test_what_cannot_be_had_is_no_failure_and_stands(tmp_path: Path) -> None:
    asked: list[int] = []

    def measure(_: Cases) -> Result:
        asked.append(1)
        raise NotRun("there is no pair of weights")

    spec = Spec("toy", "one", {"seed": 0}, measure)
    for _ in range(2):
        found = run(spec, Cases("x"), Store(tmp_path))
        assert (found.status, found.error) == ("not run", "there is no pair of weights")
    assert len(asked) == 1


def test_one_flat_layout_that_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    found = run(counting([]), Cases("x"), store)
    written = json.loads((tmp_path / "cells" / "one.json").read_text("utf-8"))
    assert written["metrics"] == {"ece": 0.125}
    assert written.keys() == found.to_json().keys() | {"seal"}
    assert store.records() == [found]
    with pytest.raises(ValueError, match="'status' of its own"):
        Record("one", "done", {"status": "mine"}).dumps()


def test_without_a_folder_nothing_is_kept() -> None:
    store, calls = Store(None), []
    for _ in range(2):
        assert run(counting(calls), Cases("x"), store).done
        arrays = store.answers("key", ["a", "b"], lambda texts: {"n": np.arange(float(len(texts)))})
    assert len(calls) == 2
    assert arrays["n"].tolist() == [0, 1]
    assert store.records() == []
