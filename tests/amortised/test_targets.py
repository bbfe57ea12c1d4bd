"""Training observations and targets: leave-one-out means what it says; targets are D-SMC's own answers."""

import numpy as np
import pytest
from scipy.special import gammaln

from simdx.abc.dirichlet import dirichlet, prepare
from simdx.abc.prior import Prior
from simdx.abc.second_order import fit_maximum_likelihood, of_dirichlet
from simdx.abc.space import Space
from simdx.amortised import observations, targets
from simdx.amortised.network import ALPHA_FLOOR
from simdx.types import EmbeddedBank, Float


def density(alpha: Float, statistic: Float) -> Float:
    return gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1) + ((alpha - 1) * statistic).sum(axis=1)


@pytest.mark.parametrize("prior", [Prior.uniform(3), Prior(np.array([0.7, 0.3, 0.0]), 3.0)])
def test_targets_are_what_d_smc_answers(space: Space, prior: Prior) -> None:
    shared = prepare(space.class_means, prior, seed=5, draws=200, populations=5)
    z = space.bank[::4]
    expected = dirichlet(space.class_means, z, prior, seed=5, draws=200, populations=5, shared=shared)
    found = targets.targets_for(shared, z.astype(np.float64) @ space.class_means.T, prior, 200)
    second = expected.second_order
    # Both paths sum in single precision; one draw on the edge of 200 may fall either way.
    assert found.mean == pytest.approx(second.mean, abs=0.006)
    possible = prior.probabilities > 0
    alpha = np.where(possible, found.alpha, 0)
    assert of_dirichlet(alpha).epistemic_bits == pytest.approx(second.epistemic_bits, rel=0.05, abs=0.002)


def test_the_matched_dirichlet_has_that_mean_and_those_bits() -> None:
    mean = np.array([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]])
    wanted = np.array([0.1, 0.02])
    alpha = targets.matched_dirichlet(mean, wanted, np.array([10.0, 10.0]))
    second = of_dirichlet(alpha)
    assert second.mean == pytest.approx(mean)
    assert second.epistemic_bits == pytest.approx(wanted, rel=1e-5)


def test_epistemic_bits_are_those_of_the_dirichlet() -> None:
    alpha = np.random.default_rng(0).gamma(2.0, size=(50, 4)) + targets.ALPHA_FLOOR
    np.testing.assert_allclose(targets.epistemic_bits(alpha), of_dirichlet(alpha).epistemic_bits, rtol=1e-12)


@pytest.fixture(scope="module")
def some(space: Space) -> targets.TrainingSet:
    base = observations.from_bank(space)
    return targets.make_training_set(
        space.class_means, lambda rng, n: observations.spread(rng, base, n), 300,
        prior=Prior.uniform(3), populations=5, seed=1, threads=1,
    )  # fmt: skip


@pytest.mark.parametrize("objective", ["kl", "particles"])
def test_an_objective_is_largest_at_its_own_fit(some: targets.TrainingSet, objective: str) -> None:
    statistic = some.statistic(objective)
    alpha = some.alpha if objective == "kl" else fit_maximum_likelihood(some.mean, statistic)
    best = density(alpha, statistic)
    for factor in (0.8, 1.25):
        assert (density(alpha * factor, statistic) < best).all()


def test_the_objective_mean_has_no_finite_optimum(some: targets.TrainingSet) -> None:
    """The paper's: at the mean, more concentration is always better."""
    statistic = some.statistic("mean")
    values = [density(some.mean * alpha0, statistic) for alpha0 in (10.0, 100.0, 1e3, 1e4, 1e6)]
    assert (np.diff(np.array(values), axis=0) > 0).all()


def test_sampled_priors_are_priors_and_reach_far() -> None:
    rng = np.random.default_rng(0)
    priors = [targets.sample_prior(rng, 6) for _ in range(500)]
    top = np.array([p.probabilities.max() for p in priors])
    assert top.min() == pytest.approx(1 / 6)
    assert top.max() > 0.9
    assert min(p.alpha.min() for p in priors) >= ALPHA_FLOOR * (1 - 1e-9)
    assert {p.probabilities.argmax() for p in priors} == set(range(6))


def test_blocks_fitted_together_are_the_blocks_fitted_alone(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = observations.from_bank(space)
    found = []
    for together in (20, 1):
        monkeypatch.setattr(targets, "BLOCKS_PER_TASK", together)
        done: list[int] = []
        found.append(
            targets.make_training_set(
                space.class_means, lambda rng, n: observations.spread(rng, base, n), 100,
                prior=None, populations=4, seed=1, on_block=done.append,
            )
        )  # fmt: skip
        assert done[-1] == 100
    for name in ("coordinates", "told", "mean", "alpha", "mean_log"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name))
    assert len(np.unique(found[0].told_alpha, axis=0)) == 3  # 40 observations a prior


def test_a_training_set_depends_on_its_seed_and_not_on_its_threads(space: Space) -> None:
    base = observations.from_bank(space)

    def make(seed: int, threads: int) -> targets.TrainingSet:
        return targets.make_training_set(
            space.class_means, lambda rng, n: observations.spread(rng, base, n), 90,
            prior=None, populations=4, seed=seed, threads=threads,
        )  # fmt: skip

    assert np.array_equal(make(1, 1).alpha, make(1, 2).alpha)
    assert not np.array_equal(make(1, 1).alpha, make(2, 1).alpha)


def test_a_bank_row_meets_its_own_label_without_itself(space: Space) -> None:
    coordinates = observations.from_bank(space)
    for row in (0, 13, 30):
        others = np.arange(len(space.bank)) != row
        own = space.label_index[row]
        mean = space.bank[others & (space.label_index == own)].astype(np.float64).mean(axis=0)
        assert coordinates[row, own] == pytest.approx(float(mean @ space.bank[row]), abs=1e-6)
        other = (own + 1) % 3
        assert coordinates[row, other] == pytest.approx(
            float(space.class_means[other] @ space.bank[row]), abs=1e-6
        )


def test_background_rows_are_observations_too(space: Space) -> None:
    coordinates = observations.from_bank(space)
    assert len(coordinates) == len(space.bank) + 3
    assert coordinates[-1] == pytest.approx(space.class_means @ space.background[-1], abs=1e-6)


def test_a_label_with_one_row_keeps_its_coordinate() -> None:
    vectors = np.eye(4, dtype=np.float32)[[0, 1, 2]]
    bank = EmbeddedBank(vectors, np.array([0, 1, 1]), 2, (4,))
    coordinates = observations.from_bank(Space.fit(bank, centre=False))
    assert coordinates[0, 0] == pytest.approx(1.0)
    assert np.isfinite(coordinates).all()


def test_spread_is_keyed_by_its_generator_and_covers_more_than_the_rows(space: Space) -> None:
    base = observations.from_bank(space)
    first = observations.spread(np.random.default_rng(3), base, 5000)
    again = observations.spread(np.random.default_rng(3), base, 5000)
    assert np.array_equal(first, again)
    assert np.isfinite(first).all()
    assert (first.max(axis=0) > base.max(axis=0)).all()
    assert (first.min(axis=0) < base.min(axis=0)).all()
