"""Calibration errors against loops over bins, quadrature and a grid; the debiased one by simulation."""

import numpy as np
import pytest
from scipy.stats import norm

from simdx.errors import BadInput
from simdx.metrics import calibration
from simdx.metrics.calibration import debiased_ece, ece_difference
from simdx.types import Float, Int

RUNS = 60  # of 300 cases and three labels


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
    edges = np.linspace(0, 1, 11)
    assert calibration.ece(p, y).value == pytest.approx(binned_by_hand(p.max(1), p.argmax(1) == y, edges))
    each = [binned_by_hand(p[:, k], y == k, edges) for k in range(4)]
    assert calibration.classwise_ece(p, y) == pytest.approx(np.mean(each))
    # bins are closed on the right
    np.testing.assert_array_equal(calibration.bin_of(np.array([0.0, 0.1, 0.11, 0.5, 1.0])), [0, 0, 1, 4, 9])


def test_adaptive_ece_has_bins_of_equal_mass_without_ties(make_predictions):
    p, y = make_predictions(n=200, decimals=None)
    top, right = p.max(1), p.argmax(1) == y
    gaps = [20 * abs(top[part].mean() - right[part].mean()) for part in np.array_split(np.argsort(top), 10)]
    assert calibration.adaptive_ece(p, y) == pytest.approx(sum(gaps) / 200)


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
    assert calibration.smooth_ece(p, y) == pytest.approx(measure(high), abs=1.5e-3)


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
    # Whoever is always right drives it to its bound, which is said.
    assert calibration.fit_temperature(np.array([[0.7, 0.3]] * 20), np.zeros(20, int)).at_bound
    with pytest.raises(BadInput):
        calibration.fit_temperature(np.zeros((0, 2)), np.zeros(0, int))


def test_applying_a_temperature_keeps_the_ranking(predictions):
    p, _ = predictions
    flat = calibration.apply_temperature(p, 3.0)
    np.testing.assert_allclose(flat.sum(axis=1), 1)
    np.testing.assert_array_equal(flat.argmax(1), p.argmax(1))
    assert flat.max(1).mean() < p.max(1).mean()
    np.testing.assert_allclose(calibration.apply_temperature(p, 1.0), p, atol=1e-12)
    with pytest.raises(BadInput):
        calibration.apply_temperature(p, 0.0)


def drawn(rng: np.random.Generator) -> tuple[Float, Int]:
    """Calibrated answers: labels are drawn from them."""
    p = rng.dirichlet(np.full(3, 0.5), size=300)
    return p, (rng.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)


def test_a_calibrated_method_s_interval_holds_nought_and_a_flat_one_does_not_differ() -> None:
    rng = np.random.default_rng(0)
    held, rejected = 0, 0
    for _ in range(RUNS):
        p, y = drawn(rng)
        own, flat = debiased_ece(p, y, rng), debiased_ece(np.full_like(p, 1 / 3), y, rng)
        held += own[1] == 0
        _, low, high = ece_difference(own, flat)
        rejected += low > 0 or high < 0
    # At least .95 and at most .05, less and plus three standard errors of 60 runs.
    assert held >= 0.86 * RUNS
    assert rejected <= 0.14 * RUNS


def test_the_estimate_of_an_overconfident_method_is_unbiased_and_its_interval_holds_the_truth() -> None:
    rng = np.random.default_rng(1)
    truth = 0.124  # of squared answers, from 400,000 draws
    found, plain = [], []
    for _ in range(RUNS):
        p, y = drawn(rng)
        sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
        found.append(debiased_ece(sharp, y, rng))
        plain.append(calibration.ece(sharp, y).value)
    mean = np.mean([value for value, _, _ in found])
    assert abs(mean - truth) < 3 * 0.025 / np.sqrt(RUNS)
    assert np.mean(plain) > mean
    assert np.mean([low <= truth <= high for _, low, high in found]) >= 0.82
