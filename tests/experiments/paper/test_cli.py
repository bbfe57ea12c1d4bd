"""`simdx experiment run paper` and `simdx report`: the command line's part, and the whole smoke run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simdx.cli.main import run
from simdx.cli.report import _page
from simdx.experiments.paper.catalogue import artefact_list
from simdx.experiments.paper.runner import read_artefacts
from simdx.report.paper import paper_markdown
from tests.conftest import ROOT, shared_data

RESULTS = ROOT / "results" / "paper"


def _exit(*args: str) -> int:
    with pytest.raises(SystemExit) as ending:
        run(list(args))
    return int(ending.value.code or 0)


def test_an_unknown_artefact_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit("experiment", "run", "paper", "--only", "nothing") == 2
    assert "there is no artefact 'nothing'" in capsys.readouterr().err


def test_only_belongs_to_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit("experiment", "run", "embedding-baselines", "--only", "main-results") == 2
    assert "--only" in capsys.readouterr().err


def test_the_list_names_the_artefacts(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit("experiment", "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert "paper" in [e["name"] for e in listed["experiments"]]
    assert [a["name"] for a in listed["paper"]] == list(artefact_list())


def test_a_folder_without_records_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit("report", str(tmp_path)) == 2
    assert "holds no records" in capsys.readouterr().err


def test_a_grid_has_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The committed baselines: a row per cell, intervals, and nothing asked of any host."""
    page, tables = tmp_path / "page.html", tmp_path / "tables.md"
    folder = ROOT / "results" / "baselines" / "embedding"
    assert _exit("report", str(folder), "--out", str(page), "--markdown", str(tables), "--json") == 0
    rows = json.loads(capsys.readouterr().out)["records"]
    assert len(rows) == len(list((folder / "cells").glob("*.json")))
    text = page.read_text(encoding="utf-8")
    assert "case-reports" in text
    assert "<script" not in text
    shown = rows[0]["accuracy"]
    assert f"{shown:.3f} [" in text
    assert f"{shown:.3f} [" in tables.read_text(encoding="utf-8")


def test_one_artefact_from_run_to_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SIMDX_DATA", raising=False)
    monkeypatch.setenv("SIMDX_ASKING", str(tmp_path / "none"))
    monkeypatch.setenv("SIMDX_BANKS", str(tmp_path / "none"))
    # Without records a smoke run asks the small model; here there is none to ask.
    monkeypatch.setattr("simdx.experiments.paper.context.asked_directly", lambda *_: ())
    out = tmp_path / "out"
    args = ("experiment", "run", "paper", "--scale", "smoke", "--only", "entropy-strata", "--out", str(out))
    assert _exit(*args, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["status"] for row in said["artefacts"]] == ["done"]
    assert _exit("report", str(out), "--out", str(tmp_path / "page.html"), "--json") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Accuracy by band of entropy" in page
    assert "SIMDX_DATA" in page  # what was left out, and why
    assert "| method |" in (out / "report.md").read_text(encoding="utf-8")


def test_results_md_is_what_the_records_say() -> None:
    document = ROOT / "docs" / "results.md"
    records = read_artefacts(RESULTS)
    assert document.is_file() == bool(records)
    if records:
        command = "simdx report results/paper --markdown docs/results.md"
        wanted = paper_markdown(records, "results/paper", command)
        assert document.read_text(encoding="utf-8") == wanted, f"out of date: run '{command}'"


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
    args = ("experiment", "run", "paper", "--scale", "smoke", "--out", str(out))
    assert _exit(*args) == 0
    records = read_artefacts(out)
    assert {r["artefact"] for r in records} == set(artefact_list())
    assert all(r["status"] in ("done", "not run") for r in records)
    done = [r for r in records if r["status"] == "done"]
    assert all(r["finding"]["tables"] and r["finding"]["verdicts"] for r in done)
    written = {p: p.stat().st_mtime_ns for p in (out / "artefacts").glob("*.json")}
    assert _exit(*args) == 0
    assert written == {p: p.stat().st_mtime_ns for p in (out / "artefacts").glob("*.json")}
    assert _exit("report", str(out)) == 0
    assert (out / "report.html").stat().st_size > 50_000


def test_the_page_goes_where_it_was_sent(tmp_path: Path) -> None:
    assert _page(tmp_path) == tmp_path / "report.html"
    assert _page(tmp_path / "mine") == tmp_path / "mine.html"
    assert _page(tmp_path / "mine.htm") == tmp_path / "mine.htm"
