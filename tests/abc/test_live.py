"""Live engines with a deterministic simulator: budgets kept, answers those of the exact engine."""

import numpy as np
import pytest

from simdx.abc.dirichlet import dirichlet
from simdx.abc.live import (
    CountedSimulator,
    dirichlet_live,
    multinomial_live,
)
from simdx.abc.multinomial import multinomial
from simdx.abc.prior import Prior
from simdx.errors import BadInput, RunFailed
from tests.abc.toys import total_variation, toy, unit

SMALL = toy((4, 4, 4), n_cases=5, d=12, seed=0)
LARGE = toy((4000, 4000, 4000), n_cases=5, d=12, seed=0)
PRIOR = Prior(np.array([0.3, 0.4, 0.3]), 3.0)
KEYS = [11, 12, 13, 14, 15]


class Fresh:
    """Simulates as the toy's bank was made, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[np.ndarray] = []

    def __call__(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        self.asked.append(np.asarray(labels))
        return unit(LARGE.centres[labels] + rng.standard_normal((len(labels), 12)))

    @property
    def calls(self) -> int:
        return sum(a.size for a in self.asked)


def test_live_m_agrees_with_a_large_bank():
    options = {"budget": 100_000, "particles": 800, "batch": 400, "stop_acceptance": None}
    answer, trace = multinomial_live(Fresh(), 3, LARGE.cases, PRIOR, KEYS, seed=0, **options)
    limit = multinomial(LARGE.bank, LARGE.labels, 3, LARGE.cases, PRIOR, kernel="hard", boundary="whole")
    assert set(trace.outcome) == {"complete"}
    # sampling error, plus the tolerance's own (1/sqrt(S) relative per population)
    bound = np.sqrt(3 / (4 * trace.ess[-1])) + 5 / np.sqrt(800)
    assert np.all(total_variation(answer.probabilities, limit.probabilities) < 2 * bound)


@pytest.mark.parametrize("budget", [1, 60, 150, 333])
def test_live_m_keeps_its_budget_and_says_so(budget):
    fresh = Fresh()
    answer, trace = multinomial_live(
        fresh, 3, LARGE.cases[:2], PRIOR, KEYS[:2], seed=0, budget=budget, stop_acceptance=None
    )
    assert fresh.calls == 2 * budget
    assert np.all(trace.total_simulations == budget)
    assert set(trace.outcome) == {"budget"}
    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1)
    assert max(a.size for a in fresh.asked) <= max(32, min(100, budget))


def test_live_m_never_simulates_an_impossible_label():
    fresh = Fresh()
    prior = Prior(np.array([0.5, 0.0, 0.5]), 3.0)
    answer, _ = multinomial_live(fresh, 3, LARGE.cases, prior, KEYS, seed=0, budget=2000)
    assert 1 not in np.concatenate(fresh.asked)
    assert np.all(answer.probabilities[:, 1] == 0)


def test_live_answers_belong_to_the_case():
    together, _ = multinomial_live(Fresh(), 3, LARGE.cases, PRIOR, KEYS, seed=0, budget=800)
    alone, _ = multinomial_live(Fresh(), 3, LARGE.cases[2], PRIOR, KEYS[2:3], seed=0, budget=800)
    np.testing.assert_allclose(alone.probabilities[0], together.probabilities[2])
    together, _ = dirichlet_live(Fresh(), LARGE.cases, PRIOR, seed=0, budget=3000)
    alone, _ = dirichlet_live(Fresh(), LARGE.cases[2], PRIOR, seed=0, budget=3000)
    np.testing.assert_allclose(alone.probabilities[0], together.probabilities[2], atol=1e-6)


def test_live_d_converges_to_the_large_banks_class_means():
    fresh = Fresh()
    answer, trace = dirichlet_live(
        fresh, LARGE.cases, PRIOR, seed=3, budget=30_000, batch=1000, change=0.005, draws=1000
    )
    limit = dirichlet(LARGE.means, LARGE.cases, PRIOR, seed=3, draws=1000)
    assert set(trace.outcome) == {"complete"}
    assert fresh.calls <= 30_000
    # class means of >= 3000 unit vectors in 12 dimensions are known to about 1/sqrt(3000)
    assert np.all(total_variation(answer.probabilities, limit.probabilities) < 5 / np.sqrt(3000))
    assert answer.second_order is not None


def test_live_d_keeps_its_budget():
    fresh = Fresh()
    _answer, trace = dirichlet_live(fresh, LARGE.cases, PRIOR, seed=0, budget=50, batch=8, change=0.0)
    assert set(trace.outcome) == {"budget"}
    assert fresh.calls == 48  # whole rounds of three labels
    with pytest.raises(BadInput, match="cannot simulate"):
        dirichlet_live(Fresh(), LARGE.cases, PRIOR, seed=0, budget=2)


def test_the_counter_counts_caps_and_checks():
    rng = np.random.default_rng(0)
    counted = CountedSimulator(Fresh(), budget=5, width=12)
    assert counted(np.array([0, 1, 2]), rng).shape == (3, 12)
    assert counted(np.array([0, 1, 2]), rng).shape == (2, 12)
    assert counted(np.array([0]), rng).shape == (0, 12)
    assert (counted.calls, counted.left) == (5, 0)
    with pytest.raises(RunFailed, match="shape"):
        CountedSimulator(lambda labels, rng: np.ones((1, 12)), 5, 12)(np.array([0, 1]), rng)
    with pytest.raises(RunFailed, match="NaN"):
        CountedSimulator(lambda labels, rng: np.full((2, 12), np.nan), 5, 12)(np.array([0, 1]), rng)
    with pytest.raises(BadInput, match="budget"):
        multinomial_live(Fresh(), 3, LARGE.cases, PRIOR, KEYS, seed=0, budget=0)
