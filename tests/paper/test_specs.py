"""Specs and the renderer: committed records render whole."""

import json
import math
from typing import Any

import numpy as np
import pytest

from paper.cells import number, placed, ranged
from paper.runner import artefact_list, read_artefacts
from paper.spec import Artefact, Block, Column, Measured, Table, keys, plain, render
from paper.theirs import quote
from tests.conftest import ROOT

RECORDS = {r.name: r for r in read_artefacts(ROOT / "results" / "paper")}
DONE = sorted(name for name, record in RECORDS.items() if record.done)


def test_every_artefact_is_on_record() -> None:
    assert set(RECORDS) == set(artefact_list())
    assert len(DONE) >= 23


@pytest.mark.parametrize("name", DONE)
def test_a_record_renders_whole(name: str) -> None:
    shown = render(artefact_list()[name], RECORDS[name]["finding"])
    json.dumps(shown, allow_nan=False)
    assert shown["tables"]
    assert shown["verdicts"]
    for table in shown["tables"]:
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
    for figure in shown["figures"]:
        assert figure["svg"].startswith("<svg")
        assert figure["svg"].endswith("</svg>")
        assert "nan" not in figure["svg"]
        assert figure["caption"].endswith(".")
    for one in shown["verdicts"]:
        assert one.endswith(".")
        assert "nan" not in one.split()
        assert "as in the paper" not in one


def put(node: Any, path: str, value: Any) -> None:
    """Set what a path leads to, wherever it is there; `*` is every item."""
    step, _, rest = path.partition("/")
    known = list(node) if isinstance(node, dict) else range(-len(node), len(node))
    for key in known if step == "*" else [step if isinstance(node, dict) else int(step)]:
        if rest and key in known:
            put(node[key], rest, value)
        elif key in known:
            node[key] = value


# --------------------------------------------------------------------------- the renderer


def test_the_paper_s_figure_stands_beside_ours_with_its_doubts() -> None:
    impossible = quote("main-results", "ece", data="sd", method="M-SMC")
    assert impossible is not None
    spec = Artefact(
        title="t",
        order=1,
        measure=lambda context: Measured({}, {}),
        tables=(
            Table(
                "{panel}: {what}",
                lambda b: [{"name": "one", "n": None}],
                (*keys("name | N=n"), Column("ECE", lambda row: "0.1", lambda row: impossible)),
                "Note.",
            ),
        ),
        claims=lambda b: [f"{b.panel}: so it is."],
    )
    found = Measured({"sd": {"what": "x"}}, {"sd": 3}).to_json()
    shown = render(spec, found)
    (table,) = shown["tables"]
    assert (table["title"], table["columns"]) == ("sd: x", ["name", "N", "ECE", "ECE, paper"])
    assert table["rows"][0][:3] == ["one", "–", "0.1"]
    assert table["rows"][0][3].endswith("†")
    assert table["note"].startswith("Note. † ")
    assert shown["verdicts"] == ["sd: so it is."]
    assert Block("sd", [], {}).words["theirs"] == ""


def test_cells_say_when_there_is_no_number() -> None:
    assert number(0.8574, [0.8, 0.9]) == "0.857 [0.800, 0.900]"
    assert number(None) == number(math.nan) == ranged([None]) == "undefined"
    assert [placed([0.4, 0.6], x) for x in (0.3, 0.5, 0.7)] == ["below", "inside", "above"]
    assert placed(None, 0.5) == "unknown"


def test_plain_leaves_nothing_that_json_cannot_hold() -> None:
    found = plain({1: (np.float32(0.5), math.inf), "b": [np.bool_(True)], "c": np.array([1.0, math.nan])})
    assert found == {"1": [0.5, None], "b": [True], "c": [1.0, None]}


@pytest.mark.parametrize("name", sorted(artefact_list()))
def test_an_artefact_is_a_spec_of_sixty_lines_at_most(name: str) -> None:
    path = ROOT / "paper" / "artefacts" / f"{name.replace('-', '_')}.py"
    assert len(path.read_text("utf-8").splitlines()) <= 60
