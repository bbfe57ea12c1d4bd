"""Specs and the renderer: committed records render whole, and a record that contradicts a claim turns it."""

from __future__ import annotations

import json
import math
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

# artefact -> words of the claim, and what is put where to make it hold, or fail; None leaves it as it is
CLAIMS: dict[str, tuple[str, dict[str, tuple[Any, Any]]]] = {
    "main-results": (
        "right more often than asking",
        {"*/*/own_bank_accuracy": (1.0, 0.0), "*/*/accuracy": (0.5, 0.5)},
    ),
    "distribution-aware": ("D-SMC is right in", {"*/*/d_smc_on_the_same": (1.0, -1.0)}),
    "calibrated-embedding": ("Brier score than centroid", {"*/rows/ABI + TS/scores/brier": (0.0, 2.0)}),
    "error-detection": (
        "better than asking by error AUROC",
        {"*/*/error_auroc": (0.5, 0.5), "*/M-SMC/error_auroc": (0.9, 0.1)},
    ),
    "risk-coverage": (
        "the least orderly way of asking",
        {"*/*/rises": (0.5, 0.5), "*/M-SMC/rises": (0.9, 0.1)},
    ),
    "ternary": ("out-of-class case lies nearer", {"gaps/out of class/ci": ([0.1, 0.3], [-0.1, 0.3])}),
    "significance": (
        "lower than that of asking",
        {"*/differences/*/ece/ci": ([0.1, 0.2], [-0.2, -0.1])},
    ),
    "entropy-strata": (
        "where certainty is high",
        {
            "*/*/*/n": (50, 50),
            "*/*/*/ci": ([0, 1], [0, 1]),
            "*/*/*/entropy_bits": (1.0, 1.0),
            "*/*/high/accuracy": (0.9, 0.1),
            "*/*/medium/accuracy": (0.6, 0.4),
            "*/*/low/accuracy": (0.3, 0.7),
        },
    ),
    "out-of-class": ("asked directly", {"*/0/outside": (9.0, 0.0)}),
    "capabilities": ("every capability", {"*/posterior_over_simplex": (False, True)}),
    "smc-dynamics": (
        "refinement",
        {
            "panels/*/d-smc/steps/0/p_true_ci": ([0.3, 0.4], [0.3, 0.4]),
            "panels/*/d-smc/steps/-1/p_true_ci": ([0.6, 0.7], [0.3, 0.4]),
        },
    ),
    "error-structure": (
        "oral-lesions: M-SMC makes",
        {"oral-lesions/errors/M-SMC/errors": (9, 9), "oral-lesions/errors/M-SMC/confusions/0/n": (9, 1)},
    ),
    "cosine-ablation": ("answer differently", {"d_smc_minus_cosine/*/accuracy/p": (0.5, 0.001)}),
    "temperature-ablation": (
        "the lowest temperature is",
        {"series/*/points/*/ece/value": (0.1, 0.1), "series/*/points/0/ece/value": (0.5, 0.0)},
    ),
    "post-hoc-calibration": ("without labels is", {"*/*/rows/M-SMC/scores/accuracy": (1.0, 0.0)}),
    "against-itself": ("print an ECE below", {"ece": ([], None)}),
}


def put(node: Any, path: str, value: Any) -> None:
    """Set what a path leads to, wherever it is there; `*` is every item."""
    step, _, rest = path.partition("/")
    known = list(node) if isinstance(node, dict) else range(-len(node), len(node))
    for key in known if step == "*" else [step if isinstance(node, dict) else int(step)]:
        if rest and key in known:
            put(node[key], rest, value)
        elif key in known:
            node[key] = value


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_a_record_that_contradicts_a_claim_turns_it(name: str) -> None:
    about, places = CLAIMS[name]
    texts = {}
    for holds in (True, False):
        found = deepcopy(RECORDS[name]["finding"])
        for path, values in places.items():
            if (value := values[not holds]) is not None:
                put(found["data"], path, value)
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
