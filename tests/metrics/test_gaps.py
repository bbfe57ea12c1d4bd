"""The subgroup audit: gaps, intervals that cover, corrections, crossed fields."""

from typing import Any

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from simdx.errors import BadInput
from simdx.metrics import headline_values
from simdx.metrics.gaps import GROUP_METRICS, SMALL, by_group, combined, holm, subgroup_gaps
from simdx.report.page import fill
from simdx.types import Float, Int


def test_the_correction_agrees_with_statsmodels() -> None:
    p = np.random.default_rng(0).random(20) ** 2
    assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm([]) == []


def cases(n: int, rng: np.random.Generator, gap: float) -> tuple[Float, Int, list[str]]:
    """Two groups; in the second one accuracy is lower by `gap` at the same stated confidence."""
    group = rng.integers(0, 2, n)
    confidence = rng.uniform(0.6, 0.95, n)
    right = rng.random(n) < confidence - gap * group
    p = np.column_stack([confidence, 1 - confidence])
    return p, np.where(right, 0, 1), ["old" if g else "young" for g in group]


def by_name(gaps: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(gap["value"], gap["metric"]): gap for gap in gaps}


def test_a_real_gap_is_found_and_a_false_one_rarely() -> None:
    rng = np.random.default_rng(5)
    p, y, group = cases(600, rng, 0.3)
    found = by_name(subgroup_gaps(p, y, {"age": group}, resamples=500, rng=rng))
    gap = found["old", "accuracy"]
    assert gap["gap"] is not None
    assert gap["low"] < -0.3 < gap["high"]
    assert gap["p_corrected"] < 0.05
    assert found["old", "ece"]["gap"] == pytest.approx(-found["young", "ece"]["gap"])
    hits = 0
    for _ in range(40):
        p, y, group = cases(200, rng, 0.0)
        gaps = subgroup_gaps(p, y, {"age": group}, resamples=200, rng=rng)
        hits += any(g["p_corrected"] is not None and g["p_corrected"] < 0.05 for g in gaps)
    assert hits <= 7  # family-wise 5 % of 40 is 2; a binomial exceeds 7 once in 1000


def test_small_groups_are_marked_and_undefined_gaps_have_no_p() -> None:
    rng = np.random.default_rng(6)
    p, y, _ = cases(100, rng, 0.0)
    group = ["rare"] * 5 + ["common"] * 95
    y[:5] = 0  # no error among the rare: no error detection to measure
    found = by_name(subgroup_gaps(p, y, {"g": group}, resamples=200, rng=rng))
    assert found["rare", "accuracy"]["too_small"]
    undefined = found["rare", "error_auroc"]
    assert (undefined["inside"], undefined["gap"], undefined["p_corrected"]) == (None, None, None)
    assert not found["common", "accuracy"]["too_small"]
    page = fill("gaps.html", gaps=list(found.values()), small=SMALL)
    assert "too few" in page
    assert "Holm" in page
    one = subgroup_gaps(p, y, {"g": ["all"] * 100}, resamples=200, rng=rng)
    assert all(g["gap"] is None for g in one)


def test_fields_can_be_crossed() -> None:
    fields = {"sex": ["f", "m", None], "site": ["lip", "", "tongue"]}
    assert combined(fields, ["sex*site"]) == {
        "sex*site": ["f × lip", "m × not stated", "not stated × tongue"]
    }
    with pytest.raises(BadInput, match="no field 'age'"):
        combined(fields, ["sex*age"])
    with pytest.raises(BadInput, match="values"):
        subgroup_gaps(np.eye(2), np.array([0, 1]), {"g": ["a"]}, rng=np.random.default_rng(0))


def test_groups_carry_their_own_metrics(predictions, rng):
    p, y = predictions
    groups = np.where(np.arange(len(y)) % 4 == 0, "a", "b")
    found = by_group(p, y, groups.tolist(), resamples=100, rng=rng)
    assert list(found) == ["a", "b"]
    for name, group in found.items():
        inside = groups == name
        plain = headline_values(p[inside], y[inside])
        assert group["n"] == inside.sum()
        for metric in GROUP_METRICS:
            assert group[metric] == pytest.approx(plain[metric].value)
        low, high = group["ci"]["accuracy"]
        assert low <= group["accuracy"] <= high
    groups = [None] * 5 + ["a"] * (len(y) - 5)
    found = by_group(p, y, groups, resamples=100, rng=rng)
    assert found["not stated"]["too_small"]
    assert not found["a"]["too_small"]
    with pytest.raises(BadInput):
        by_group(p, y, ["a"], rng=rng)
