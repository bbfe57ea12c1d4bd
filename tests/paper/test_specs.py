"""Specs and the renderer: committed records render whole, and a record that contradicts a claim turns it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.cells import counted, number, placed, ranged
from paper.runner import artefact_list, read_artefacts
from paper.spec import Artefact, Block, Column, Measured, Said, Table, claim, keys, plain, render
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
        assert one["text"].endswith(".")
        assert "nan" not in one["text"].split()
        assert "@" not in one["text"]


# --------------------------------------------------------------------------- claims follow the figures

Data = dict[str, Any]


def _each(rows: Any, **values: Any) -> None:
    for row in rows:
        row.update(values)


def _main(d: Data, holds: bool) -> None:
    for rows in d.values():
        _each((r for r in rows.values() if "own_bank" in r), own_bank_accuracy=float(holds), accuracy=0.5)


def _distribution(d: Data, holds: bool) -> None:
    for rows in d.values():
        _each((r for r in rows if r["method"] == "EF"), d_smc_on_the_same=1.0 if holds else -1.0)


def _calibrated(d: Data, holds: bool) -> None:
    for part in d.values():
        part["rows"]["ABI + TS"]["scores"]["brier"] = 0.0 if holds else 2.0


def _detection(d: Data, holds: bool) -> None:
    for rows in d.values():
        for name, row in rows.items():
            row["error_auroc"] = (0.9 if holds else 0.1) if name == "M-SMC" else 0.5


def _coverage(d: Data, holds: bool) -> None:
    for curves in d.values():
        for curve in curves.values():
            curve["rises"] = 0.5
        curves["M-SMC"]["rises"] = 0.9 if holds else 0.1


def _ternary(d: Data, holds: bool) -> None:
    d["gaps"]["out of class"] = {"value": 0.2, "ci": [0.1, 0.3] if holds else [-0.1, 0.3]}


def _significance(d: Data, holds: bool) -> None:
    for part in d.values():
        for row in part["differences"].values():
            row["ece"]["ci"] = [0.1, 0.2] if holds else [-0.2, -0.1]


def _strata(d: Data, holds: bool) -> None:
    for methods in d.values():
        for bands in methods.values():
            for band, value in zip(("high", "medium", "low"), (0.9, 0.6, 0.3), strict=True):
                bands[band] |= {
                    "n": 50,
                    "ci": None,
                    "entropy_bits": 1.0,
                    "accuracy": value if holds else 1 - value,
                }


def _outside(d: Data, holds: bool) -> None:
    for rows in d.values():
        rows[0]["outside"] = 9.0 if holds else 0.0


def _capabilities(d: Data, holds: bool) -> None:
    for one in d.values():
        one["posterior_over_simplex"] = not holds


def _dynamics(d: Data, holds: bool) -> None:
    for two in d["panels"].values():
        steps = two["d-smc"]["steps"]
        steps[0]["p_true_ci"], steps[-1]["p_true_ci"] = [0.3, 0.4], ([0.6, 0.7] if holds else [0.3, 0.4])


def _structure(d: Data, holds: bool) -> None:
    first = d["oral-lesions"]["errors"]["M-SMC"]
    first["confusions"][0]["n"] = first["errors"] if holds else 1


def _cosine(d: Data, holds: bool) -> None:
    for gap in d["d_smc_minus_cosine"].values():
        gap["accuracy"]["p"] = 0.5 if holds else 0.001


def _temperature(d: Data, holds: bool) -> None:
    for series in d["series"]:
        for i, point in enumerate(series["points"]):
            point["ece"] = {"value": 0.5 - 0.1 * i if holds else 0.1 + 0.1 * i, "ci": None}


def _post_hoc(d: Data, holds: bool) -> None:
    for blocks in d.values():
        for block in (b for b in blocks if "ML" in b["rows"]):
            block["rows"]["M-SMC"]["scores"]["accuracy"] = 1.0 if holds else 0.0


def _itself(d: Data, holds: bool) -> None:
    if holds:
        d["ece"] = []


CLAIMS: dict[str, tuple[Callable[[Data, bool], None], str]] = {
    "main-results": (_main, "right more often than asking"),
    "distribution-aware": (_distribution, "D-SMC is right in"),
    "calibrated-embedding": (_calibrated, "Brier score than centroid"),
    "error-detection": (_detection, "better than asking by error AUROC"),
    "risk-coverage": (_coverage, "the least orderly way of asking"),
    "ternary": (_ternary, "out-of-class case lies nearer"),
    "significance": (_significance, "lower than that of asking"),
    "entropy-strata": (_strata, "where certainty is high"),
    "out-of-class": (_outside, "asked directly"),
    "capabilities": (_capabilities, "every capability"),
    "smc-dynamics": (_dynamics, "refinement"),
    "error-structure": (_structure, "oral-lesions: M-SMC makes"),
    "cosine-ablation": (_cosine, "answer differently"),
    "temperature-ablation": (_temperature, "the lowest temperature is"),
    "post-hoc-calibration": (_post_hoc, "without labels is"),
    "against-itself": (_itself, "print an ECE below"),
}


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_a_record_that_contradicts_a_claim_turns_it(name: str) -> None:
    force, about = CLAIMS[name]
    texts = {}
    for holds in (True, False):
        found = deepcopy(RECORDS[name]["finding"])
        force(found["data"], holds)
        said = [v for v in render(artefact_list()[name], found)["verdicts"] if about in v["text"]]
        assert said
        assert {one["holds"] for one in said} == {holds}
        texts[holds] = [one["text"] for one in said]
    assert not set(texts[True]) & set(texts[False])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
def test_wins_over_asking_are_counted_from_the_record(pairs: list[tuple[float, float]]) -> None:
    rows = deepcopy(RECORDS["main-results"]["finding"]["data"]["oral-lesions"])
    asked = [row for row in rows.values() if "own_bank" in row]
    for (own, theirs), row in zip(pairs, asked, strict=False):
        row |= {"own_bank_accuracy": own, "accuracy": theirs}
    wins = sum(row["own_bank_accuracy"] > row["accuracy"] for row in asked)
    first = next(iter(artefact_list()["main-results"].claims(Block("oral-lesions", rows, {}))))
    assert isinstance(first, Said)
    assert counted(wins, len(asked), "comparisons") in first.text
    assert first.holds == (2 * wins > len(asked))
    assert ("unlike the paper" in first.text) != first.holds


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
        claims=lambda b: [claim(b.d["what"] == "x", f"{b.panel}: so it is, @.")],
    )
    found = Measured({"sd": {"what": "x"}}, {"sd": 3}).to_json()
    shown = render(spec, found)
    (table,) = shown["tables"]
    assert table["title"] == "sd: x"
    assert table["columns"] == ["name", "N", "ECE", "ECE, paper"]
    assert table["rows"][0][:3] == ["one", "–", "0.1"]
    assert table["rows"][0][3].endswith("†")
    assert table["note"].startswith("Note. † ")
    assert shown["verdicts"] == [{"text": "sd: so it is, as in the paper.", "holds": True}]
    assert Block("sd", [], {}).words["theirs"] == ""


def test_cells_say_when_there_is_no_number() -> None:
    assert number(0.8574, [0.8, 0.9]) == "0.857 [0.800, 0.900]"
    assert number(None) == number(math.nan) == ranged([None]) == "undefined"
    assert [placed([0.4, 0.6], x) for x in (0.3, 0.5, 0.7)] == ["below", "inside", "above"]
    assert placed(None, 0.5) == "unknown"


def test_plain_leaves_nothing_that_json_cannot_hold() -> None:
    found = plain({1: (np.float32(0.5), math.inf), "b": [np.bool_(True)], "c": np.array([1.0, math.nan])})
    assert found == {"1": [0.5, None], "b": [True], "c": [1.0, None]}
