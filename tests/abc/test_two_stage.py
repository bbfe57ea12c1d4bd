"""The two-stage engine is the exact one where the search misses nothing, and close to it where it does."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.two_stage import LargeBank, two_stage
from simdx.errors import BadInput
from simdx.types import Float, Int

K, M, D, N = 60, 25, 32, 40


class Everything:
    """A search that misses nothing; `asked` remembers how many it was asked for."""

    def __init__(self, vectors: Float) -> None:
        self.vectors = vectors
        self.asked: list[int] = []

    def nearest(self, observations: Float, count: int) -> tuple[Int, Float]:
        self.asked.append(count)
        cosine = observations @ self.vectors.T
        rows = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
        return rows, np.take_along_axis(cosine, rows, axis=1)


class Forgetful(Everything):
    """Leaves the last quarter of its places empty."""

    def nearest(self, observations: Float, count: int) -> tuple[Int, Float]:
        rows, cosine = super().nearest(observations, count)
        rows[:, -(count // 4) :] = -1
        return rows, cosine


@pytest.fixture
def problem():
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(K, D))
    label = rng.permutation(np.repeat(np.arange(K), rng.integers(M // 2, M, size=K)))
    unit = lambda x: (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)  # noqa: E731
    bank = unit(centres[label] + rng.normal(size=(label.size, D)))
    z = unit(centres[rng.integers(K, size=N)] + rng.normal(size=(N, D)))
    own = rng.dirichlet(np.ones(K), size=N)
    own[:, :20] = 0  # labels a case's prior rules out
    return bank, label, z, [Prior.uniform(K), own / own.sum(1, keepdims=True)]


def distance(a: Float, b: Float) -> Float:
    return 0.5 * np.abs(a - b).sum(axis=1)


@pytest.mark.parametrize("populations", [2, 6, 10])
def test_hard_is_exact_when_the_search_is(problem, populations: int) -> None:
    bank, label, z, priors = problem
    large = LargeBank.prepare(bank, label, K)
    for prior in priors:
        ours = two_stage(
            large, Everything(bank), z, prior, kernel="hard", populations=populations, nearest=16, chunk=7
        )
        reference = exact.multinomial(bank, label, K, z, prior, kernel="hard", populations=populations)
        assert np.allclose(ours.probabilities, reference.probabilities, atol=1e-6)
        assert np.allclose(ours.effective_simulations, reference.effective_simulations, rtol=1e-4)
        assert np.allclose(ours.tolerance, reference.tolerance, atol=1e-5)


def test_hard_asks_for_more_where_the_prior_rules_out_what_was_found(problem) -> None:
    bank, label, z, _ = problem
    only = np.zeros(K)
    only[3] = 1.0
    search = Everything(bank)
    large = LargeBank.prepare(bank, label, K)
    ours = two_stage(large, search, z, Prior(only, K), kernel="hard", populations=3, nearest=8)
    assert max(search.asked) > min(search.asked)
    assert np.allclose(ours.probabilities[:, 3], 1.0)


def test_soft_is_exact_when_everything_is_found(problem) -> None:
    bank, label, z, priors = problem
    large = LargeBank.prepare(bank, label, K)
    for prior in priors:
        ours = two_stage(large, Everything(bank), z, prior, nearest=len(label))
        reference = exact.multinomial(bank, label, K, z, prior)
        assert np.allclose(ours.probabilities, reference.probabilities, atol=1e-5)
        assert np.allclose(ours.effective_simulations, reference.effective_simulations, rtol=1e-3)


def test_soft_is_exact_when_the_sample_holds_the_rest(problem) -> None:
    bank, label, z, priors = problem
    large = LargeBank.prepare(bank, label, K, sampled=M)
    ours = two_stage(large, Everything(bank), z, priors[1], nearest=30)
    reference = exact.multinomial(bank, label, K, z, priors[1])
    assert np.allclose(ours.probabilities, reference.probabilities, atol=1e-5)


def test_the_far_field_is_unbiased_and_lessens_the_error(problem) -> None:
    bank, label, z, priors = problem
    wide = 0.3  # a kernel so wide that what is not found matters
    reference = exact.multinomial(bank, label, K, z, priors[0], bandwidth=wide).probabilities
    search = Everything(bank)

    def answer(seed: int, far_field: bool = True) -> Float:
        large = LargeBank.prepare(bank, label, K, sampled=3, seed=seed)
        return two_stage(
            large, search, z, priors[0], bandwidth=wide, nearest=100, far_field=far_field
        ).probabilities

    without = distance(answer(0, far_field=False), reference).mean()
    draws = np.stack([answer(seed) for seed in range(60)])
    each = np.mean([distance(draw, reference).mean() for draw in draws])
    together = distance(draws.mean(axis=0), reference).mean()
    assert each < 0.6 * without
    # Independent errors average out as 1/sqrt(60) = .13; a ratio's own bias is left, far below that.
    assert together < 0.2 * each


def test_places_the_search_left_empty_count_for_nothing(problem) -> None:
    bank, label, z, priors = problem
    large = LargeBank.prepare(bank, label, K, sampled=M)
    ours = two_stage(large, Forgetful(bank), z, priors[0], nearest=40)
    reference = exact.multinomial(bank, label, K, z, priors[0])
    assert np.allclose(ours.probabilities, reference.probabilities, atol=1e-5)


def test_what_cannot_be_asked(problem) -> None:
    bank, label, z, priors = problem
    large = LargeBank.prepare(bank, label, K)
    with pytest.raises(BadInput, match="no kernel"):
        two_stage(large, Everything(bank), z, priors[0], kernel="round")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="at least one neighbour"):
        two_stage(large, Everything(bank), z, priors[0], nearest=0)
    with pytest.raises(BadInput, match="no simulations"):
        LargeBank.prepare(bank, label, K + 1)
