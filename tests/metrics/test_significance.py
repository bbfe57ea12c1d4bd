"""The vectorised bootstrap against the plain metrics on literal resamples, and its coverage."""

import numpy as np
import pytest

from simdx.errors import BadInput
from simdx.metrics import (
    HEADLINE,
    bootstrap_intervals,
    evaluate_probabilities,
    headline_values,
    paired_bootstrap,
)
from simdx.metrics.resampling import WeightedMetrics, count_chunks


def test_weighted_metrics_equal_the_plain_ones_on_literal_resamples(predictions, rng):
    p, y = predictions
    statistic = WeightedMetrics(p, y)
    counts = next(count_chunks(len(y), 12, rng))
    found = statistic(counts)
    for row, weights in zip(found, counts.astype(int), strict=True):
        repeated = np.repeat(np.arange(len(y)), weights)
        plain = headline_values(p[repeated], y[repeated])
        for name, value in zip(HEADLINE, row, strict=True):
            assert value == pytest.approx(plain[name].value, abs=1e-9), name


def test_every_headline_interval_holds_its_point_estimate(predictions, rng):
    p, y = predictions
    result = evaluate_probabilities(p, y, resamples=500, rng=rng)
    assert set(result["ci"]) == set(HEADLINE)
    for name in HEADLINE:
        low, high = result["ci"][name]
        assert low <= result["ece_debiased" if name == "ece" else name] <= high, name
    assert result["ece_debiased"] < result["ece"]
    assert result["undefined"] == {}


def test_intervals_cover_the_truth_about_as_often_as_they_say(make_predictions):
    covered = 0
    for seed in range(120):
        p, y = make_predictions(n=120, seed=seed)
        interval = bootstrap_intervals(
            p, y, metrics=["brier"], resamples=300, rng=np.random.default_rng(seed)
        )["brier"]
        truth = p**0.7
        truth /= truth.sum(axis=1, keepdims=True)
        expected = ((p**2).sum(1) + 1 - 2 * (p * truth).sum(1)).mean()
        covered += interval.low <= expected <= interval.high
    # binomial(120, .95) has standard deviation .02; resampling cases adds a little coverage
    assert covered / 120 > 0.95 - 3 * 0.02


def test_paired_bootstrap_sees_overconfidence_and_keeps_the_sign(predictions, rng):
    p, y = predictions
    for same in paired_bootstrap(p, p, y, resamples=200, rng=rng).values():
        assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    sharp = p**3
    sharp /= sharp.sum(axis=1, keepdims=True)
    found = paired_bootstrap(p, sharp, y, resamples=1000, rng=rng)["ece"]
    plain = headline_values(sharp, y)["ece"].value - headline_values(p, y)["ece"].value
    assert found.value == pytest.approx(plain, abs=0.05)  # of the debiased errors
    assert found.low > 0
    assert found.p_value < 0.05


def test_p_values_are_roughly_uniform_when_nothing_differs(make_predictions):
    small = 0
    for seed in range(100):
        p, y = make_predictions(n=150, seed=seed)
        noise = np.random.default_rng(seed + 1000).permutation(len(y))
        half = len(y) // 2
        a, b = p.copy(), p.copy()
        uniform = np.full(p.shape[1], 1 / p.shape[1])
        a[noise[:half]], b[noise[half:]] = uniform, uniform  # the same damage to random halves
        result = paired_bootstrap(a, b, y, metrics=["brier"], resamples=300, rng=np.random.default_rng(seed))
        small += result["brier"].p_value < 0.1
    assert small <= 10 + 3 * 3  # binomial(100, .1) has standard deviation 3


def test_no_errors_gives_no_interval_but_a_reason(rng):
    p = np.array([[0.9, 0.1]] * 10 + [[0.2, 0.8]] * 10)
    y = np.r_[np.zeros(10, int), np.ones(10, int)]
    result = evaluate_probabilities(p, y, resamples=100, rng=rng)
    assert (result["error_auroc"], result["ci"]["error_auroc"]) == (None, None)
    assert "no case was misclassified" in result["undefined"]["error_auroc"]
    assert result["aurc"] == 0
    paired = paired_bootstrap(p, p, y, resamples=100, rng=rng)["error_auroc"]
    assert paired.value is None
    assert paired.reason
    # Undefined in many resamples, it has no interval either.
    p, y = np.array([[0.9, 0.1]] * 20), np.r_[np.ones(1, int), np.zeros(19, int)]
    found = bootstrap_intervals(p, y, metrics=["error_auroc"], resamples=400, rng=rng)["error_auroc"]
    assert found.low is None
    assert "resamples" in found.reason


def test_no_cases_and_no_generator(make_predictions):
    empty = evaluate_probabilities(np.zeros((0, 3)), np.zeros(0, int), rng=np.random.default_rng(0))
    assert (empty["n"], empty["accuracy"], empty["ci"]["accuracy"]) == (0, None, None)
    assert set(empty["undefined"]) >= set(HEADLINE)
    p, y = make_predictions(20)
    assert evaluate_probabilities(p, y)["ci"] == dict.fromkeys(HEADLINE)


def test_bad_requests_are_refused(predictions, rng):
    for asked, said in (({"resamples": 10}, "100 resamples"), ({"metrics": ["beauty"]}, "no bootstrap")):
        with pytest.raises(BadInput, match=said):
            bootstrap_intervals(*predictions, rng=rng, **asked)
