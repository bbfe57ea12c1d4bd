"""What a network is trained on: observations from simulated text, and what D-SMC says about each.

*Observations* are coordinates c = class_means @ z.
Bank rows are taken leave-one-out: a row's own label mean is recomputed without it, else every training
observation would sit closer to its label than any unseen text can. Real text is more mixed, more off
topic and more varied than a bank, so observations are then spread: mixtures of two rows (of any labels,
or of background descriptions), noise with the covariance of the rows themselves, and a random length,
because text with much that is irrelevant has a smaller cosine with every label at once. All of it is
linear in z up to length, so it is done on c directly.

*Targets* are D-SMC's answers in the form a Dirichlet objective needs.
Every objective here is the expected log density of Dir(alpha) under some distribution of theta,

    lgamma(alpha0) - sum lgamma(alpha_k) + sum (alpha_k - 1) s_k,      s_k = E log theta_k,

and they differ only in whose expectation s is:

particles   the accepted draws themselves: the forward KL to the particle posterior
kl          the Dirichlet with the draws' mean and the draws' own epistemic bits (the default)
mean        a point mass at the draws' mean, s = log E theta: the paper's objective, which has no finite
            optimum; alpha0 grows until the regression residual stops it

A posterior truncated by a tolerance is not a Dirichlet, so the first two differ: the best likelihood
spends its one spread parameter on the tails of log theta and reports more epistemic bits than D-SMC
does; `kl` keeps the mean and the split of uncertainty that an answer shows.

Draws are redrawn for every block of observations, and for every prior, so that the network averages
over their Monte Carlo error instead of learning one realisation of it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import digamma

from simdx.abc.dirichlet import SharedDraws, fit_all_components, nearest_weight, of_dirichlet, prepare
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import ALPHA_FLOOR, prior_input
from simdx.errors import BadInput
from simdx.types import Float, Mask, entropy_bits

# --------------------------------------------------------------------------- observations

NOISE = (0.0, 0.25, 0.5, 1.0)  # standard deviations of noise, in those of the rows themselves
LENGTH = (0.4, 1.25)  # how much shorter or longer than a mixture of rows an observation may be


def from_bank(space: Space) -> Float:
    """(n + m, K): coordinates of every bank row, leave-one-out, and of every background row."""
    means = space.class_means
    bank = space.bank.astype(np.float64)
    coordinates = bank @ means.T
    rows, label = np.arange(len(bank)), space.label_index
    counts = np.bincount(label, minlength=space.n_labels)[label].astype(np.float64)
    own = coordinates[rows, label]
    square = np.einsum("nd,nd->n", bank, bank)
    # A label with a single row has no other row to compare with: its coordinate stays as it is.
    alone = counts < 2
    coordinates[rows, label] = np.where(alone, own, (counts * own - square) / np.maximum(counts - 1, 1))
    if space.background is not None and len(space.background):
        coordinates = np.concatenate([coordinates, space.background.astype(np.float64) @ means.T])
    return coordinates


def from_vectors(space: Space, vectors: Float) -> Float:
    """(n, K): coordinates of texts embedded elsewhere, for training on unlabelled real cases."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(vectors) < 2:
        raise BadInput("training needs at least 2 observations")
    if not np.all(np.isfinite(vectors)):
        raise BadInput("a training observation holds NaN or infinite values; embed the texts again")
    return space.transform(vectors).astype(np.float64) @ space.class_means.T


def spread(rng: np.random.Generator, base: Float, count: int) -> Float:
    """(count, K): observations around `base`; one half of the mixtures are a single row."""
    first, second = rng.integers(len(base), size=(2, count))
    share = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))[:, None]
    mixture = share * base[first] + (1 - share) * base[second]
    covariance = np.cov(base, rowvar=False).reshape(base.shape[1], base.shape[1])
    root = np.linalg.cholesky(covariance + 1e-9 * np.trace(covariance) * np.eye(len(covariance)))
    noise = rng.choice(NOISE, size=(count, 1)) * (rng.standard_normal(base[first].shape) @ root.T)
    length = np.exp(rng.uniform(np.log(LENGTH[0]), np.log(LENGTH[1]), size=(count, 1)))
    return length * (mixture + noise)


# --------------------------------------------------------------------------- targets

Objective = Literal["kl", "particles", "mean"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)

DRAWS = 500
OBSERVATIONS_PER_DRAWS = 400
# A conditioned network must see many priors, so each gets fewer draws and fewer observations.
PRIOR_DRAWS = 250
OBSERVATIONS_PER_PRIOR = 40
LOG_FLOOR = float(digamma(ALPHA_FLOOR))
# A posterior all in one corner has no spread to learn; without a limit such cases alone would set the loss.
ALPHA0_LIMIT = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Observations with their priors and targets, N rows."""

    coordinates: Float  # (N, K)
    told: Float  # (N, 2K) what a conditioned network is told of the prior
    mean: Float  # (N, K) posterior mean
    alpha: Float  # (N, K) the Dirichlet of `kl`
    mean_log: Float  # (N, K) E log theta over the accepted draws

    @property
    def told_alpha(self) -> Float:
        """(N, K) the prior's parameters among what is told."""
        return self.told[:, self.mean.shape[1] :]

    def statistic(self, objective: Objective) -> Float:
        """s of the objective, (N, K)."""
        if objective == "particles":
            return np.maximum(self.mean_log, LOG_FLOOR)
        if objective == "mean":
            return np.log(np.maximum(self.mean, ALPHA_FLOOR**2))
        return digamma(self.alpha) - digamma(self.alpha.sum(axis=1, keepdims=True))


def accepted_moments(shared: SharedDraws, coordinates: Float, keep: int) -> Float:
    """(N, 3K'+1) averages of theta, theta^2, log theta and entropy over the nearest `keep` draws."""
    cosine = coordinates[:, shared.possible].astype(np.float32) @ shared.unit.T
    weight, total, _, _ = nearest_weight(cosine, keep)
    return (weight @ shared.features).astype(np.float64) / total[:, None]


def matched_dirichlet(mean: Float, epistemic: Float, start: Float) -> Float:
    """alpha (N, K) with that mean and those epistemic bits, by bisection on log alpha0 around `start`."""
    low, high = np.log(start) - 3.0, np.log(start) + 3.0
    for _ in range(30):
        middle = (low + high) / 2
        too_wide = of_dirichlet(mean * np.exp(middle)[:, None]).epistemic_bits > epistemic
        low, high = np.where(too_wide, middle, low), np.where(too_wide, high, middle)
    return mean * np.minimum(np.exp((low + high) / 2), ALPHA0_LIMIT)[:, None]


def targets_from(moments: Float, coordinates: Float, told: Float, possible: Mask) -> TrainingSet:
    """D-SMC's answers from the moments of the accepted draws, which may be of several priors."""
    n, k = coordinates.shape
    width = int(possible.sum())
    theta, square, log, entropy = np.split(moments, [width, 2 * width, 3 * width], axis=1)
    theta = theta / theta.sum(axis=1, keepdims=True)
    start = fit_all_components(theta, square).sum(axis=1)
    alpha, mean, mean_log = np.full((n, k), ALPHA_FLOOR), np.zeros((n, k)), np.full((n, k), LOG_FLOOR)
    mean[:, possible] = theta
    mean_log[:, possible] = log
    fitted = matched_dirichlet(theta, np.clip(entropy_bits(theta) - entropy[:, 0], 1e-6, None), start)
    alpha[:, possible] = np.maximum(fitted, ALPHA_FLOOR)
    return TrainingSet(coordinates, told, mean, alpha, mean_log)


def sample_prior(rng: np.random.Generator, n_labels: int) -> Prior:
    """A prior a clinician might hold, right or wrong: even, any, with labels ruled out, or with some named.

    Mostly with alpha0 = K, as a prior given by probabilities has; otherwise anything from a quarter to
    four times that, as given by pseudo-counts.
    """
    kind = rng.random()
    order = rng.permutation(n_labels)
    if kind < 0.1:
        p = np.full(n_labels, 1 / n_labels)
    elif kind < 0.45:
        p = rng.dirichlet(np.ones(n_labels))
    elif kind < 0.6:  # labels ruled out, the others even or any
        left = order[: rng.integers(max(1, n_labels // 2), n_labels)]
        p = np.zeros(n_labels)
        p[left] = 1 / len(left) if rng.random() < 0.5 else rng.dirichlet(np.ones(len(left)))
    else:  # some labels named, the rest shared equally, as on the command line
        named = order[: rng.integers(1, max(2, n_labels // 2 + 1))]
        p = np.zeros(n_labels)
        p[named] = rng.uniform(0.02, 0.97) * rng.dirichlet(np.ones(len(named)))
        rest = np.setdiff1d(order, named)
        p[rest] = (1 - p.sum()) / max(1, len(rest))
    p = p / p.sum()
    alpha0 = n_labels * (1.0 if rng.random() < 0.8 else np.exp(rng.uniform(np.log(0.25), np.log(4))))
    # What is below the floor is the floor to the network, so it must be so to D-SMC as well.
    alpha = np.maximum(p * alpha0, ALPHA_FLOOR)
    return Prior(alpha / alpha.sum(), float(alpha.sum()))


def make_training_set(
    class_means: Float,
    sample: Callable[[np.random.Generator, int], Float],
    count: int,
    *,
    prior: Prior | None,
    populations: int,
    seed: int,
    threads: int = 2,
    on_block: Callable[[int], None] = lambda done: None,
) -> TrainingSet:
    """`count` observations from `sample` with D-SMC's answers; without a prior, each block draws its own."""
    one = prior is not None
    block, keep = (OBSERVATIONS_PER_DRAWS, DRAWS) if one else (OBSERVATIONS_PER_PRIOR, PRIOR_DRAWS)

    def answered(number: int) -> tuple[Float, Float, Float, Mask]:
        rng = np.random.default_rng([seed, 0xAB1, number])
        own = prior if prior is not None else sample_prior(rng, len(class_means))
        draws_seed = int(rng.integers(2**62))
        shared = prepare(class_means, own, seed=draws_seed, draws=keep, populations=populations)
        coordinates = sample(rng, block)
        told = np.tile(prior_input(own), (block, 1))
        return accepted_moments(shared, coordinates, keep), coordinates, told, shared.possible

    parts = []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for part in pool.map(answered, range(-(-count // block))):
            parts.append(part)
            on_block(min(count, len(parts) * block))
    moments, coordinates, told, possible = zip(*parts, strict=True)
    rows = [np.concatenate(column)[:count] for column in (moments, coordinates, told)]
    # A sampled prior leaves no label out, so that all blocks have the same possible ones.
    return targets_from(rows[0], rows[1], rows[2], possible[0])
