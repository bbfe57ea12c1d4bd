"""The particle engine: Algorithm 1 as the paper runs it, vectorised over particles.

M-SMC particles are labels; each proposal draws a fresh simulation of its label from the bank. Because
weights depend on the label alone, drawing an ancestor and moving it by DiscreteJump is drawing the
label from the moved population, which is what happens here: the same law, one draw instead of two.

D-SMC particles are points of the simplex in additive log-ratio coordinates. Three of four proposals are
ancestors moved by a normal with a share of the population's weighted covariance, the fourth is a prior
draw: weights are then at most four times their normaliser, also under sparse priors whose log-ratios
have tails no normal covers. Prior and proposal density are both taken in those coordinates, so no
Jacobian is lost.

With early stopping off and many particles both agree with the exact engine (M with its whole-atom
form) within Monte Carlo error.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from simdx.abc.dirichlet import concentration_cap, of_dirichlet, of_draws
from simdx.abc.logs import log_dirichlet, logsumexp
from simdx.abc.prior import Prior, prior_rows
from simdx.abc.smc import (
    CaseRun,
    CountedSimulator,
    Particles,
    Row,
    Schedule,
    Simulate,
    check_budget,
    joined,
    pick,
    posterior_of,
    run,
    stream,
)
from simdx.abc.space import Atoms, check_observations, make_atoms, similarity
from simdx.errors import BadInput
from simdx.types import Float, Int, Mask, Posterior, SecondOrder, Trace

DEFENCE = 4  # every fourth D-SMC proposal is a prior draw
KERNEL_SCALE = 0.6  # of the weighted covariance; chosen by effective sample size on simulated toys


def multinomial_smc(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    observations: Float,
    prior: Prior | Float,
    keys: Sequence[int] | Int,
    *,
    seed: int,
    stay: float = 0.5,
    **how: Any,
) -> tuple[Posterior, Trace]:
    """M-SMC by particles on a bank, as a `Schedule` says."""
    schedule = Schedule(**how)
    z = check_observations(observations, bank_vectors.shape[1])
    check_keys(keys, z.shape[0])
    rows = prior_rows(prior, n_labels, z.shape[0])
    atoms = make_atoms(bank_vectors, label_index, n_labels, rows)
    rows = np.broadcast_to(rows, (len(z), n_labels))
    models = (
        BankLabels(atoms, one, row, stream(seed, int(key)), stay)
        for one, row, key in zip(z, rows, keys, strict=True)
    )
    runs = [run(model, schedule) for model in models]
    return joined(runs, schedule)


def dirichlet_smc(
    class_means: Float,
    observations: Float,
    prior: Prior,
    keys: Sequence[int] | Int,
    *,
    seed: int,
    **how: Any,
) -> tuple[Posterior, Trace]:
    """D-SMC by particles, as a `Schedule` says: posterior mean, second-order output and the trace."""
    schedule = Schedule(**how)
    z = check_observations(observations, class_means.shape[1])
    check_keys(keys, z.shape[0])
    if class_means.shape[0] != prior.n_labels:
        raise BadInput(f"there are {class_means.shape[0]} class means and {prior.n_labels} priors")
    cap = concentration_cap(prior.alpha, schedule.populations) if schedule.tolerance is None else None
    if np.count_nonzero(prior.probabilities) == 1:  # nothing to infer
        sure = Row(0.0, 1.0, 0, 0.0, prior.probabilities)
        runs = [CaseRun(np.zeros(0), np.zeros(0), [sure] * schedule.populations, "complete")] * len(z)
    else:
        cases = zip(z, keys, strict=True)
        models = (SimplexPoints(class_means, one, prior, stream(seed, int(key))) for one, key in cases)
        runs = [run(model, schedule) for model in models]
    posteriors = [replace(posterior_of(one), second_order=_second_order(one, prior, cap)) for one in runs]
    return joined(runs, schedule, posteriors)


def multinomial_live(
    simulate: Simulate,
    n_labels: int,
    observations: Float,
    prior: Prior | Float,
    keys: Sequence[int] | Int,
    *,
    seed: int,
    budget: int,
    batch: int = 32,
    stay: float = 0.5,
    **how: Any,
) -> tuple[Posterior, Trace]:
    """M-SMC with a fresh simulation per proposal and at most `budget` simulations per case."""
    z = check_observations(observations, np.atleast_2d(observations).shape[1])
    check_keys(keys, z.shape[0])
    check_budget(budget, batch)
    schedule = Schedule(**how, budget=budget, block=batch, live=True)
    rows = np.broadcast_to(prior_rows(prior, n_labels, len(z)), (len(z), n_labels))
    runs = []
    for case, key in enumerate(keys):
        simulator = CountedSimulator(simulate, budget, z.shape[1])
        model = LiveLabels(simulator, z[case], rows[case], stream(seed, int(key)), stay)
        runs.append(run(model, schedule))
    return joined(runs, schedule)


def _second_order(one: CaseRun, prior: Prior, cap: float | None) -> SecondOrder:
    """Of one case's weighted particles, or the prior's own where nothing was accepted."""
    if one.weight.size:
        second = of_draws(from_log_ratio(one.particles)[None], one.weight[None], cap)
    else:
        second = of_dirichlet(prior.alpha, cap=cap)
    last = one.rows[-1]
    return replace(second, mean=last.mass[None], effective_draws=np.array([last.ess]))


# --------------------------------------------------------------------------- models


def jump_density(population: Float, possible: Mask, stay: float) -> Float:
    """Label distribution of an ancestor from `population` moved by DiscreteJump over possible labels."""
    others = np.maximum(possible.sum(axis=-1, keepdims=True) - 1, 1)
    alone = possible.sum(axis=-1, keepdims=True) == 1
    moved = stay * population + (1 - stay) * (1 - population) / others
    return np.where(alone, population, moved) * possible


class LabelParticles:
    """M-SMC: particles are labels, and `simulate` says what a simulation of each is and how far away."""

    floor: float

    def __init__(self, prior: Float, rng: Generator, stay: float) -> None:
        if not 0 <= stay < 1:
            raise BadInput(f"DiscreteJump's probability to stay is {stay:g}; give one of at least 0, below 1")
        self.prior, self.rng, self.stay = prior, rng, stay
        self.possible = prior > 0
        self.moved = prior  # label distribution of proposals

    @abstractmethod
    def simulate(self, label_probability: Float, size: int) -> tuple[Particles, Float]:
        """`size` labels drawn from (K,) probabilities, and the distances to their simulations."""

    def prior_block(self, size: int) -> tuple[Particles, Float]:
        return self.simulate(self.prior, size)

    def adapt(self, particles: Particles, weight: Float) -> None:
        self.moved = jump_density(self.label_mass(particles, weight), self.possible, self.stay)

    def move_block(self, size: int) -> tuple[Particles, Float]:
        return self.simulate(self.moved, size)

    def weight(self, particles: Particles) -> Float:
        return self.prior[particles] / self.moved[particles]

    def label_mass(self, particles: Particles, weight: Float) -> Float:
        return np.bincount(particles, weights=weight, minlength=len(self.prior)).astype(np.float64)


class BankLabels(LabelParticles):
    """On a bank: each proposal draws one of its label's simulations."""

    def __init__(self, atoms: Atoms, z: Float, prior: Float, rng: Generator, stay: float) -> None:
        super().__init__(prior, rng, stay)
        self.distance = 1 - similarity(z[None], atoms.vectors)[0]
        self.counts = np.bincount(atoms.label, minlength=atoms.n_labels)
        self.starts = np.searchsorted(atoms.label, np.arange(atoms.n_labels))
        self.floor = float(self.distance[self.possible[atoms.label]].min())

    def simulate(self, label_probability: Float, size: int) -> tuple[Particles, Float]:
        first, second = self.rng.random((2, size))
        label = pick(label_probability, first)
        row = self.starts[label] + (second * self.counts[label]).astype(np.int64)
        return label, self.distance[row].astype(np.float64)


class LiveLabels(LabelParticles):
    """With a simulator: every proposal simulates its own label."""

    floor = -np.inf

    def __init__(
        self, simulator: CountedSimulator, z: Float, prior: Float, rng: Generator, stay: float
    ) -> None:
        super().__init__(prior, rng, stay)
        self.simulator, self.z = simulator, z.astype(np.float64)

    def simulate(self, label_probability: Float, size: int) -> tuple[Particles, Float]:
        labels = pick(label_probability, self.rng.random(size))
        vectors = self.simulator(labels, self.rng)
        return labels[: len(vectors)], 1 - vectors @ self.z


class SimplexPoints:
    """D-SMC: particles are log-ratio coordinates of the possible labels."""

    floor = -np.inf

    def __init__(self, class_means: Float, z: Float, prior: Prior, rng: Generator) -> None:
        self.prior, self.rng = prior.probabilities, rng
        self.possible = self.prior > 0
        means = np.asarray(class_means, dtype=np.float32)[self.possible]
        self.alpha = prior.alpha[self.possible]
        self.c = similarity(z[None], means)[0].astype(np.float64)
        self.gram = means.astype(np.float64) @ means.T.astype(np.float64)

    def prior_block(self, size: int) -> tuple[Particles, Float]:
        log_theta = log_dirichlet(self.rng, self.alpha, size)
        return log_ratio(log_theta), self._distance(log_theta)

    def adapt(self, particles: Particles, weight: Float) -> None:
        self.before, self.before_weight = particles, weight
        self.root = _kernel(particles, weight)
        self.inverse = np.linalg.inv(self.root)

    def move_block(self, size: int) -> tuple[Particles, Float]:
        ancestor = pick(self.before_weight, self.rng.random(size))
        noise = self.rng.standard_normal((size, len(self.alpha) - 1))
        x = self.before[ancestor] + noise @ self.root.T
        # Interleaved, so that a population cut off anywhere holds the mixture in these proportions.
        fresh = x[DEFENCE - 1 :: DEFENCE]
        fresh[:] = log_ratio(log_dirichlet(self.rng, self.alpha, len(fresh)))
        return x, self._distance(from_log_ratio(x))

    def weight(self, particles: Particles) -> Float:
        new, old = particles @ self.inverse.T, self.before @ self.inverse.T
        square = np.sum(new**2, axis=1)[:, None] + np.sum(old**2, axis=1) - 2 * new @ old.T
        with np.errstate(divide="ignore"):
            exponent = np.log(self.before_weight) - 0.5 * np.maximum(square, 0)
        constant = np.log(np.diag(self.inverse)).sum() - 0.5 * len(self.inverse) * np.log(2 * np.pi)
        moved = logsumexp(exponent) + constant
        prior = log_prior_in_log_ratio(from_log_ratio(particles), self.alpha)
        ratio = prior - np.logaddexp(moved + np.log(1 - 1 / DEFENCE), prior + np.log(1 / DEFENCE))
        return np.exp(ratio - ratio.max())

    def label_mass(self, particles: Particles, weight: Float) -> Float:
        mean = weight @ np.exp(from_log_ratio(particles))
        out = np.zeros(len(self.prior))
        out[self.possible] = mean / mean.sum()
        return out

    def _distance(self, log_theta: Float) -> Float:
        theta = np.exp(log_theta)
        square = np.einsum("pk,pk->p", theta @ self.gram, theta)
        return 1 - theta @ self.c / np.sqrt(np.maximum(square, 1e-30))


def log_ratio(log_theta: Float) -> Float:
    """Additive log-ratio coordinates against the last component: (…, K) -> (…, K-1)."""
    return log_theta[..., :-1] - log_theta[..., -1:]


def from_log_ratio(x: Float) -> Float:
    """Back to log theta: (…, K-1) -> (…, K)."""
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], 1))], axis=-1)
    return padded - logsumexp(padded, keepdims=True)


def log_prior_in_log_ratio(log_theta: Float, alpha: Float) -> Float:
    """Log density of Dir(alpha) *in log-ratio coordinates*, where the Jacobian adds one to each power."""
    constant = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return np.sum(alpha * log_theta, axis=-1) + constant


def _kernel(x: Float, w: Float) -> Float:
    """Cholesky root of the proposal covariance.

    A share of the weighted covariance, drawn towards its diagonal as far as there are fewer effective
    particles than a covariance needs.
    """
    centred = x - w @ x
    covariance = (centred * w[:, None]).T @ centred
    spread = np.diag(covariance)
    diagonal = np.diag(np.maximum(spread, 1e-6 * spread.max() + 1e-12))
    shrink = min(1.0, len(covariance) * float(np.sum(w**2)))
    covariance = KERNEL_SCALE * ((1 - shrink) * covariance + shrink * diagonal) + 1e-9 * diagonal
    return np.linalg.cholesky(covariance)


def check_keys(keys: Sequence[int] | Int, n: int) -> None:
    if n == 0:
        raise BadInput("there are no cases; give at least one")
    if len(keys) != n:
        raise BadInput(f"there are {len(keys)} case keys for {n} cases; give one per case")
