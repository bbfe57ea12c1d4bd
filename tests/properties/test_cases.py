"""Files of cases: any JSONL, CSV or Parquet is read or refused by line, and no message repeats a case."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.datasets import make_splits, read_cases
from simdx.datasets.dataset import Dataset
from simdx.errors import BadInput
from tests.properties.strategies import accepted, bounded, broken_texts, filled_texts, scalars, trees

rows = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"text": filled_texts, "label": st.sampled_from("ab")}, optional={"id": scalars}
        ),
        st.fixed_dictionaries({"text": trees, "label": trees}),
        trees,
    ),
    max_size=6,
)


def check(path: Path) -> None:
    for labelled in (True, False):
        found = accepted(lambda labelled=labelled: read_cases(path, labelled=labelled, labels=("a", "b")))
        if found is None:
            continue
        assert isinstance(found, Dataset)
        assert len({case.id for case in found.cases}) == len(found.cases) >= 1
        assert all(case.text.strip() for case in found.cases)
        json.dumps([case.id for case in found.cases], ensure_ascii=False).encode()
        "".join(found.texts).encode()
        splits = make_splits(found, {"x": 0.5, "y": 0.5})
        assert sum(len(part) for part in splits.values()) == len(found.cases)


@bounded
@given(rows)
def test_any_rows(tmp_path: Path, found: list[object]) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in found), encoding="utf-8")
    check(path)


@bounded
@given(st.lists(st.tuples(filled_texts, st.sampled_from("ab")), min_size=1, max_size=5))
def test_the_three_formats_say_the_same(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    found = [{"text": text, "label": label} for text, label in pairs]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in found), "utf-8")
    pq.write_table(pa.Table.from_pylist(found), tmp_path / "c.parquet")
    jsonl = read_cases(tmp_path / "c.jsonl", labels=("a", "b"))
    parquet = read_cases(tmp_path / "c.parquet", labels=("a", "b"))
    assert jsonl.texts == parquet.texts == [text for text, _ in pairs]
    with (tmp_path / "c.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["text", "label"], *pairs])
    table = accepted(lambda: read_cases(tmp_path / "c.csv", labels=("a", "b")))
    assert table is None or [case.label for case in table.cases] == [label for _, label in pairs]


@bounded
@given(broken_texts)
def test_half_characters_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.jsonl"
    for row in (
        {"text": text, "label": "a"},
        {"text": "x", "label": "a", "id": text},
        {"text": "x", "label": "a", text: 1},
    ):
        path.write_text(json.dumps(row))
        with pytest.raises(BadInput, match="line 1"):
            read_cases(path)


def test_lines_of_a_megabyte(tmp_path: Path) -> None:
    """A million characters are a case; one more is refused, and so is a number of a million digits."""
    path = tmp_path / "c.jsonl"
    for text, fits in (("é" * 1_000_000, True), ("word " * 200_000, True), ("x" * 1_000_001, False)):
        path.write_text(json.dumps({"text": text, "label": "a"}) + "\n", encoding="utf-8")
        assert (accepted(lambda: read_cases(path)) is not None) == fits
    digits = '{"text": "x", "n": ' + "9" * 5000 + "}"
    for line in ("[" * 1_000_000, "9" * 1_000_000, digits, "\\" * 1_000_000):
        path.write_text(line)
        assert accepted(lambda: read_cases(path)) is None
