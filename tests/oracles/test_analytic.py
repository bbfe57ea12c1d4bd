"""Problems whose posterior is known in closed form, and simulation-based calibration on them.

Rank statistics are uniform for exact ABC (tolerance below the spacing of a discrete summary) and for
*noisy* ABC (the observation perturbed by the kernel), not for ordinary finite-tolerance ABC, so they
are asserted for those two only.
"""

import numpy as np
import pytest
from scipy.stats import betabinom, kstest, norm

from simdx.abc.dirichlet import dirichlet, prepare
from simdx.abc.multinomial import multinomial
from simdx.abc.particles import multinomial_smc
from simdx.abc.prior import Prior
from simdx.types import Posterior
from tests.abc.toys import on_circle, total_variation

TRIALS = 20
SPACING = 0.1  # radians between neighbouring counts
SHAPES = np.array([[2.0, 6.0], [4.0, 4.0], [7.0, 2.0]])
PI = np.array([0.5, 0.3, 0.2])


def counts_bank(per_label: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Label k: success probability ~ Beta(shape_k), then a binomial count; embedded as an angle."""
    labels = np.repeat(np.arange(3), per_label)
    p = rng.beta(SHAPES[labels, 0], SHAPES[labels, 1])
    return rng.binomial(TRIALS, p), labels


def at_counts(counts: np.ndarray, labels: np.ndarray, seen: np.ndarray, prior: np.ndarray) -> Posterior:
    """Exact ABC: neighbouring counts are 1 - cos(0.1) = .005 apart."""
    bank, z = on_circle(counts * SPACING), on_circle(seen * SPACING)
    return multinomial(bank, labels, 3, z, prior, kernel="hard", tolerance=1e-4)


def conjugate_posterior(count: np.ndarray) -> np.ndarray:
    like = np.stack([betabinom.pmf(count, TRIALS, a, b) for a, b in SHAPES], axis=1) * PI
    return like / like.sum(axis=1, keepdims=True)


def rank_of_truth(posterior: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomised rank of a discrete truth: uniform exactly when the posterior is calibrated."""
    below = np.cumsum(posterior, axis=1) - posterior
    rows = np.arange(truth.size)
    return below[rows, truth] + rng.random(truth.size) * posterior[rows, truth]


def test_conjugate_beta_binomial():
    rng = np.random.default_rng(0)
    counts, labels = counts_bank(40_000, rng)
    seen = np.arange(0, TRIALS + 1, 2)
    answer = at_counts(counts, labels, seen, PI)
    expected = conjugate_posterior(seen)
    # Each posterior is a ratio of three binomial proportions of 40,000.
    pmf = np.stack([betabinom.pmf(seen, TRIALS, a, b) for a, b in SHAPES], axis=1)
    relative = np.sqrt((1 - pmf) / (pmf * 40_000))
    bound = 5 * np.sqrt(2) * (relative * expected * (1 - expected)).sum(axis=1)
    assert np.all(total_variation(answer.probabilities, expected) < bound)


def test_gaussian_labels_in_one_dimension():
    """x | y ~ N(mu_y, sigma): a narrow tolerance returns the ratio of densities."""
    rng = np.random.default_rng(1)
    mu, sigma, per_label = np.array([-0.3, 0.0, 0.5]), 0.25, 40_000
    labels = np.repeat(np.arange(3), per_label)
    x = rng.normal(mu[labels], sigma)
    seen = np.linspace(-0.6, 0.8, 9)
    density = norm.pdf(seen[:, None], mu, sigma) * PI
    expected = density / density.sum(axis=1, keepdims=True)
    half_width = 0.02
    answer = multinomial(
        on_circle(x), labels, 3, on_circle(seen), PI, kernel="hard", tolerance=float(1 - np.cos(half_width))
    )
    near = 2 * half_width * norm.pdf(seen[:, None], mu, sigma) * per_label
    sampling = (expected * (1 - expected) / np.sqrt(np.maximum(near, 1))).sum(axis=1)
    smoothing = 0.5 * half_width**2 / sigma**2  # second-order bias of averaging a density over the window
    assert np.all(total_variation(answer.probabilities, expected) < 5 * sampling + 3 * smoothing)
    options = {"seed": 0, "particles": 1000, "populations": 6, "tolerance": float(1 - np.cos(half_width))}
    particles, trace = multinomial_smc(on_circle(x), labels, 3, on_circle(seen), PI, range(9), **options)
    assert set(trace.outcome) == {"complete"}
    noise = np.sqrt(3 / (4 * trace.ess[-1]))
    assert np.all(total_variation(particles.probabilities, answer.probabilities) < 4 * noise)


def test_sbc_of_exact_abc_and_its_power():
    rng = np.random.default_rng(2)
    counts, labels = counts_bank(40_000, rng)
    truth = rng.choice(3, p=PI, size=3000)
    seen = rng.binomial(TRIALS, rng.beta(SHAPES[truth, 0], SHAPES[truth, 1]))
    distinct, back = np.unique(seen, return_inverse=True)

    def ranks(prior: np.ndarray) -> np.ndarray:
        answer = at_counts(counts, labels, distinct, prior)
        return rank_of_truth(answer.probabilities[back], truth, rng)

    assert kstest(ranks(PI), "uniform").pvalue > 1e-3
    assert kstest(ranks(np.full(3, 1 / 3)), "uniform").pvalue < 1e-3  # the check sees a wrong prior


def test_sbc_of_noisy_abc():
    """At a tolerance too wide for exact ABC, perturbing the observation restores calibration."""
    rng = np.random.default_rng(3)
    mu, sigma, reach = np.array([-0.3, 0.0, 0.4]), 0.15, 0.5
    labels = np.repeat(np.arange(3), 3_000)
    bank = on_circle(rng.normal(mu[labels], sigma))
    truth = rng.choice(3, p=PI, size=2000)
    x = rng.normal(mu[truth], sigma)
    tolerance = float(1 - np.cos(reach))

    def ranks(angle: np.ndarray) -> np.ndarray:
        answer = multinomial(bank, labels, 3, on_circle(angle), PI, kernel="hard", tolerance=tolerance)
        return rank_of_truth(answer.probabilities, truth, rng)

    assert kstest(ranks(x + rng.uniform(-reach, reach, x.size)), "uniform").pvalue > 1e-3
    assert kstest(ranks(x), "uniform").pvalue < 1e-3  # without the noise it is not calibrated


def test_sbc_of_noisy_d_smc():
    """theta ~ Dir, z the perturbed mixture: the rank of theta_1 among accepted draws is uniform."""
    rng = np.random.default_rng(4)
    means = on_circle(np.array([0.0, np.pi / 2]))
    prior = Prior.uniform(2)
    truth = rng.dirichlet([1.0, 1.0], size=600)
    mixture = truth @ means
    angle = np.arctan2(mixture[:, 1], mixture[:, 0])
    reach = 0.3
    z = on_circle(angle + rng.uniform(-reach, reach, angle.size))
    shared = prepare(means, prior, seed=5, draws=2000, populations=1)
    answer = dirichlet(
        means, z, prior, seed=5, draws=2000, populations=1, tolerance=float(1 - np.cos(reach)), shared=shared
    )
    drawn = shared.features[:, 0].astype(float)
    unit = drawn[:, None] * means[0] + (1 - drawn[:, None]) * means[1]
    drawn_angle = np.arctan2(unit[:, 1], unit[:, 0])
    z_angle = np.arctan2(z[:, 1], z[:, 0])
    ranks = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        kept = drawn[np.abs(drawn_angle - z_angle[i]) <= reach]
        assert answer.effective_simulations[i] == pytest.approx(kept.size, abs=1)
        assert answer.probabilities[i, 0] == pytest.approx(kept.mean(), abs=2 / kept.size + 1e-4)
        ranks[i] = (np.sum(kept < truth[i, 0]) + rng.random()) / (kept.size + 1)
    assert kstest(ranks, "uniform").pvalue > 1e-3
