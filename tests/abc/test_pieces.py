"""Parts of the engines whose errors an end-to-end comparison would hardly see."""

import numpy as np
import pytest
from scipy import special

from simdx.abc import logs
from simdx.abc.dirichlet import nearest_weight
from simdx.abc.logs import log_dirichlet
from simdx.abc.particles import SimplexPoints, from_log_ratio, log_ratio
from simdx.abc.prior import Prior
from simdx.abc.smc import stream
from simdx.abc.space import similarity
from tests.abc.toys import toy


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
    bank = rng.standard_normal((n, d)).astype(np.float32)
    z = rng.standard_normal((300, d)).astype(np.float32)
    together = similarity(z, bank)
    for start, stop in ((0, 1), (5, 7), (10, 43), (100, 264), (299, 300)):
        np.testing.assert_array_equal(similarity(z[start:stop], bank), together[start:stop])


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
