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
from simdx.bench.engines import Workload, make_problem, run_pyabc
from simdx.types import Float
from tests.abc.toys import total_variation

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PARTICLES, POPULATIONS, CASES = 300, 4, 3
SAMPLER = {"particles": PARTICLES, "populations": POPULATIONS}
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


def agrees(pyabc: ModuleType, kind: str, problem: Workload, exact: Float, own: Float, slack: float) -> None:
    """Per case: no farther from the exact answer than mean and spread of our own particles over seeds."""
    gap = np.stack([total_variation(run, exact) for run in own])
    bound = gap.mean(axis=0) + 5 * gap.std(axis=0, ddof=1)
    how = (kind, PARTICLES, POPULATIONS, "SingleCoreSampler")
    theirs = np.stack([run_pyabc(pyabc, problem, i, *how)[1] for i in range(CASES)])
    assert np.all(total_variation(theirs, exact) < slack * bound)


def test_m_smc(pyabc: ModuleType) -> None:
    problem = make_problem(4, 200, 384, CASES, seed=3)
    bank = (problem.bank, problem.labels, 4, problem.cases, problem.prior)
    exact = multinomial(*bank, kernel="hard", boundary="whole", populations=POPULATIONS).probabilities
    assert 0.4 < exact.max(axis=1).mean() < 0.95
    own = [multinomial_smc(*bank, range(CASES), seed=s, **SAMPLER)[0].probabilities for s in range(20)]
    agrees(pyabc, "m", problem, exact, np.stack(own), 1.0)


def test_d_smc(pyabc: ModuleType) -> None:
    problem = make_problem(4, 200, 384, CASES, seed=4)
    asked = (problem.means, problem.cases, problem.prior)
    exact = dirichlet(*asked, seed=0, draws=20_000, populations=POPULATIONS).probabilities
    own = [dirichlet_smc(*asked, range(CASES), seed=s, **SAMPLER)[0].probabilities for s in range(20)]
    agrees(pyabc, "d", problem, exact, np.stack(own), ROUGHER_KERNEL)
