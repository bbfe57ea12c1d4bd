"""Rows in, cases, differentials and splits out; a malformed row is named by its line, never by its words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx.datasets import Columns, Dataset, load_oral, make_splits, open_data, read_cases
from simdx.datasets.dataset import differentials
from simdx.errors import BadInput
from simdx.types import Case

GOOD = [
    {"id": "a", "text": "one", "label": "x", "sex": "f"},
    {"id": "b", "text": "two", "label": "y", "sex": "m"},
]


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(r) if not isinstance(r, str) else r for r in rows), "utf-8")
    return path


def test_jsonl_csv_and_parquet_give_the_same_cases(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = read_cases(jsonl(tmp_path / "d.jsonl", GOOD))
    (tmp_path / "d.csv").write_text("id,text,label,sex\na,one,x,f\n\nb,two,y,m\n", "utf-8-sig")
    pq.write_table(pa.Table.from_pylist(GOOD), tmp_path / "d.parquet")
    assert read_cases(tmp_path / "d.csv").cases == first.cases
    assert read_cases(tmp_path / "d.parquet").cases == first.cases
    assert first.labels == ("x", "y")
    assert first.field("sex") == ["f", "m"]
    assert first.counts() == {"x": 1, "y": 1}
    assert first.label_index(["y", "x"]).tolist() == [1, 0]
    with pytest.raises(BadInput, match="has no field 'age'; it has sex"):
        first.field("age")
    with pytest.raises(BadInput, match="case 1 of d has a label that is not in the panel"):
        first.label_index(["y"])
    path = jsonl(tmp_path / "d.jsonl", [{"note": "one", "dx": "x"}, {"note": "two", "dx": 3}])
    mapped = read_cases(path, columns=Columns(text="note", label="dx"))
    assert [(c.id, c.label) for c in mapped.cases] == [("line-1", "x"), ("line-2", "3")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{not json", "line 3: not valid JSON"),
        ('["a list"]', "line 3: not a JSON object"),
        ({"label": "x"}, "line 3: no column 'text'"),
        ({"text": "  ", "label": "x"}, "line 3: the text in 'text' is empty"),
        ({"text": 5, "label": "x"}, "line 3: the text in 'text' is empty or not a string"),
        ({"text": "secret words", "label": ""}, "line 3: the label in 'label' is empty"),
        ({"text": "secret words"}, "line 3: no column 'label'"),
        ({"text": "secret words", "label": "z"}, "line 3: 'z' in 'label' is not a label of the panel (x, y)"),
        ({"id": "a", "text": "secret words", "label": "x"}, "the id in 'id' was used on line 1 already"),
        ({"id": True, "text": "secret words", "label": "x"}, "line 3: the id in 'id'"),
    ],
)
def test_a_malformed_row_is_named_by_its_line(tmp_path: Path, row: Any, message: str) -> None:
    path = jsonl(tmp_path / "d.jsonl", [*GOOD, row])
    with pytest.raises(BadInput) as caught:
        read_cases(path, labels=["x", "y"])
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_mistaken_for_a_label_or_an_id_is_not_repeated(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "d.jsonl", [{"message": "Shut on Monday?"}] * 2)
    for columns, message in {
        Columns("message", "message"): "line 1: the value of 'message' is not a label of the panel (x)",
        Columns("message", id="message"): "was used on line 1 already",
    }.items():
        with pytest.raises(BadInput) as caught:
            read_cases(path, columns=columns, labels=["x"], labelled=columns.label == "message")
        assert message in str(caught.value)
        assert "Shut" not in str(caught.value)


def test_every_wrong_label_is_told_and_a_short_one_quoted(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(
        "text,label\none,migraine\ntwo,migrane\nthree,\nfour,migrane\n"
        "five,A long story of a patient that stands in the wrong column\nsix,gout\n"
    )
    with pytest.raises(BadInput) as caught:
        read_cases(path, labels=["migraine", "tension headache"])
    said = str(caught.value)
    assert "d.csv, line 3: the value of 'label' is not a label of the panel (migraine, tension" in said
    assert "5 rows in all, 'migrane' on line 3, 5 (did you mean 'migraine'?); empty" in said
    assert "on line 4; other words on line 6; 'gout' on line 7" in said
    assert "story" not in said


def test_none_of_these_is_one_in_any_case_of_letters(tmp_path: Path) -> None:
    rows = [{"text": "one", "label": "x"}, {"text": "two", "label": "None of these"}]
    path = jsonl(tmp_path / "d.jsonl", rows)
    assert [case.label for case in read_cases(path, labels=["x", "none of these"]).cases] == [
        "x", "none of these",
    ]  # fmt: skip
    with pytest.raises(
        BadInput, match=r"line 2: 'None of these' in 'label' is not a label of the panel \(x\)"
    ):
        read_cases(path, labels=["x"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "no file"),
        ("d.jsonl", b"\n\n", "no rows"),
        ("d.xlsx", b"x", "not a kind of file"),
        ("d.jsonl", b'{"text": "one", "label": "x"}\n{"text": "\xff\xfe"}\n', "line 2: not valid UTF-8"),
        ("d.parquet", b"not parquet", "not a readable Parquet file"),
        ("d.csv", b"text,label\none,x\ntwo,y,z\n", "line 3: 3 values where the header has 2"),
        ("d.csv", b'text,label\none,x\n"two,y\n', "line 3: not valid CSV"),
        ("d.csv", b'text,label\n"one\ntwo",x\nthree,\n', "d.csv, line 4: the label in 'label' is empty"),
        ("d.csv", b"body,class\nhello,a\n", "only 'body', 'class': call one of them 'text'"),
        ("d.csv", b"text;label\nhello;a\n", "save the file with commas"),
        ("d.csv", b"the first case of a file that has no header,a\nhello,a\n", "must name"),
    ],
)
def test_a_file_without_cases_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message) as refused:
        read_cases(tmp_path / name)
    assert "first case" not in str(refused.value)  # what may be a patient's text is never repeated
    with pytest.raises(BadInput, match="nor a data set of that name"):
        open_data("nonesuch")


# --------------------------------------------------------------------------- reference differentials

LABELS = ("cold", "flu")


def told(*values: Any) -> Dataset:
    fields = ({} if v is None else {"differential": v} for v in values)
    return Dataset("mine", tuple(Case("words", str(i), "cold", f) for i, f in enumerate(fields)), LABELS)


def test_the_panel_and_what_is_outside() -> None:
    found = differentials(told(None, [["flu", 0.5], ["gout", 0.2], [" cold ", 0.2], ["mumps", 0.1]]), LABELS)
    assert found.cases.tolist() == [1]
    np.testing.assert_allclose(found.inside, [[0.2, 0.5]])
    np.testing.assert_allclose(found.outside, [0.3])
    # A table has it as JSON, and rounded figures are scaled.
    found = differentials(told(json.dumps([["flu", 0.6], ["cold", 0.3996]])), LABELS)
    assert found.inside.sum() == pytest.approx(1)
    assert differentials(told(None, None), LABELS) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((value, "not a list") for value in ("flu or cold", [], {"flu": 1}, ["flu", 1.0], [["flu"]])),
        *(([["flu", value]], "not a list") for value in ("1", True)),
        ([["", 1.0]], "not a list"),
        ([["flu", -0.5], ["cold", 1.5]], "not between 0 and 1"),
        ([["flu", float("nan")]], "not between 0 and 1"),
        ([["flu", 10**400]], "not between 0 and 1"),
        ([["flu", 0.5], ["flu ", 0.5]], "names a label twice"),
        ([["flu", 0.5], ["cold", 0.1]], "sums to 0.600, not to 1"),
    ],
)
def test_a_bad_differential_is_named_by_its_row(value: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        differentials(told([["flu", 1.0]], value), LABELS)
    assert str(caught.value).startswith("case 2 of mine: ")
    assert "\n" not in str(caught.value)
    assert "cold" not in str(caught.value)


# --------------------------------------------------------------------------- splits


def test_splits_are_stratified_complete_and_decided_by_the_seed() -> None:
    data, shares = load_oral().cases, {"calibrate": 0.2, "test": 0.8}
    splits = make_splits(data, shares, seed=3)
    assert set(data.subset(splits["calibrate"]).counts().values()) == {20}
    assert set(data.subset(splits["test"]).counts().values()) == {80}
    assert sorted(splits["calibrate"] + splits["test"]) == list(range(300))
    assert splits == make_splits(data, shares, seed=3) != make_splits(data, shares, seed=2)
    with pytest.raises(BadInput):
        make_splits(data, {"a": 0.5, "b": 0.6})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy")), min_size=2, max_size=40),
    st.integers(0, 5),
)
def test_no_text_is_on_two_sides(rows: list[tuple[str, str]], seed: int) -> None:
    spelt = [(f"A  {text}" if i % 2 else f"a {text}\n", k) for i, (text, k) in enumerate(rows)]
    data = Dataset("toy", tuple(Case(text, str(i), k) for i, (text, k) in enumerate(spelt)), ("x", "y"))
    splits = make_splits(data, {"one": 0.3, "two": 0.7}, seed=seed)
    one, two = ({rows[i][0] for i in part} for part in splits.values())  # spaces and capitals aside
    assert not one & two
    assert sorted(i for part in splits.values() for i in part) == list(range(len(rows)))
