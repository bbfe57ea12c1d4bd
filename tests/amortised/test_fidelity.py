"""The comparison itself: its divergence against Monte Carlo, its figures on answers known in advance."""

import numpy as np
import pytest
from scipy.stats import dirichlet

from simdx.abc.prior import Prior
from simdx.abc.second_order import of_dirichlet
from simdx.abc.space import Space
from simdx.amortised import fidelity
from simdx.amortised.network import Network
from simdx.errors import BadInput


def test_the_divergence_of_two_dirichlets() -> None:
    p, q = np.array([3.0, 5.0, 2.0]), np.array([2.0, 4.0, 4.0])
    draws = np.random.default_rng(0).dirichlet(p, size=100_000)
    log_ratio = dirichlet.logpdf(draws.T, p) - dirichlet.logpdf(draws.T, q)
    error = 4 * log_ratio.std() / np.sqrt(len(draws))
    every = np.ones(3, dtype=bool)
    assert fidelity.dirichlet_kl(p[None], q[None], every)[0] == pytest.approx(log_ratio.mean(), abs=error)
    assert fidelity.dirichlet_kl(p[None], p[None], every)[0] == pytest.approx(0, abs=1e-12)


def test_an_impossible_label_does_not_count() -> None:
    p, q = np.array([[3.0, 0.0, 2.0]]), np.array([[2.0, 0.0, 4.0]])
    two = fidelity.dirichlet_kl(p[:, [0, 2]], q[:, [0, 2]], np.ones(2, dtype=bool))
    assert fidelity.dirichlet_kl(p, q, np.array([True, False, True])) == pytest.approx(two)


def known(abi: np.ndarray, dsmc: np.ndarray) -> fidelity.Fidelity:
    kl = fidelity.dirichlet_kl(dsmc, abi, np.ones(dsmc.shape[1], dtype=bool))
    return fidelity.Fidelity(of_dirichlet(dsmc), of_dirichlet(dsmc), of_dirichlet(abi), kl, 2000)


def test_figures_on_answers_known_in_advance() -> None:
    rng = np.random.default_rng(1)
    dsmc = rng.uniform(1, 10, size=(50, 4))
    same = fidelity.summary(known(dsmc, dsmc))
    assert same["agreement"] == 1
    assert same["correlation_of_means"] == pytest.approx(1)
    assert same["alpha0_ratio"]["median"] == pytest.approx(1)
    assert same["epistemic_share_of_ceiling"] == pytest.approx(1)
    assert same["disagreement"]["n"] == 0
    twice = fidelity.summary(known(2 * dsmc, dsmc))
    assert twice["agreement"] == 1
    assert twice["alpha0_ratio"]["median"] == pytest.approx(2)
    assert twice["kl_nats"]["median"] > 0.1


def test_the_disagreement_set_is_described() -> None:
    dsmc = np.array([[5.0, 1, 1], [1, 5, 1], [3.1, 3.0, 1], [1, 1, 5]])
    abi = np.array([[5.0, 1, 1], [1, 5, 1], [3.0, 3.1, 1], [1, 1, 5]])
    found = fidelity.summary(known(abi, dsmc), np.array([0, 1, 1, -1]))
    assert found["disagreement"]["n"] == 1
    assert found["disagreement"]["dsmc_margin"]["median"] == pytest.approx(0.1 / 7.1)
    assert found["disagreement"]["accuracy"] == {"n": 1, "d-smc": 0.0, "abi": 1.0}
    assert found["accuracy"]["n"] == 3
    assert found["agreement"] == 0.75


def test_no_cases_is_refused(plain: Network, space: Space) -> None:
    with pytest.raises(BadInput, match="no cases"):
        fidelity.compare(plain, space, np.zeros((0, 256)), Prior.uniform(3))
