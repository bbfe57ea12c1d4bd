"""The size of the tests about calibration, by simulation: 300 cases, three labels."""

import numpy as np

from simdx.metrics.debiased import debiased_ece, ece_difference
from simdx.types import Float, Int

RUNS = 60


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
        held += own.low == 0
        _, low, high = ece_difference(own, flat)
        rejected += low > 0 or high < 0
    # At least .95 and at most .05, less and plus three standard errors of 60 runs.
    assert held >= 0.86 * RUNS
    assert rejected <= 0.14 * RUNS


def test_the_estimate_of_an_overconfident_method_is_unbiased_and_its_interval_holds_the_truth() -> None:
    rng = np.random.default_rng(1)
    truth = 0.124  # of squared answers, from 400,000 draws
    found = []
    for _ in range(RUNS):
        p, y = drawn(rng)
        found.append(debiased_ece(p**2 / (p**2).sum(axis=1, keepdims=True), y, rng))
    mean = np.mean([one.value for one in found])
    assert abs(mean - truth) < 3 * 0.025 / np.sqrt(RUNS)
    assert np.mean([one.plug_in for one in found]) > mean
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.82
