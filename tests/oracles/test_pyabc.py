"""pyABC as an independent reference: another implementation, the same bank, the same posterior.

The yardstick is this package's own particle engine with as many particles, over many seeds: pyABC's
distance from the exact answer must look like a draw of that. (pyABC interpolates its weighted median
between neighbouring distances, a difference of at most one simulation.)
"""

from types import ModuleType

import numpy as np
import pytest

from simdx.abc.dirichlet import dirichlet
from simdx.abc.multinomial import multinomial
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.bench.engines import make_problem, run_pyabc
from tests.abc.toys import total_variation

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PARTICLES, POPULATIONS, CASES = 300, 4, 3
# pyABC moves simplex particles by a local normal kernel whose weights vary more: about a quarter of our
# effective sample size, so twice our Monte Carlo error.
ROUGHER_KERNEL = 2.0


@pytest.fixture(scope="module")
def pyabc() -> ModuleType:
    """Imported where it is run: it takes seconds."""
    import pyabc

    return pyabc


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """pyABC draws from numpy's global stream; a test must give the same answer every time."""
    np.random.seed(20261115)  # noqa: NPY002


def bound(own: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Per case: mean and spread over seeds of our own particles' distance from the exact answer."""
    gap = np.stack([total_variation(run, exact) for run in own])
    return gap.mean(axis=0) + 5 * gap.std(axis=0, ddof=1)


def test_m_smc(pyabc: ModuleType) -> None:
    problem = make_problem(4, 200, 384, CASES, seed=3)
    bank = (problem.bank, problem.labels, 4, problem.cases, problem.prior)
    exact = multinomial(*bank, kernel="hard", boundary="whole", populations=POPULATIONS).probabilities
    assert 0.4 < exact.max(axis=1).mean() < 0.95
    options = {"particles": PARTICLES, "populations": POPULATIONS}
    own = np.stack(
        [multinomial_smc(*bank, range(CASES), seed=s, **options)[0].probabilities for s in range(20)]
    )
    theirs = np.stack(
        [
            run_pyabc(pyabc, problem, i, "m", PARTICLES, POPULATIONS, "SingleCoreSampler")[1]
            for i in range(CASES)
        ]
    )
    assert np.all(total_variation(theirs, exact) < bound(own, exact))


def test_d_smc(pyabc: ModuleType) -> None:
    problem = make_problem(4, 200, 384, CASES, seed=4)
    exact = dirichlet(
        problem.means, problem.cases, problem.prior, seed=0, draws=20_000, populations=POPULATIONS
    ).probabilities
    options = {"particles": PARTICLES, "populations": POPULATIONS}
    own = np.stack(
        [
            dirichlet_smc(problem.means, problem.cases, problem.prior, range(CASES), seed=s, **options)[
                0
            ].probabilities
            for s in range(20)
        ]
    )
    theirs = np.stack(
        [
            run_pyabc(pyabc, problem, i, "d", PARTICLES, POPULATIONS, "SingleCoreSampler")[1]
            for i in range(CASES)
        ]
    )
    assert np.all(total_variation(theirs, exact) < ROUGHER_KERNEL * bound(own, exact))
