"""Splits are stratified and leave no text on two sides."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx.datasets import Dataset, load_oral, make_splits
from simdx.errors import BadInput
from simdx.types import Case


def dataset(rows):
    cases = tuple(Case(text, f"c{i}", label) for i, (text, label) in enumerate(rows))
    return Dataset("toy", cases, tuple(sorted({r[1] for r in rows})))


def test_stratified_and_complete():
    data = load_oral().cases
    splits = make_splits(data, {"calibrate": 0.2, "test": 0.8}, seed=3)
    assert set(data.subset(splits["calibrate"]).counts().values()) == {20}
    assert set(data.subset(splits["test"]).counts().values()) == {80}
    assert sorted(splits["calibrate"] + splits["test"]) == list(range(300))


def test_the_seed_decides_and_nothing_else():
    data = load_oral().cases
    shares = {"a": 0.5, "b": 0.5}
    assert make_splits(data, shares, seed=1) == make_splits(data, shares, seed=1)
    assert make_splits(data, shares, seed=1) != make_splits(data, shares, seed=2)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy")), min_size=2, max_size=40),
    st.integers(0, 5),
)
def test_no_text_is_on_two_sides(rows, seed):
    data = dataset(rows)
    splits = make_splits(data, {"one": 0.3, "two": 0.7}, seed=seed)
    one, two = (set(data.subset(part).texts) for part in splits.values())
    assert not one & two
    assert sorted(i for part in splits.values() for i in part) == list(range(len(rows)))


def test_texts_that_differ_in_spaces_only_stay_together():
    data = dataset([("A  fever", "x"), ("a fever\n", "x")] + [(f"t{i}", "x") for i in range(8)])
    splits = make_splits(data, {"one": 0.5, "two": 0.5})
    assert any({0, 1} <= set(part) for part in splits.values())


def test_shares_must_sum_to_one():
    with pytest.raises(BadInput):
        make_splits(dataset([("a", "x")]), {"a": 0.5, "b": 0.6})
