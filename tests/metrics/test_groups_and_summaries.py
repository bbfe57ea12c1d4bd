"""Subgroups, out-of-class detection and spreads."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from simdx.errors import BadInput
from simdx.metrics import by_group, headline_values, ood_auroc, out_of_class, spread


def test_groups_carry_their_own_metrics(predictions, rng):
    p, y = predictions
    groups = np.where(np.arange(len(y)) % 4 == 0, "a", "b")
    found = by_group(p, y, groups.tolist(), resamples=100, rng=rng)
    assert list(found) == ["a", "b"]
    for name, group in found.items():
        inside = groups == name
        plain = headline_values(p[inside], y[inside])
        assert group.n == inside.sum()
        for metric, value in group.values.items():
            assert value.value == pytest.approx(plain[metric].value)
        low, high = group.as_dict()["ci"]["accuracy"]
        assert low <= group.values["accuracy"].value <= high


def test_small_missing_and_empty_groups(predictions, rng):
    p, y = predictions
    groups = [None] * 5 + ["a"] * (len(y) - 5)
    found = by_group(p, y, groups, expected=["z"], resamples=100, rng=rng)
    assert found["not stated"].too_small
    assert not found["a"].too_small
    empty = found["z"].as_dict()
    assert (empty["n"], empty["accuracy"], empty["undefined"]["accuracy"]) == (0, None, "there are no cases")
    with pytest.raises(BadInput):
        by_group(p, y, ["a"], rng=rng)


def test_ood_auroc_agrees_with_scikit_learn(rng):
    inside, outside = np.round(rng.normal(size=50), 1), np.round(rng.normal(0.7, size=30), 1)
    truth = np.r_[np.zeros(50), np.ones(30)]
    assert ood_auroc(inside, outside).value == pytest.approx(
        roc_auc_score(truth, np.concatenate([inside, outside]))
    )
    kinds = ["near"] * 10 + ["far"] * 20
    found = out_of_class(inside, outside, kinds)
    n, near = found.by["near"]
    assert n == 10
    assert near.value == pytest.approx(ood_auroc(inside, outside[:10]).value)
    assert ood_auroc([], outside).value is None
    assert "out-of-class" in ood_auroc(inside, []).reason


def test_spread(rng):
    x = rng.normal(size=101)
    s = spread(x)
    assert s.median == pytest.approx(np.sort(x)[50])
    assert s.iqr == pytest.approx(np.sort(x)[75] - np.sort(x)[25])
    assert spread([]).median is None
    assert spread([]).as_dict()["reason"]
