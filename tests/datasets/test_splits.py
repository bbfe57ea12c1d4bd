"""Splits are stratified, whole by group and text, stored as indices and checked when read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx.datasets import Dataset, load_oral, make_splits
from simdx.errors import BadInput
from simdx.types import Case


def dataset(rows):
    cases = tuple(
        Case(text, f"c{i}", label, {"patient": group}) for i, (text, label, group) in enumerate(rows)
    )
    return Dataset("toy", cases, tuple(sorted({r[1] for r in rows})))


def test_stratified_and_complete():
    data = load_oral().cases
    splits = make_splits(data, {"calibrate": 0.2, "test": 0.8}, seed=3)
    small, large = splits.part(data, "calibrate"), splits.part(data, "test")
    assert set(small.counts().values()) == {20}
    assert set(large.counts().values()) == {80}
    assert sorted(splits.parts["calibrate"] + splits.parts["test"]) == list(range(300))


def test_the_seed_decides_and_nothing_else():
    data = load_oral().cases
    shares = {"a": 0.5, "b": 0.5}
    assert make_splits(data, shares, seed=1) == make_splits(data, shares, seed=1)
    assert make_splits(data, shares, seed=1).parts != make_splits(data, shares, seed=2).parts


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy"), st.sampled_from("pqrstu")),
        min_size=2,
        max_size=40,
    ),
    st.integers(0, 5),
)
def test_no_text_and_no_group_is_on_two_sides(rows, seed):
    data = dataset(rows)
    splits = make_splits(data, {"one": 0.3, "two": 0.7}, seed=seed, group_field="patient")
    sides = [{(c.text, None) for c in splits.part(data, n).cases} for n in ("one", "two")]
    groups = [{c.fields["patient"] for c in splits.part(data, n).cases} for n in ("one", "two")]
    assert not sides[0] & sides[1]
    assert not groups[0] & groups[1]
    assert sum(len(p) for p in splits.parts.values()) == len(rows)


def test_texts_that_differ_in_spaces_only_stay_together():
    data = dataset(
        [("A  fever", "x", "p"), ("a fever\n", "x", "q")] + [(f"t{i}", "x", str(i)) for i in range(8)]
    )
    splits = make_splits(data, {"one": 0.5, "two": 0.5})
    assert any({0, 1} <= set(part) for part in splits.parts.values())


def test_a_part_is_taken_from_the_cases_it_was_made_of():
    data = dataset([(f"t{i}", "xy"[i % 2], str(i)) for i in range(20)])
    splits = make_splits(data, {"fit": 0.5, "test": 0.5})
    with pytest.raises(BadInput, match="other cases"):
        splits.part(dataset([("other", "x", "p")]), "fit")
    with pytest.raises(BadInput, match="no part 'dev'"):
        splits.part(data, "dev")


def test_shares_must_sum_to_one():
    with pytest.raises(BadInput):
        make_splits(dataset([("a", "x", "p")]), {"a": 0.5, "b": 0.6})
