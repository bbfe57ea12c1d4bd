"""`simdx experiment` as people type it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, cli
from tests.conftest import ROOT
from tests.experiments.conftest import World

__all__ = ["cli"]


def test_list_names_what_ships(cli: Cli) -> None:
    listed = cli("experiment", "list", "--json").json["experiments"]
    assert {"name", "title"} == set(listed[0])
    assert "asking-smollm2" in cli("experiment", "list").out


def test_run_a_file_and_go_on(cli: Cli, world: World) -> None:
    path = world.write(methods=["m-smc", "tfidf"])
    first = cli("experiment", "run", path, "--out", world.out, "--json").json
    assert [row["status"] for row in first["rows"]] == ["done", "done"]
    assert first["resumed"] == 0
    again = cli("experiment", "run", path, "--out", world.out)
    assert again.code == 0
    assert "2 of 2 cells are done already" in again.err
    assert "| tfidf |" in again.out


def test_dry_run_prints_the_plan_and_writes_nothing(cli: Cli, world: World) -> None:
    simulator = {"name": "scripted", "reading": 100, "writing": 10, "prompt_price": 1, "completion_price": 2}
    path = world.write(simulators=[simulator], methods=["auto", "ensemble"])
    plan = cli("experiment", "run", path, "--out", world.out, "--dry-run", "--json").json
    assert [cell["state"] for cell in plan["cells"]] == ["run", "run"]
    assert plan["total"]["calls"] == 18 * 8
    asked = plan["cells"][1]
    assert asked["seconds"] == asked["prompt_tokens"] / 100 + asked["completion_tokens"] / 10
    assert asked["price"] == (asked["prompt_tokens"] + 2 * asked["completion_tokens"]) / 1e6
    assert not world.out.exists()
    assert "144 calls at most" in cli("experiment", "run", path, "--out", world.out, "--dry-run").out


def test_a_plan_leaves_out_what_was_answered(cli: Cli, world: World) -> None:
    # Phrases are no letters: unreadable replies are replies too and are not asked for again.
    path = world.write(simulators=["scripted"], methods=[{"method": "ensemble", "budget": 2}])
    cli("experiment", "run", path, "--out", world.out)
    larger = world.write(simulators=["scripted"], methods=[{"method": "ensemble", "budget": 3}])
    ran = cli("experiment", "run", larger, "--out", world.out, "--dry-run", "--json")
    assert ran.json["total"]["calls"] == 18


def test_a_failed_cell_ends_with_1_and_its_record(cli: Cli, world: World) -> None:
    ran = cli("experiment", "run", world.write(methods=["m-smc", "nonsense"]), "--out", world.out)
    assert ran.code == 1
    assert "1 of 2 cells failed" in ran.err.splitlines()[-1]
    assert len(json.loads((world.out / "summary.json").read_text())["rows"]) == 2


def test_bad_input(cli: Cli, world: World) -> None:
    unknown = cli("experiment", "run", "nonsense").complaint
    assert "unknown experiment" in unknown
    assert "embedding-baselines" in unknown
    assert "smoke or full" in cli("experiment", "run", "asking-qwen", "--scale", "huge").complaint
    assert "--workers" in cli("experiment", "run", world.write(), "--workers", "0").complaint
    assert "methods" in cli("experiment", "run", world.write(methods=[])).complaint


def test_the_paper_is_run_elsewhere_and_one_line_says_where(cli: Cli, tmp_path: Path) -> None:
    said = cli("experiment", "run", "paper", "--scale", "smoke", "--out", tmp_path / "out").complaint
    assert "make paper-smoke" in said
    assert not (tmp_path / "out").exists()
    assert "python -m paper report" in cli("report", ROOT / "results" / "paper").complaint
    assert "holds no records" in cli("report", tmp_path).complaint


@pytest.mark.parametrize(
    ("out", "page"), [("", "report.html"), ("mine", "mine.html"), ("mine.htm", "mine.htm")]
)
def test_a_grid_has_a_page_that_goes_where_it_was_sent(cli: Cli, tmp_path: Path, out: str, page: str) -> None:
    """The committed baselines: a row per cell, intervals, and nothing asked of any host."""
    folder, tables = ROOT / "results" / "baselines" / "embedding", tmp_path / "tables.md"
    ran = cli("report", folder, "--out", tmp_path / out, "--markdown", tables, "--json")
    rows = ran.json["records"]
    assert len(rows) == len(list((folder / "cells").glob("*.json")))
    text = (tmp_path / page).read_text(encoding="utf-8")
    assert "case-reports" in text
    assert "<script" not in text
    shown = f"{rows[0]['accuracy']:.3f} ["
    assert shown in text
    assert shown in tables.read_text(encoding="utf-8")
