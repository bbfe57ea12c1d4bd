"""Bits, Dirichlet fits and the cap, against sampling and closed forms."""

import numpy as np
import pytest
from scipy import special
from scipy.stats import dirichlet as scipy_dirichlet

from simdx.abc import logs
from simdx.abc.dirichlet import (
    concentration_cap,
    dirichlet,
    dirichlet_differential_entropy,
    nearest_weight,
    of_dirichlet,
    of_draws,
)
from simdx.abc.logs import log_dirichlet
from simdx.abc.particles import (
    SimplexPoints,
    dirichlet_smc,
    from_log_ratio,
    log_prior_in_log_ratio,
    log_ratio,
)
from simdx.abc.prior import Prior
from simdx.abc.smc import stream
from simdx.abc.space import TIE, similarity
from simdx.errors import BadInput
from simdx.library.likeness import unit
from tests.abc.toys import toy

ALPHAS = [[1.0, 1.0, 1.0], [8.0, 2.0, 0.5], [0.05, 0.1, 0.2], [300.0, 500.0, 200.0]]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_draws_of_a_dirichlet_return_its_closed_form(alpha):
    a = np.array(alpha)
    n = 40_000
    log_theta = log_dirichlet(np.random.default_rng(0), a, n)
    assert np.all(np.isfinite(log_theta))
    got, expected = of_draws(log_theta[None], np.ones((1, n))), of_dirichlet(a)
    theta = np.exp(log_theta)
    np.testing.assert_allclose(got.mean[0], expected.mean[0], atol=5 * theta.std(axis=0).max() / np.sqrt(n))
    entropy = -np.sum(theta * log_theta, axis=1) / np.log(2)
    assert got.aleatoric_bits[0] == pytest.approx(
        expected.aleatoric_bits[0], abs=5 * entropy.std() / np.sqrt(n) + 1e-9
    )
    assert got.total_bits[0] == pytest.approx(got.aleatoric_bits[0] + got.epistemic_bits[0])
    # A ratio of variances of n draws is known to a few times n^-1/2 in relative terms.
    assert got.alpha0[0] == pytest.approx(a.sum(), rel=0.05)
    drawn, closed = (dirichlet_differential_entropy(s.mean * s.alpha0[:, None])[0] for s in (got, expected))
    assert drawn == pytest.approx(closed, rel=0.05, abs=0.1)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_differential_entropy_is_scipys(alpha):
    assert dirichlet_differential_entropy(alpha)[0] == pytest.approx(
        scipy_dirichlet(alpha).entropy() / np.log(2)
    )


def test_impossible_labels_have_no_say():
    full, padded = of_dirichlet([2.0, 3.0]), of_dirichlet([2.0, 0.0, 3.0])
    for name in ("total_bits", "aleatoric_bits", "epistemic_bits", "alpha0"):
        assert getattr(full, name)[0] == pytest.approx(getattr(padded, name)[0])
    entropies = [dirichlet_differential_entropy([alpha]) for alpha in ([2.0, 3.0], [2.0, 0.0, 3.0])]
    assert entropies[0] == pytest.approx(entropies[1])
    assert of_dirichlet([0.0, 4.0]).total_bits[0] == 0


def test_log_ratio_coordinates_go_back_and_have_a_normalised_prior():
    rng = np.random.default_rng(3)
    log_theta = log_dirichlet(rng, np.array([0.3, 1.0, 2.0]), 100)
    np.testing.assert_allclose(from_log_ratio(log_ratio(log_theta)), log_theta, atol=1e-9)
    x = np.linspace(-60, 60, 200_001)
    for alpha in ([1.0, 1.0], [0.4, 2.5]):
        density = np.exp(log_prior_in_log_ratio(from_log_ratio(x[:, None]), np.array(alpha)))
        assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("k", "expected"), [(3, 0.88), (6, 0.58), (7, 0.52), (1000, 0.0045)])
def test_the_cap_of_the_flat_dirichlet(k, expected):
    x = 1 - 2 ** (-5 / (k - 1))
    assert concentration_cap(k, 5) == pytest.approx(x + (1 - x) / k)
    assert concentration_cap(k, 5) == pytest.approx(expected, rel=0.02)
    assert concentration_cap(np.ones(k), 5) == pytest.approx(concentration_cap(k, 5))


def test_no_posterior_exceeds_the_cap_and_orthogonal_labels_reach_it():
    draws = 2000
    for alpha in (np.ones(4), np.array([0.5, 0.2, 0.2, 0.1]), np.array([4.0, 1.0, 1.0, 1.0])):
        prior = Prior(alpha / alpha.sum(), alpha.sum())
        answer = dirichlet(np.eye(4), np.eye(4), prior, seed=0, draws=draws)
        cap = answer.second_order.cap
        slack = 5 * 0.3 / np.sqrt(draws)  # no component's spread exceeds .3 here
        assert answer.probabilities.max() < cap + slack
        assert answer.probabilities.max() > cap - 0.06
    absolute = dirichlet(np.eye(4), np.eye(4), Prior.uniform(4), seed=0, tolerance=0.01)
    assert absolute.second_order.cap is None
    assert absolute.probabilities.max() > concentration_cap(4, 5)


def test_one_possible_label_is_certain():
    one = Prior(np.array([0.0, 1.0, 0.0]), 3.0)
    particles, trace = dirichlet_smc(np.eye(3), np.eye(3), one, range(3), seed=0)
    assert particles.probabilities.tolist() == [[0, 1, 0]] * 3
    assert set(trace.outcome) == {"complete"}
    answer = dirichlet(np.eye(3), np.eye(3), one, seed=0)
    assert answer.probabilities.tolist() == [[0, 1, 0]] * 3
    assert np.all(answer.second_order.total_bits == 0)


def test_more_draws_than_memory_are_refused_with_a_way_out():
    with pytest.raises(BadInput, match="at most"):
        dirichlet(np.eye(3), np.eye(3), Prior.uniform(3), seed=0, populations=40)


# --------------------------------------------------------------------------- parts of the engines


@pytest.mark.parametrize("alpha", [[1.0, 1.0, 1.0], [2.0, 0.5, 0.5]])
def test_d_smc_weights_undo_its_proposals(alpha):
    """Proposals moved from a population in one corner, weighted, must have the prior's expectations.

    No acceptance here: this is importance sampling of the prior, with its own effective sample size.
    """
    problem = toy((5, 5, 5), n_cases=1, seed=0)
    a = np.array(alpha)
    model = SimplexPoints(problem.means, problem.cases[0], Prior(a / a.sum(), a.sum()), stream(0, 1))
    rng = np.random.default_rng(0)
    corner = log_ratio(log_dirichlet(rng, np.array([2.0, 9.0, 2.0]), 60))
    weight = rng.random(60)
    model.adapt(corner, weight / weight.sum())
    proposals, _ = model.move_block(60_000)
    w = model.weight(proposals)
    w /= w.sum()
    theta = np.exp(from_log_ratio(proposals))
    effective = 1 / np.sum(w**2)
    expected = a / a.sum()
    spread = np.sqrt(expected * (1 - expected) / (a.sum() + 1))
    assert np.all(np.abs(w @ theta - expected) < 5 * spread / np.sqrt(effective))
    plain = theta.mean(axis=0)
    assert np.abs(plain - expected).max() > 10 * spread.max() / np.sqrt(effective)  # weights had work to do


def test_draws_tied_at_the_edge_share_the_places_left():
    cosine = np.array([[0.9, 0.5, 0.5, 0.5, 0.1], [0.9, 0.8, 0.5, 0.4, 0.1]], dtype=np.float32)
    weight, total, effective, reached = nearest_weight(cosine, 2)
    np.testing.assert_allclose(weight, [[1, 1 / 3, 1 / 3, 1 / 3, 0], [1, 1, 0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(total, 2)
    np.testing.assert_allclose(effective, [3, 2])
    np.testing.assert_allclose(reached, [0.5, 0.2], rtol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(6, 384), (37, 12), (501, 384), (3200, 6), (60, 33)])
def test_a_cases_cosines_do_not_depend_on_its_batch(n, d):
    rng = np.random.default_rng(1)
    bank, z = (unit(rng.standard_normal((rows, d))).astype(np.float32) for rows in (n, 300))
    together = similarity(z, bank)
    for start, stop in ((0, 1), (5, 7), (10, 43), (100, 264), (299, 300)):
        apart = similarity(z[start:stop], bank)
        np.testing.assert_allclose(apart, together[start:stop], rtol=0, atol=TIE / 2)


def test_logarithms_and_the_digamma_function_are_scipys():
    rng = np.random.default_rng(3)
    x = np.where(rng.random((50, 7)) < 0.1, -np.inf, 300 * rng.standard_normal((50, 7)))
    x[:, 0] = 0
    for name in ("logsumexp", "log_softmax", "softmax"):
        own, theirs = getattr(logs, name)(x, axis=1), getattr(special, name)(x, axis=1)
        np.testing.assert_allclose(own, theirs, rtol=1e-12, atol=1e-12)
    assert logs.logsumexp(np.full((1, 3), -np.inf), axis=1)[0] == -np.inf
    np.testing.assert_allclose(logs.expit(x), special.expit(x), rtol=1e-12)
    assert logs.logit(0.05) == pytest.approx(special.logit(0.05), rel=1e-14)
    positive = 10.0 ** np.linspace(-8, 10, 500)
    np.testing.assert_allclose(logs.digamma(positive), special.digamma(positive), rtol=1e-12, atol=1e-12)
