"""Calibration errors against loops over bins, quadrature and a grid search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from simdx.errors import BadInput
from simdx.metrics import calibration


def binned_by_hand(confidence, outcome, edges):
    total = 0.0
    for b in range(len(edges) - 1):
        low, high = edges[b], edges[b + 1]
        first = b == 0
        inside = [i for i, c in enumerate(confidence) if (low < c or first) and c <= high]
        if inside:
            gap = np.mean([confidence[i] for i in inside]) - np.mean([outcome[i] for i in inside])
            total += len(inside) * abs(gap)
    return total / len(confidence)


def test_ece_against_a_loop_over_bins(predictions):
    p, y = predictions
    expected = binned_by_hand(p.max(1), p.argmax(1) == y, np.linspace(0, 1, 11))
    assert calibration.ece(p, y).value == pytest.approx(expected)


def test_bins_are_closed_on_the_right():
    np.testing.assert_array_equal(calibration.bin_of(np.array([0.0, 0.1, 0.11, 0.5, 1.0])), [0, 0, 1, 4, 9])


def test_ece_of_a_known_case():
    p = np.array([[0.8, 0.2]] * 4 + [[0.6, 0.4]] * 4)
    y = np.array([0, 0, 0, 1, 0, 0, 1, 1])
    assert calibration.ece(p, y).value == pytest.approx(0.5 * 0.05 + 0.5 * 0.1)


def test_classwise_ece_against_a_loop(predictions):
    p, y = predictions
    edges = np.linspace(0, 1, 11)
    expected = np.mean([binned_by_hand(p[:, k], y == k, edges) for k in range(4)])
    assert calibration.classwise_ece(p, y).value == pytest.approx(expected)


def test_adaptive_ece_has_bins_of_equal_mass_without_ties(make_predictions):
    p, y = make_predictions(n=200, decimals=None)
    top, right = p.max(1), p.argmax(1) == y
    gaps = [20 * abs(top[part].mean() - right[part].mean()) for part in np.array_split(np.argsort(top), 10)]
    assert calibration.adaptive_ece(p, y).value == pytest.approx(sum(gaps) / 200)


def test_adaptive_ece_does_not_depend_on_row_order(predictions, rng):
    p, y = predictions
    shuffled = rng.permutation(len(y))
    assert calibration.adaptive_ece(p[shuffled], y[shuffled]).value == pytest.approx(
        calibration.adaptive_ece(p, y).value
    )


def test_smooth_ece_against_direct_quadrature(predictions):
    p, y = predictions
    confidence, correct = p.max(1), (p.argmax(1) == y).astype(float)
    grid = (np.arange(1000) + 0.5) / 1000

    def measure(width):
        kernel = sum(
            norm.pdf(grid[:, None] - confidence + 2 * m, scale=width)
            + norm.pdf(grid[:, None] + confidence + 2 * m, scale=width)
            for m in range(-3, 4)
        )
        return np.abs(kernel @ (correct - confidence) / len(y)).mean()

    low, high = 1e-3, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle) > middle else (low, middle)
    # confidences are put on a grid of 1,000 cells, so the two agree to about one cell
    assert calibration.smooth_ece(p, y).value == pytest.approx(measure(high), abs=1.5e-3)


def test_smooth_ece_is_small_when_calibrated_and_large_when_not():
    rng = np.random.default_rng(3)
    top = rng.uniform(0.5, 1, 4000)
    p = np.stack([top, 1 - top], axis=1)
    calibrated = (rng.uniform(size=4000) > top).astype(int)
    overconfident = rng.integers(0, 2, 4000)
    # the sampling error of a mean residual is at most .5 / sqrt(4000) = .008
    assert calibration.smooth_ece(p, calibrated).value < 0.03
    assert calibration.smooth_ece(p, overconfident).value == pytest.approx(0.25, abs=0.04)


def test_reliability_counts_every_case_once(predictions):
    p, y = predictions
    table = calibration.reliability(p, y)
    assert table.n.sum() == len(y)
    assert (table.n * table.accuracy).sum() == pytest.approx((p.argmax(1) == y).sum())
    assert (table.n * table.confidence).sum() == pytest.approx(p.max(1).sum())


def test_temperature_against_a_grid_search(predictions):
    p, y = predictions
    fitted = calibration.fit_temperature(p, y)
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 4001))
    losses = []
    for t in grid:
        q = p ** (1 / t)
        q /= q.sum(axis=1, keepdims=True)
        losses.append(-np.log(q[np.arange(len(y)), y]).mean())
    assert fitted.value == pytest.approx(grid[int(np.argmin(losses))], rel=0.005)
    assert fitted.nll_after <= fitted.nll_before
    assert not fitted.at_bound


def test_applying_a_temperature_keeps_the_ranking(predictions):
    p, _ = predictions
    flat = calibration.apply_temperature(p, 3.0)
    np.testing.assert_allclose(flat.sum(axis=1), 1)
    np.testing.assert_array_equal(flat.argmax(1), p.argmax(1))
    assert flat.max(1).mean() < p.max(1).mean()
    np.testing.assert_allclose(calibration.apply_temperature(p, 1.0), p, atol=1e-12)


def test_always_right_drives_the_temperature_to_its_bound_and_says_so():
    p = np.array([[0.7, 0.3]] * 20)
    assert calibration.fit_temperature(p, np.zeros(20, int)).at_bound


def test_a_temperature_needs_cases_and_a_positive_value(predictions):
    with pytest.raises(BadInput):
        calibration.fit_temperature(np.zeros((0, 2)), np.zeros(0, int))
    with pytest.raises(BadInput):
        calibration.apply_temperature(predictions[0], 0.0)


@pytest.mark.parametrize("metric", ["ece", "classwise_ece", "adaptive_ece", "smooth_ece"])
def test_no_cases_is_undefined(metric):
    found = getattr(calibration, metric)(np.zeros((0, 3)), np.zeros(0, int))
    assert found.value is None
    assert found.reason
