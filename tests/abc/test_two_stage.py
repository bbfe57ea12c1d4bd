"""The two-stage engine is exact about what it shortlists and close about the rest."""

import numpy as np
import pytest

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.two_stage import ByClassMeans, LargeBank, two_stage
from simdx.errors import BadInput
from simdx.types import Float, Int

K, M, D, N = 60, 25, 32, 40


class Fixed:
    """A stage one that says the same of every case."""

    def __init__(self, labels: list[int]) -> None:
        self._labels = np.array(labels)

    def labels(self, observations: Float, count: int, bonus: Float) -> Int:
        return np.tile(self._labels[:count], (len(observations), 1))


@pytest.fixture
def problem():
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(K, D))
    label = np.sort(np.repeat(np.arange(K), rng.integers(M // 2, M, size=K)))
    unit = lambda x: (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)  # noqa: E731
    bank = unit(centres[label] + rng.normal(size=(label.size, D)))
    z = unit(centres[rng.integers(K, size=N)] + rng.normal(size=(N, D)))
    own = rng.dirichlet(np.ones(K), size=N)
    own[:, :20] = 0  # labels a case's prior rules out
    priors = [Prior.uniform(K), own / own.sum(1, keepdims=True)]
    return bank, label, z, priors, LargeBank.prepare(bank, label, K)


def distance(a: Float, b: Float) -> Float:
    return 0.5 * np.abs(a - b).sum(axis=1)


@pytest.mark.parametrize("kernel", ["soft", "hard"])
@pytest.mark.parametrize("populations", [3, 8])
def test_exact_when_every_label_is_shortlisted(problem, kernel, populations: int) -> None:
    bank, label, z, priors, large = problem
    for prior in priors:
        ours = two_stage(
            large, ByClassMeans(large), z, prior, kernel=kernel, populations=populations, shortlisted=K
        )
        reference = exact.multinomial(bank, label, K, z, prior, kernel=kernel, populations=populations)
        assert np.allclose(ours.probabilities, reference.probabilities, atol=1e-5)
        assert np.allclose(ours.effective_simulations, reference.effective_simulations, rtol=1e-3)
        assert np.allclose(ours.tolerance, reference.tolerance, atol=1e-5)


def test_bank_rows_may_come_in_any_order(problem) -> None:
    bank, label, z, priors, one = problem
    shuffled = np.random.default_rng(1).permutation(len(label))
    other = LargeBank.prepare(bank[shuffled], label[shuffled], K)
    ours = [two_stage(b, ByClassMeans(b), z, priors[1], shortlisted=10).probabilities for b in (one, other)]
    assert np.allclose(ours[0], ours[1], atol=1e-5)


def test_shortlisted_labels_keep_their_exact_odds(problem) -> None:
    bank, label, z, priors, large = problem
    chosen = [30, 41, 52, 25]
    ours = two_stage(large, Fixed(chosen), z, priors[1], shortlisted=4).probabilities[:, chosen]
    reference = exact.multinomial(bank, label, K, z, priors[1]).probabilities[:, chosen]
    assert np.allclose(
        ours / ours.sum(1, keepdims=True), reference / reference.sum(1, keepdims=True), atol=1e-5
    )


def test_more_shortlisted_labels_mean_less_error_and_the_far_field_pays(problem) -> None:
    bank, label, z, priors, large = problem
    reference = exact.multinomial(bank, label, K, z, priors[0], bandwidth=0.1).probabilities

    def error(shortlisted: int, far_field: bool = True) -> float:
        ours = two_stage(
            large, ByClassMeans(large), z, priors[0], bandwidth=0.1, shortlisted=shortlisted,
            far_field=far_field,
        )  # fmt: skip
        return float(distance(ours.probabilities, reference).mean())

    errors = [error(count) for count in (4, 12, 36)]
    assert errors == sorted(errors, reverse=True)
    assert error(12) < 0.5 * error(12, far_field=False)


def test_impossible_labels_get_nothing_and_are_not_shortlisted(problem) -> None:
    _, _, z, priors, large = problem
    with np.errstate(divide="ignore"):
        bonus = (0.05 * np.log(priors[1])).astype(np.float32)
    assert ByClassMeans(large).labels(z, 10, bonus).min() >= 20
    for kernel in ("soft", "hard"):
        ours = two_stage(large, ByClassMeans(large), z, priors[1], kernel=kernel, shortlisted=10)
        assert np.all(ours.probabilities[:, :20] == 0)
        assert np.allclose(ours.probabilities.sum(1), 1)


def test_where_nothing_possible_is_shortlisted_the_answer_is_the_prior(problem) -> None:
    _, _, z, priors, large = problem
    ours = two_stage(large, Fixed([0, 1]), z, priors[1], shortlisted=2, far_field=False)
    assert np.allclose(ours.probabilities, priors[1])
    assert np.all(ours.effective_simulations == 0)


def test_cases_do_not_depend_on_their_neighbours(problem) -> None:
    _, _, z, priors, large = problem
    together = two_stage(large, ByClassMeans(large), z, priors[0], shortlisted=10).probabilities
    for i in (0, 17):
        alone = two_stage(large, ByClassMeans(large), z[i : i + 1], priors[0], shortlisted=10).probabilities
        assert np.allclose(alone[0], together[i], atol=1e-5)


def test_what_cannot_be_asked(problem) -> None:
    bank, label, z, priors, large = problem
    with pytest.raises(BadInput, match="no kernel"):
        two_stage(large, ByClassMeans(large), z, priors[0], kernel="round")
    with pytest.raises(BadInput, match="at least one label"):
        two_stage(large, ByClassMeans(large), z, priors[0], shortlisted=0)
    with pytest.raises(BadInput, match="no simulations"):
        LargeBank.prepare(bank, label, K + 1)
