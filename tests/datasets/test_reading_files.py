"""Rows in, cases out; whatever is malformed is named by its line and never by its contents."""

import json
from pathlib import Path

import pytest

from simdx.datasets import Columns, open_data, read_cases
from simdx.errors import BadInput

GOOD = [
    {"id": "a", "text": "one", "label": "x", "sex": "f"},
    {"id": "b", "text": "two", "label": "y", "sex": "m"},
]


def jsonl(path, rows):
    path.write_text("\n".join(json.dumps(r) if not isinstance(r, str) else r for r in rows), "utf-8")
    return path


def test_jsonl_csv_and_parquet_give_the_same_cases(tmp_path):
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


def test_column_mapping_and_missing_ids(tmp_path):
    path = jsonl(tmp_path / "d.jsonl", [{"note": "one", "dx": "x"}, {"note": "two", "dx": 3}])
    data = read_cases(path, columns=Columns(text="note", label="dx"))
    assert [c.id for c in data.cases] == ["line-1", "line-2"]
    assert [c.label for c in data.cases] == ["x", "3"]


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
        ({"text": "secret words", "label": "z"}, "line 3: what stands in 'label' is not a label"),
        ({"id": "a", "text": "secret words", "label": "x"}, "the id in 'id' was used on line 1 already"),
        ({"id": True, "text": "secret words", "label": "x"}, "line 3: the id in 'id'"),
    ],
)
def test_a_malformed_row_is_named_by_its_line(tmp_path, row, message):
    path = jsonl(tmp_path / "d.jsonl", [*GOOD, row])
    with pytest.raises(BadInput) as caught:
        read_cases(path, labels=["x", "y"])
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_mistaken_for_a_label_is_not_repeated(tmp_path):
    path = jsonl(tmp_path / "d.jsonl", [{"message": "Shut on Monday?"}, {"message": "Shut on Monday?"}])
    for columns in (Columns("message", "message"), Columns("message", "message", "message")):
        with pytest.raises(BadInput) as caught:
            read_cases(path, columns=columns, labels=["x"])
        assert "line 1: what stands in 'message' is not a label of the panel (x)" in str(caught.value)
        assert "Shut" not in str(caught.value)
    with pytest.raises(BadInput) as caught:
        read_cases(path, columns=Columns("message", id="message"), labelled=False)
    assert "Shut" not in str(caught.value)


def test_a_field_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    data = read_cases(jsonl(tmp_path / "d.jsonl", GOOD))
    with pytest.raises(BadInput, match="has no field 'age'; it has sex"):
        data.field("age")
    with pytest.raises(BadInput, match="case 1 of d has a label that is not in the panel"):
        data.label_index(["y"])


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
        ("d.csv", b'text,label\n"one\ntwo",x\nthree,\n', "d.csv, line 4: no column 'label'"),
        ("d.csv", b"body,class\nhello,a\n", "only 'body', 'class': call one of them 'text'"),
        ("d.csv", b"text;label\nhello;a\n", "save the file with commas"),
        ("d.csv", b"the first case of a file that has no header,a\nhello,a\n", "must name"),
    ],
)
def test_a_file_that_is_none_of_cases_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message) as refused:
        read_cases(tmp_path / name)
    assert "first case" not in str(refused.value)  # what may be a patient's text is never repeated
    with pytest.raises(BadInput, match="nor a data set of that name"):
        open_data("nonesuch")
