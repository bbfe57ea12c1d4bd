"""Particles with early stopping off against the exact engine, within Monte Carlo error."""

import numpy as np
import pytest

from simdx.abc.dirichlet import dirichlet
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.abc.prior import Prior
from tests.abc.toys import toy
from tests.oracles import enumeration

SEEDS = 12
slow = pytest.mark.slow  # the fast suite keeps the prior without one of the labels


def z_scores(samples: np.ndarray, limit: np.ndarray, bias: float) -> np.ndarray:
    """How many standard errors the mean over seeds is from the limit, a bias of order 1/S allowed."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(samples.shape[0])
    return np.maximum(np.abs(samples.mean(axis=0) - limit) - bias, 0) / np.maximum(error, 1e-9)


EVEN, SKEWED = ([0.25] * 4, [0.02, 0.4, 0.28, 0.3])


@pytest.mark.parametrize(
    "prior", [[0.55, 0.3, 0.15, 0.0], *(pytest.param(p, marks=slow) for p in (EVEN, SKEWED))]
)
def test_m_smc_converges_to_the_whole_atom_limit(prior):
    """A bank of few, heavy atoms, so that every median is one atom with near certainty.

    Cases are used where each population's cumulative mass stays clear of one half by five standard
    deviations of a median over S particles; there the tolerances must be the limit's exactly and the
    posterior within the Monte Carlo error measured over seeds.
    """
    problem = toy((3, 5, 4, 2), n_cases=60, d=6, seed=5)
    pi, size, populations = np.array(prior), 20_000, 3
    clear, limits = [], []
    for i, z in enumerate(problem.cases):
        atoms = [a for a in enumeration.atoms_of(problem.bank, problem.labels, z, pi) if a[2] > 0]
        cumulative = np.cumsum([a[2] for a in atoms])
        history = enumeration.whole_atom(atoms, 4, populations)
        before = [1.0, *(h[1] for h in history[:-1])]
        gap = min(np.abs(cumulative / kept - 0.5).min() for kept in before)
        if gap > 5 * 0.5 / np.sqrt(0.6 * size):  # weights lose up to 40 % of the sample
            clear.append(i)
            limits.append(history)
    assert len(clear) >= 3, len(clear)
    clear, limits = clear[:6], limits[:6]
    cases = problem.cases[clear]
    tolerance = np.array([[h[0] for h in history] for history in limits]).T
    acceptance = np.array([enumeration.acceptance(history, prior) for history in limits]).T
    sampler = {"particles": size, "populations": populations}
    runs = [
        multinomial_smc(problem.bank, problem.labels, 4, cases, pi, clear, seed=s, **sampler)
        for s in range(SEEDS)
    ]
    for _, trace in runs:
        own = trace.populations
        for j in range(len(clear)):
            assert np.allclose(trace.tolerance[: own[j], j], tolerance[: own[j], j], atol=1e-6)
    mass = np.stack([p.probabilities for p, _ in runs])
    assert np.all(z_scores(mass, np.array([h[-1][2] for h in limits]), bias=2 / size) < 5)
    finished = [j for j in range(len(clear)) if all(t.populations[j] == populations for _, t in runs)]
    assert finished
    rate = np.stack([t.acceptance[:, finished] for _, t in runs])
    assert np.all(z_scores(rate, acceptance[:, finished], bias=4 / size) < 5)


@pytest.mark.parametrize(
    ("alpha0", "prior"), [(1.2, [0.5, 0.3, 0.2, 0.0]), pytest.param(4.0, EVEN, marks=slow)]
)
def test_d_smc_agrees_with_the_exact_engine(alpha0, prior):
    """Means over independent seeds of both engines, compared by their own standard errors."""
    problem = toy((30, 30, 30, 30), n_cases=6, d=16, spread=0.8, seed=7)
    pi = Prior(np.array(prior), alpha0)
    size = 300
    sampled = [
        dirichlet_smc(problem.means, problem.cases, pi, range(6), seed=s, particles=size)
        for s in range(SEEDS)
    ]
    exact = [dirichlet(problem.means, problem.cases, pi, seed=100 + s, draws=size) for s in range(SEEDS)]
    a = np.stack([p.probabilities for p, _ in sampled])
    b = np.stack([p.probabilities for p in exact])
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / SEEDS)
    assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 5 * error + 2 / size)
    bits_a = np.stack([p.second_order.aleatoric_bits for p, _ in sampled])
    bits_b = np.stack([p.second_order.aleatoric_bits for p in exact])
    error = np.sqrt((bits_a.var(axis=0, ddof=1) + bits_b.var(axis=0, ddof=1)) / SEEDS)
    assert np.all(np.abs(bits_a.mean(axis=0) - bits_b.mean(axis=0)) < 5 * error + 4 / size)
    assert np.all(a[..., np.array(prior) == 0] == 0)
