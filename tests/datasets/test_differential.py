"""Reference differentials of a data file."""

import json
from typing import Any

import numpy as np
import pytest

from simdx.datasets import Dataset
from simdx.datasets.differential import differentials
from simdx.errors import BadInput
from simdx.types import Case

LABELS = ("cold", "flu")


def data(*values: Any) -> Dataset:
    fields = ({} if v is None else {"differential": v} for v in values)
    return Dataset("mine", tuple(Case("words", str(i), "cold", f) for i, f in enumerate(fields)), LABELS)


def test_the_panel_and_what_is_outside() -> None:
    found = differentials(data(None, [["flu", 0.5], ["gout", 0.2], [" cold ", 0.2], ["mumps", 0.1]]), LABELS)
    assert found.cases.tolist() == [1]
    np.testing.assert_allclose(found.inside, [[0.2, 0.5]])
    np.testing.assert_allclose(found.outside, [0.3])


def test_a_table_has_it_as_json_and_rounded_figures_are_scaled() -> None:
    found = differentials(data(json.dumps([["flu", 0.6], ["cold", 0.3996]])), LABELS)
    assert found.inside.sum() == pytest.approx(1)


def test_none_where_no_case_has_one() -> None:
    assert differentials(data(None, None), LABELS) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("flu or cold", "not a list"),
        ([], "not a list"),
        ({"flu": 1}, "not a list"),
        (["flu", 1.0], "not a list"),
        ([["flu"]], "not a list"),
        ([["flu", "1"]], "not a list"),
        ([["flu", True]], "not a list"),
        ([["", 1.0]], "not a list"),
        ([["flu", -0.5], ["cold", 1.5]], "not between 0 and 1"),
        ([["flu", float("nan")]], "not between 0 and 1"),
        ([["flu", 10**400]], "not between 0 and 1"),
        ([["flu", 0.5], ["flu ", 0.5]], "names a label twice"),
        ([["flu", 0.5], ["cold", 0.1]], "sums to 0.600, not to 1"),
    ],
)
def test_a_bad_one_is_named_by_its_row(value: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        differentials(data([["flu", 1.0]], value), LABELS)
    assert str(caught.value).startswith("case 2 of mine: ")
    assert "\n" not in str(caught.value)
    assert "cold" not in str(caught.value)
