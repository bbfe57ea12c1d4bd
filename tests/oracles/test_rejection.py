"""D-SMC against plain rejection, and against truncated Beta distributions where those are exact."""

import numpy as np
import pytest
from scipy.stats import beta

from simdx.abc.dirichlet import concentration_cap, dirichlet
from simdx.abc.prior import Prior
from tests.abc.toys import toy


@pytest.mark.parametrize("alpha", [[1.0, 1.0, 1.0], [3.0, 1.0, 0.5], [0.3, 0.3, 0.3]])
def test_d_smc_is_rejection_from_the_prior(alpha):
    """Rejection with numpy's own Dirichlet, mixtures formed in the full space, tolerance fixed in advance.

    Both sides draw independently; the comparison is by the standard errors of the two kept samples.
    """
    problem = toy((20, 20, 20), n_cases=5, d=10, seed=8)
    a = np.array(alpha)
    prior = Prior(a / a.sum(), a.sum())
    draws, populations = 4000, 4
    answer = dirichlet(problem.means, problem.cases, prior, seed=0, draws=draws, populations=populations)
    second = answer.second_order
    rng = np.random.default_rng(99)
    theta = rng.dirichlet(a, size=draws * 2**populations)
    mixture = theta @ problem.means
    mixture /= np.linalg.norm(mixture, axis=1, keepdims=True)
    distance = 1 - problem.cases @ mixture.T
    for i in range(5):
        kept = theta[distance[i] <= answer.tolerance[i]]
        # The tolerance was estimated by the other side, so the number kept is binomial around `draws`.
        assert abs(len(kept) - draws) < 6 * np.sqrt(2 * draws)
        error = np.sqrt(kept.var(axis=0) / len(kept) + kept.var(axis=0) / draws)
        assert np.all(np.abs(kept.mean(axis=0) - answer.probabilities[i]) < 5 * error + 1e-4)
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(kept * np.log2(kept), axis=1)
        error_bits = np.sqrt(2 * entropy.var() / len(kept))
        assert abs(entropy.mean() - second.aleatoric_bits[i]) < 5 * error_bits + 1e-4


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (2.0, 5.0), (0.5, 0.5), (0.2, 1.0)])
@pytest.mark.parametrize("populations", [1, 3, 6])
def test_two_orthogonal_labels_give_a_truncated_beta(a, b, populations):
    """At the first class mean itself the cosine rises with theta_1, so {theta_1 >= q} is kept."""
    means = np.eye(2)
    prior = Prior(np.array([a, b]) / (a + b), a + b)
    draws = 3000
    answer = dirichlet(means, means[:1], prior, seed=1, draws=draws, populations=populations)
    expected = concentration_cap(np.array([a, b]), populations)
    q = beta.isf(0.5**populations, a, b)
    grid = beta.isf((np.arange(20000) + 0.5) / 20000 * 0.5**populations, a, b)
    if expected == pytest.approx(grid.mean(), abs=1e-3):  # label 1 is the one the cap is reached by
        error = grid.std() / np.sqrt(draws)
        # The threshold is a quantile of draws: as large an error again.
        assert abs(answer.probabilities[0, 0] - expected) < 5 * 2 * error + 1e-4
    assert abs(answer.probabilities[0, 0] - grid.mean()) < 10 * grid.std() / np.sqrt(draws) + 1e-4
    cosine = q / np.sqrt(q**2 + (1 - q) ** 2)
    assert answer.tolerance[0] == pytest.approx(1 - cosine, abs=0.05)


def test_an_absolute_tolerance_that_nothing_meets_leaves_the_prior():
    problem = toy((5, 5, 5), n_cases=4, seed=9)
    prior = Prior(np.array([0.5, 0.5, 0.0]), 3.0)
    answer = dirichlet(problem.means, -problem.cases, prior, seed=0, tolerance=0.01)
    assert np.all(answer.effective_simulations == 0)
    np.testing.assert_allclose(answer.probabilities, np.tile([0.5, 0.5, 0.0], (4, 1)))
    np.testing.assert_allclose(answer.second_order.alpha0, 3.0)
    assert np.all(answer.second_order.epistemic_bits > 0.1)
