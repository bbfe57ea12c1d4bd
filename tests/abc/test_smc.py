"""The SMC loop's stopping rules, budgets and books, and the streams under it."""

import numpy as np
import pytest

from simdx.abc.dirichlet import dirichlet, dirichlet_live
from simdx.abc.multinomial import multinomial
from simdx.abc.particles import dirichlet_smc, multinomial_live, multinomial_smc
from simdx.abc.prior import Prior
from simdx.abc.smc import CountedSimulator, pick
from simdx.errors import BadInput, RunFailed
from simdx.types import Trace
from tests.abc.toys import Toy, total_variation, toy, unit
from tests.oracles import enumeration

PRIOR = Prior(np.array([0.3, 0.4, 0.3]), 3.0)


@pytest.fixture(scope="module")
def problem() -> Toy:
    return toy((60, 60, 60), n_cases=12, d=16, seed=0)


def m_smc(problem: Toy, **options):
    keys = range(problem.cases.shape[0])
    return multinomial_smc(problem.bank, problem.labels, 3, problem.cases, PRIOR, keys, seed=1, **options)


def check_books(trace: Trace, posterior) -> None:
    """What holds for every trace."""
    steps, n = trace.tolerance.shape
    assert trace.mass.shape[:2] == (steps, n)
    assert len(trace.outcome) == n
    np.testing.assert_allclose(trace.mass.sum(axis=2), 1, atol=1e-9)
    assert np.all((trace.populations >= 1) & (trace.populations <= steps))
    for i, own in enumerate(trace.populations):
        assert np.all(np.diff(trace.tolerance[:own, i]) <= 1e-6)
        for rows in (trace.tolerance, trace.acceptance, trace.simulations, trace.ess, trace.mass):
            assert np.all(rows[own:, i] == rows[own - 1, i])
        np.testing.assert_allclose(posterior.probabilities[i], trace.mass[own - 1, i])


def test_a_full_run(problem):
    answer, trace = m_smc(problem)
    check_books(trace, answer)
    assert set(trace.outcome) == {"complete"}
    assert np.all(np.diff(trace.tolerance, axis=0) < 0)
    # S accepted out of `simulations` proposals; the first population also paid for 100 calibration draws.
    np.testing.assert_allclose(trace.acceptance[1:], 100 / trace.simulations[1:])
    np.testing.assert_allclose(trace.acceptance[0], 100 / (trace.simulations[0] - 100))
    assert np.all((trace.ess > 1) & (trace.ess <= 100 + 1e-9))
    p = PRIOR.probabilities.tolist()
    atoms = [enumeration.atoms_of(problem.bank, problem.labels, z, p) for z in problem.cases]
    limit = np.array([enumeration.acceptance(enumeration.whole_atom(a, 3, 5), p) for a in atoms])
    # Twelve cases of 100 particles: a rate of about p has a standard error of p / sqrt(1200) at least.
    np.testing.assert_allclose(trace.acceptance.mean(axis=1), limit.mean(axis=0), rtol=0.25)


def test_the_papers_early_stop(problem):
    answer, trace = m_smc(problem, stop_acceptance=0.2, populations=8)
    check_books(trace, answer)
    stopped = [i for i, o in enumerate(trace.outcome) if o == "acceptance"]
    assert len(stopped) == 12
    for i in stopped:
        own = trace.populations[i]
        assert trace.acceptance[own - 1, i] < 0.2
        assert np.all(trace.acceptance[: own - 1, i] >= 0.2)


def test_the_floor_of_a_small_bank():
    """Medians stop where the outermost simulation kept holds half of the mass, as they do in the limit.

    Masses of which no sum is near half of another, or the sampler would toss a coin between two atoms.
    """
    small = toy((1, 1, 1), n_cases=6, seed=1)
    prior = Prior(np.array([0.33, 0.44, 0.23]), 3.0)
    bank = (small.bank, small.labels, 3, small.cases, prior)
    answer, trace = multinomial_smc(*bank, range(6), seed=1, populations=12, particles=4000)
    check_books(trace, answer)
    assert set(trace.outcome) == {"floor"}
    limit = multinomial(*bank, kernel="hard", boundary="whole", populations=12)
    np.testing.assert_allclose(answer.tolerance, limit.tolerance, atol=1e-6)


def test_a_budget_that_ends_says_so_and_keeps_the_last_population(problem):
    answer, trace = m_smc(problem, budget=700)
    check_books(trace, answer)
    assert set(trace.outcome) == {"budget"}
    assert np.all(trace.total_simulations == 700)
    _, reference = m_smc(problem)
    for i, own in enumerate(trace.populations):
        np.testing.assert_allclose(answer.probabilities[i], reference.mass[own - 1, i])


def test_a_budget_below_one_population_answers_with_what_was_accepted(problem):
    answer, trace = m_smc(problem, budget=150)
    check_books(trace, answer)
    assert set(trace.outcome) == {"budget"}
    assert np.all(answer.effective_simulations < 50)
    answer, trace = m_smc(problem, budget=100)
    assert set(trace.outcome) == {"nothing accepted"}
    np.testing.assert_allclose(answer.probabilities, np.tile(PRIOR.probabilities, (12, 1)))


def test_a_hopeless_tolerance_ends_at_once_with_the_prior(problem):
    answer, trace = m_smc(problem, tolerance=1e-5)
    check_books(trace, answer)
    assert set(trace.outcome) == {"nothing accepted"}
    assert np.all(answer.effective_simulations == 0)
    np.testing.assert_allclose(answer.probabilities, np.tile(PRIOR.probabilities, (12, 1)))
    assert trace.total_simulations.max() < 10_000  # the bank's floor is known, the budget is not burnt
    simplex, trace = dirichlet_smc(
        problem.means, -problem.cases, PRIOR, range(12), seed=0, tolerance=1e-5, budget=3000
    )
    assert set(trace.outcome) == {"nothing accepted"}
    np.testing.assert_allclose(simplex.probabilities, np.tile(PRIOR.probabilities, (12, 1)))
    assert np.all(simplex.second_order.alpha0 == 3.0)
    assert np.all(np.isfinite(simplex.second_order.aleatoric_bits))


def test_an_absolute_tolerance_is_reached_and_not_passed(problem):
    answer, trace = m_smc(problem, tolerance=0.45, populations=6)
    check_books(trace, answer)
    assert set(trace.outcome) == {"complete"}
    np.testing.assert_allclose(answer.tolerance, 0.45)
    assert trace.populations.min() < 6  # easy cases get there early


def test_d_smc_books(problem):
    answer, trace = dirichlet_smc(problem.means, problem.cases, PRIOR, range(12), seed=0)
    check_books(trace, answer)
    second = answer.second_order
    assert second.cap is not None
    np.testing.assert_allclose(second.total_bits, second.aleatoric_bits + second.epistemic_bits)
    stopped, trace = dirichlet_smc(
        problem.means, problem.cases, PRIOR, range(12), seed=0, stop_acceptance=0.3
    )
    assert "acceptance" in trace.outcome
    check_books(trace, stopped)


def test_settings_that_cannot_work_are_refused(problem):
    wrong = {
        "particles": 1,
        "populations": 0,
        "budget": 0,
        "stop_acceptance": 1.0,
        "tolerance": -1.0,
        "stay": 1.0,
    }
    for name, value in wrong.items():
        with pytest.raises(BadInput):
            m_smc(problem, **{name: value})
    with pytest.raises(BadInput, match="key"):
        multinomial_smc(problem.bank, problem.labels, 3, problem.cases, PRIOR, [1], seed=0)


def test_pick_follows_its_weights_and_never_takes_zero():
    rng = np.random.default_rng(0)
    weight = np.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
    share = np.bincount(pick(weight, rng.random(40_000)), minlength=6) / 40_000
    assert np.all(share[weight == 0] == 0)
    assert np.all(np.abs(share - weight) < 5 * np.sqrt(0.25 / 40_000))
    assert pick(weight, np.array([0.0, np.nextafter(1, 0)])).tolist() == [1, 4]


# --------------------------------------------------------------------------- with a simulator


LARGE = toy((4000, 4000, 4000), n_cases=5, d=12, seed=0)
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
