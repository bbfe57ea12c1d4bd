"""What an artefact finds goes to JSON and back unchanged."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from simdx.experiments.paper.artefact import Figure, Finding, Table, beside, number, plain


def test_a_finding_survives_json() -> None:
    finding = Finding(
        tables=(Table("t", ("a", "b"), (("1", "2"),), "note"),),
        figures=(Figure("f", "<svg/>", "caption"),),
        verdicts=("it holds",),
        n={"oral": 3},
        models=("m",),
        data={"x": np.array([1.0, math.nan]), "y": {"z": np.int64(2)}},
        notes=("left out",),
    )
    written = json.loads(json.dumps(finding.to_json(), allow_nan=False))
    again = Finding.from_json(written)
    assert again.tables == finding.tables
    assert again.figures == finding.figures
    assert again.data == {"x": [1.0, None], "y": {"z": 2}}
    assert again.to_json() == written


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 2 cells"):
        Table("t", ("a", "b"), (("1",),))


def test_cells_say_when_there_is_no_number() -> None:
    assert number(0.8574, [0.8, 0.9]) == "0.857 [0.800, 0.900]"
    assert number(None) == number(math.nan) == "undefined"
    assert beside("0.8", None) == ("0.8", "–")
    assert beside("0.8", 0.75, 2) == ("0.8", "0.75")


def test_plain_leaves_nothing_that_json_cannot_hold() -> None:
    found = plain({1: (np.float32(0.5), math.inf), "b": [np.bool_(True)]})
    assert found == {"1": [0.5, None], "b": [True]}
