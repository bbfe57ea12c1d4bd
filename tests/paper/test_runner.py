"""Artefacts run in turn: a record each, failures on record, what stands is not run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from simdx.errors import BadInput, RunFailed
from simdx.experiments.paper.artefact import Finding, NotRun, Table
from simdx.experiments.paper.catalogue import Artefact, artefact_list, chosen
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.runner import read_artefact, read_artefacts, run_artefacts
from tests.experiments.paper.conftest import PANEL, SMALL

MODULE = "simdx.experiments.paper.artefacts.main_results"


@pytest.fixture
def small(tmp_path: Path) -> Context:
    return Context("smoke", tmp_path / "out", panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)


def _artefact(name: str, run: Callable[[Context], Finding], order: int = 1) -> Artefact:
    return Artefact(name, name.title(), MODULE, order, run)


def _finds(context: Context) -> Finding:
    return Finding((Table("t", ("a",), (("1",),)),), verdicts=("so it is",), n=context.n)


def test_every_ending_is_on_record(small: Context) -> None:
    def breaks(_: Context) -> Finding:
        raise KeyError("a patient of 54 years")

    def fails(_: Context) -> Finding:
        raise RunFailed("the disk is full")

    def absent(_: Context) -> Finding:
        raise NotRun("there is no pair of weights")

    every = [
        _artefact("good", _finds, 4),
        _artefact("broken", breaks, 3),
        _artefact("failing", fails, 2),
        _artefact("absent", absent, 1),
    ]
    records = run_artefacts(every, small)
    assert [r["status"] for r in records] == ["done", "failed", "failed", "not run"]
    assert records[0]["finding"]["verdicts"] == ["so it is"]
    assert "KeyError" in records[1]["error"]
    assert "patient" not in json.dumps(records[1])
    assert records[2]["error"] == "the disk is full"
    assert records[3]["error"] == "there is no pair of weights"
    assert [r["artefact"] for r in read_artefacts(small.out)] == ["absent", "failing", "broken", "good"]
    assert records[0]["hashes"][PANEL]["data"]
    assert records[0]["config"]["scale"] == "smoke"


def test_what_stands_is_kept_and_what_failed_is_tried_again(small: Context) -> None:
    calls = []

    def counts(context: Context) -> Finding:
        calls.append(1)
        if len(calls) == 1:
            raise RunFailed("not yet")
        return _finds(context)

    artefact = _artefact("counted", counts)
    assert run_artefacts([artefact], small)[0]["status"] == "failed"
    assert run_artefacts([artefact], small)[0]["status"] == "done"
    assert run_artefacts([artefact], small)[0]["status"] == "done"
    assert len(calls) == 2


def test_other_records_of_asking_make_it_run_again(small: Context, tmp_path: Path) -> None:
    calls = []

    def counts(context: Context) -> Finding:
        calls.append(1)
        return _finds(context)

    artefact = _artefact("counted", counts)
    run_artefacts([artefact], small)
    cells = tmp_path / "asking-x" / "cells"
    cells.mkdir(parents=True)
    (cells / "a.json").write_text("{}", encoding="utf-8")
    later = Context("smoke", small.out, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    run_artefacts([artefact], later)
    assert len(calls) == 2


def test_a_damaged_record_is_no_record(small: Context) -> None:
    run_artefacts([_artefact("good", _finds)], small)
    path = small.out / "artefacts" / "good.json"
    whole = path.read_text(encoding="utf-8")
    for damaged in ("{", whole.replace("so it is", "so it is not")):
        path.write_text(damaged, encoding="utf-8")
        assert read_artefact(small.out, "good") is None
    assert run_artefacts([_artefact("good", _finds)], small)[0]["status"] == "done"


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    context = Context("smoke", file, panels=(PANEL,), size=SMALL, banks=tmp_path, asking=tmp_path)
    with pytest.raises(BadInput, match="is a file"):
        run_artefacts([], context)


def test_every_artefact_has_a_title_and_a_place() -> None:
    known = artefact_list()
    assert len(known) >= 11
    assert all(one.title and not one.title.endswith(".") for one in known.values())
    assert [one.order for one in known.values()] == sorted(one.order for one in known.values())


def test_artefacts_are_chosen_by_name() -> None:
    assert [one.name for one in chosen("risk-coverage, main-results")] == ["main-results", "risk-coverage"]
    with pytest.raises(BadInput, match="no artefact 'nothing'"):
        chosen("nothing")
    with pytest.raises(BadInput, match="names no artefact"):
        chosen(" , ")
