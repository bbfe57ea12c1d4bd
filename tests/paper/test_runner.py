"""Artefacts run in turn: a record each, failures on record, what stands is not run again; and the command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.artefacts import ARTEFACTS, Artefact, chosen, read_artefacts, run_artefacts
from paper.context import Context, Measured
from simdx.errors import BadInput, RunFailed
from simdx.runs import NotRun
from tests.conftest import shared_data
from tests.paper.conftest import PANEL, small_context


@pytest.fixture
def small(tmp_path: Path) -> Context:
    return small_context(tmp_path / "out", tmp_path, tmp_path)


def _artefact(name: str, measure: Callable[[Context], Measured]) -> Artefact:
    return Artefact(name, name.title(), measure, lambda _: {})


def _finds(context: Context) -> Measured:
    return Measured({"so": "it is"}, context.n)


def test_every_ending_is_on_record(small: Context) -> None:
    def raises(problem: Exception) -> Callable[[Context], Measured]:
        def measure(_: Context) -> Measured:
            raise problem

        return measure

    every = [
        _artefact("good", _finds),
        _artefact("broken", raises(KeyError("a patient of 54 years"))),
        _artefact("failing", raises(RunFailed("the disk is full"))),
        _artefact("absent", raises(NotRun("there is no pair of weights"))),
    ]
    records = run_artefacts(every, small)
    assert [r.status for r in records] == ["done", "failed", "failed", "not run"]
    assert records[0]["finding"]["data"] == {"so": "it is"}
    assert "KeyError at test_runner.py" in (records[1].error or "")
    assert "patient" not in records[1].dumps()
    assert (records[2].error, records[3].error) == ("the disk is full", "there is no pair of weights")
    assert small.store.records() == sorted(records, key=lambda r: r.name)
    assert records[0].hashes[PANEL]["data"]
    assert records[0]["config"]["scale"] == "smoke"


def test_what_stands_is_kept_until_it_failed_or_what_it_rests_on_changed(
    small: Context, tmp_path: Path
) -> None:
    calls = []

    def counts(context: Context) -> Measured:
        calls.append(1)
        if len(calls) == 1:
            raise RunFailed("not yet")
        return _finds(context)

    artefact = _artefact("counted", counts)
    statuses = [run_artefacts([artefact], small)[0].status for _ in range(3)]
    assert (statuses, len(calls)) == (["failed", "done", "done"], 2)
    # other records of asking
    cells = tmp_path / "asking-x" / "cells"
    cells.mkdir(parents=True)
    (cells / "a.json").write_text("{}", encoding="utf-8")
    run_artefacts([artefact], small_context(small.out, tmp_path, tmp_path))
    assert len(calls) == 3


def test_a_record_with_a_panel_that_is_not_at_hand_is_kept(small: Context) -> None:
    artefact = _artefact("wide", _finds)
    run_artefacts([artefact], small)
    small.skipped[PANEL] = "its cases are away"
    with pytest.raises(BadInput, match=f"wide with {PANEL}, which cannot be read now"):
        run_artefacts([artefact], small)
    assert [r.status for r in run_artefacts([_artefact("other", _finds)], small)] == ["done"]


def test_a_new_edition_is_measured_again_and_an_old_record_is_not_shown(
    small: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _artefact("counted", _finds)
    run_artefacts([first], small)
    monkeypatch.setattr("paper.artefacts.ARTEFACTS", (first._replace(edition=2),))
    assert read_artefacts(small.out) == []
    run_artefacts([first._replace(edition=2)], small)
    assert [record.name for record in read_artefacts(small.out)] == ["counted"]


def test_every_table_and_figure_of_the_paper_is_there() -> None:
    titles = " ".join(one.title for one in ARTEFACTS)
    tables = [*(f"Table {i}" for i in range(1, 5)), *(f"S{i}" for i in range(1, 21))]
    places = [*tables, "Figure 2a", "Figure 2b", "Algorithm 1", "Appendix F"]
    assert not [place for place in places if place not in titles]
    assert len({one.name for one in ARTEFACTS}) == len(ARTEFACTS)
    assert [one.name for one in chosen("risk-coverage, main-results")] == ["main-results", "risk-coverage"]


def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "file", tmp_path / "empty"
    file.write_text("x", encoding="utf-8")
    folder.mkdir()
    for args, words in (
        (["run", "--out", str(folder), "--only", "nothing"], "no artefact 'nothing'"),
        (["run", "--out", str(folder), "--only", " , "], "names no artefact"),
        (["run", "--out", str(folder), "--scale", "huge"], "choose smoke or full"),
        (["run", "--out", str(folder), "--panels", "nonsense"], "unknown panel 'nonsense'"),
        (["run", "--out", str(file)], "is a file"),
        (["report", str(folder)], "holds no records"),
        (["run"], "--out"),
        (["nonsense"], "nonsense"),
    ):
        assert main(args) == 2, args
        said = capsys.readouterr().err
        assert words in said
        assert len(said.strip().splitlines()) == 1
    with pytest.raises(BadInput, match="is a file"):
        run_artefacts([], small_context(file, tmp_path, tmp_path))


def test_one_artefact_from_run_to_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SIMDX_DATA", raising=False)
    monkeypatch.setenv("SIMDX_ASKING", str(tmp_path / "none"))
    monkeypatch.setenv("SIMDX_BANKS", str(tmp_path / "none"))
    # Without records a smoke run asks the small model; here there is none to ask.
    monkeypatch.setattr("paper.context.asked_directly", lambda *_: ())
    out = tmp_path / "out"
    assert main(["run", "--scale", "smoke", "--only", "entropy-strata", "--out", str(out)]) == 0
    assert "entropy-strata: done" in capsys.readouterr().err
    assert main(["report", str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "accuracy by band of entropy" in page
    assert "SIMDX_DATA" in page  # what was left out, and why
    assert (out / "tables" / "entropy-strata-1.csv").is_file()


@pytest.mark.slow
def test_the_whole_smoke_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every artefact on the embedded models: none may fail, and a second run has nothing to do."""
    # Whatever records and banks the checkout holds, the small model is asked here.
    monkeypatch.setenv("SIMDX_ASKING", str(tmp_path / "none"))
    monkeypatch.setenv("SIMDX_BANKS", str(tmp_path / "none"))
    data = shared_data()
    if data is not None:
        monkeypatch.setenv("SIMDX_DATA", str(data))
    out = tmp_path / "out"
    args = ["run", "--scale", "smoke", "--out", str(out)]
    assert main(args) == 0
    records = read_artefacts(out)
    assert [r.name for r in records] == [one.name for one in ARTEFACTS]
    assert all(r.status in ("done", "not run") for r in records)
    written = {p: p.stat().st_mtime_ns for p in (out / "artefacts").glob("*.json")}
    assert main(args) == 0
    assert written == {p: p.stat().st_mtime_ns for p in (out / "artefacts").glob("*.json")}
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").stat().st_size > 50_000
