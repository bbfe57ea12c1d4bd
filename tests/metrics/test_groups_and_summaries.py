"""Subgroups, out-of-class detection, second-order summaries and the mixed-effects regression."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from simdx.errors import BadInput
from simdx.metrics import (
    by_group,
    headline_values,
    mixed_effects,
    ood_auroc,
    out_of_class,
    second_order_summary,
    spread,
)
from simdx.types import SecondOrder


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
    assert empty["n"] == 0
    assert empty["accuracy"] is None
    assert empty["undefined"]["accuracy"] == "there are no cases"
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


def test_spread_and_second_order_summary(rng):
    x = rng.normal(size=101)
    s = spread(x)
    assert s.median == pytest.approx(np.sort(x)[50])
    assert s.iqr == pytest.approx(np.sort(x)[75] - np.sort(x)[25])
    assert spread([]).median is None
    assert spread([]).as_dict()["reason"]
    bits = rng.uniform(size=6)
    second = SecondOrder(
        mean=np.full((6, 2), 0.5), total_bits=bits + 0.1, aleatoric_bits=bits, epistemic_bits=np.full(6, 0.1),
        alpha0=np.ones(6), differential_entropy=np.zeros(6), effective_draws=np.ones(6),
    )  # fmt: skip
    summary = second_order_summary(second, error=[1, 0, 0, 0, 0, 0])
    assert summary["wrong"]["aleatoric_bits"].median == pytest.approx(bits[0])
    assert summary["correct"]["aleatoric_bits"].n == 5
    assert summary["all"]["epistemic_bits"].iqr == pytest.approx(0)


def simulated(n_models, effect, rng):
    rows = []
    for m in range(n_models):
        level = rng.normal(scale=0.05)
        for method in ("base", "ours"):
            for _ in range(3):
                value = 0.2 + level + effect * (method == "ours") + rng.normal(scale=0.01)
                rows.append((value, method, f"model {m}"))
    return zip(*rows, strict=True)


def test_mixed_effects_recovers_an_effect_within_models(rng):
    values, methods, models = simulated(8, -0.06, rng)
    fit = mixed_effects(values, methods, models, reference="base")
    (effect,) = fit.effects
    assert fit.reason is None
    # balanced: the estimate is the mean within-model difference, standard error .01 * sqrt(2 / 24) = .003
    assert effect.estimate == pytest.approx(-0.06, abs=4 * 0.003)
    assert effect.low < effect.estimate < effect.high < 0
    assert effect.p_value < 1e-6
    by_model = {}
    for v, method, model in zip(values, methods, models, strict=True):
        by_model.setdefault(model, {}).setdefault(method, []).append(v)
    within = np.mean([np.mean(r["ours"]) - np.mean(r["base"]) for r in by_model.values()])
    assert effect.estimate == pytest.approx(within, abs=1e-6)


def test_mixed_effects_refuses_with_a_reason(rng):
    values, methods, models = simulated(3, -0.06, rng)
    fit = mixed_effects(values, methods, models)
    assert fit.effects == ()
    assert "3 language models are too few" in fit.reason
    assert "two methods" in mixed_effects([0.1, 0.2], ["a", "a"], ["x", "y"]).reason
    with pytest.raises(BadInput):
        mixed_effects([0.1, np.nan], ["a", "b"], ["x", "y"])
