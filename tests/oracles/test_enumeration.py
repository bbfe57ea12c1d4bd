"""The closed forms against brute force in plain Python."""

import math

import numpy as np
import pytest

from simdx.abc.dirichlet import dirichlet, prepare
from simdx.abc.multinomial import multinomial
from simdx.abc.prior import Prior
from tests.abc.toys import Toy, toy
from tests.oracles import enumeration

COUNTS = [(3, 3), (5, 2, 7), (3, 3, 3, 3, 3, 3), (1, 40, 9, 2), (2,) * 30]


def priors_for(k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(k)
    ragged = rng.dirichlet(np.full(k, 0.5))
    barred = ragged.copy()
    barred[0] = 0
    extreme = np.full(k, 1e-9)
    extreme[-1] = 1
    return [np.full(k, 1 / k), ragged / ragged.sum(), barred / barred.sum(), extreme / extreme.sum()]


def with_ties(problem: Toy) -> Toy:
    """Every third row repeats the row before, whatever its label: exact ties across labels."""
    bank = problem.bank.copy()
    bank[2::3] = bank[1::3][: bank[2::3].shape[0]]
    return Toy(bank, problem.labels, problem.n_labels, problem.cases, problem.truth, problem.centres)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("populations", [1, 2, 5, 12, 40])
def test_hard_forms_are_the_enumerated_ones(counts, ties, populations):
    problem = toy(counts, n_cases=4, seed=len(counts))
    problem = with_ties(problem) if ties else problem
    for prior in priors_for(problem.n_labels):
        call = (problem.bank, problem.labels, problem.n_labels, problem.cases, prior)
        smooth = multinomial(*call, kernel="hard", populations=populations)
        whole = multinomial(*call, kernel="hard", populations=populations, boundary="whole")
        for i, z in enumerate(problem.cases):
            atoms = enumeration.atoms_of(problem.bank, problem.labels, z, prior)
            possible = [a for a in atoms if a[2] > 0]
            expected = enumeration.fractional(possible, problem.n_labels, populations)
            np.testing.assert_allclose(smooth.probabilities[i], expected, atol=1e-9)
            history = enumeration.whole_atom(possible, problem.n_labels, populations)
            np.testing.assert_allclose(whole.probabilities[i], history[-1][2], atol=1e-9)
            np.testing.assert_allclose(whole.tolerance[i], history[-1][0], atol=1e-6)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("bandwidth", [0.002, 0.05, 1.0])
def test_soft_kernel_is_the_enumerated_one(counts, bandwidth):
    problem = with_ties(toy(counts, n_cases=4, seed=1))
    for prior in priors_for(problem.n_labels):
        call = (problem.bank, problem.labels, problem.n_labels, problem.cases, prior)
        answer = multinomial(*call, bandwidth=bandwidth)
        for i, z in enumerate(problem.cases):
            atoms = enumeration.atoms_of(problem.bank, problem.labels, z, prior)
            expected, effective = enumeration.soft(atoms, problem.n_labels, bandwidth)
            slack = 1e-6 / bandwidth + 1e-6
            np.testing.assert_allclose(answer.probabilities[i], expected, atol=slack)
            assert answer.effective_simulations[i] == pytest.approx(effective, rel=10 * slack)


def test_absolute_tolerance_is_the_enumerated_one_and_answers_the_prior_when_nothing_is_near():
    problem = toy((6, 9, 4), n_cases=5, seed=2)
    prior = np.array([0.2, 0.5, 0.3])
    seen = set()
    for tolerance in (0.001, 0.3, 0.6, 1.5):
        answer = multinomial(
            problem.bank, problem.labels, 3, problem.cases, prior, kernel="hard", tolerance=tolerance
        )
        for i, z in enumerate(problem.cases):
            atoms = enumeration.atoms_of(problem.bank, problem.labels, z, prior)
            expected = enumeration.absolute(atoms, 3, tolerance)
            seen.add(expected is None)
            if expected is None:
                assert answer.effective_simulations[i] == 0
                expected = list(prior)
            np.testing.assert_allclose(answer.probabilities[i], expected, atol=1e-9)
    assert seen == {True, False}


@pytest.mark.parametrize("probabilities", [[1 / 3] * 3, [0.6, 0.4, 0.0], [0.98, 0.01, 0.01]])
def test_simplex_form_is_the_enumerated_one(probabilities):
    """Same draws, but mixtures formed in the full space, norms and sorting in plain Python."""
    problem = toy((5, 6, 7), n_cases=3, seed=4)
    prior = Prior(np.array(probabilities), 3.0)
    draws, populations, seed = 6, 3, 11
    shared = prepare(problem.means, prior, seed=seed, draws=draws, populations=populations)
    answer = dirichlet(problem.means, problem.cases, prior, seed=seed, draws=draws, populations=populations)
    possible = [k for k in range(3) if probabilities[k] > 0]
    thetas = shared.features[:, : len(possible)].astype(float)
    assert len(thetas) == draws * 2**populations
    for i, z in enumerate(problem.cases):
        ranked = []
        for theta in thetas:
            mixture = [
                math.fsum(theta[j] * float(problem.means[k][c]) for j, k in enumerate(possible))
                for c in range(z.size)
            ]
            norm = math.sqrt(math.fsum(m * m for m in mixture))
            cosine = math.fsum(m * float(v) for m, v in zip(mixture, z, strict=True)) / norm
            ranked.append((1 - cosine, tuple(theta)))
        kept = [theta for _, theta in sorted(ranked)[:draws]]
        mean = [math.fsum(t[j] for t in kept) / draws for j in range(len(possible))]
        entropy = [-math.fsum(p * math.log2(p) for p in t if p > 0) for t in kept]
        np.testing.assert_allclose(answer.probabilities[i, possible], mean, atol=1e-5)
        assert answer.second_order.aleatoric_bits[i] == pytest.approx(math.fsum(entropy) / draws, abs=1e-4)
        assert answer.tolerance[i] == pytest.approx(sorted(ranked)[draws - 1][0], abs=1e-5)
        # Draws that coincide with a corner to the last bit tie, and share the places left.
        assert answer.effective_simulations[i] >= draws - 1e-6
