"""The particle engine: Algorithm 1 as the paper runs it, vectorised over particles and cases.

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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from simdx.abc.logs import log_dirichlet, logsumexp
from simdx.abc.prior import Prior, prior_rows
from simdx.abc.second_order import concentration_cap, of_dirichlet, of_draws, with_prior
from simdx.abc.smc import Particles, Population, Schedule, Streams, pick, run
from simdx.abc.space import Atoms, check_observations, chunk_size, make_atoms, similarity
from simdx.errors import BadInput
from simdx.types import Float, Int, Mask, Posterior, Trace

DEFENCE = 4  # every fourth D-SMC proposal is a prior draw
STEPS = ("tolerance", "acceptance", "simulations", "ess", "entropy_bits", "mass")  # of a trace, (T, N, …)
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
    particles: int = 100,
    populations: int = 5,
    stay: float = 0.5,
    stop_acceptance: float | None = None,
    tolerance: float | None = None,
    budget: int | None = None,
) -> tuple[Posterior, Trace]:
    """M-SMC by particles on a bank. `stop_acceptance` 0.2 is the paper's early stop; None is off."""
    schedule = Schedule(particles, populations, stop_acceptance, tolerance, budget)
    check_stay(stay)
    z = check_observations(observations, bank_vectors.shape[1])
    check_keys(keys, z.shape[0])
    rows = prior_rows(prior, n_labels, z.shape[0])
    atoms = make_atoms(bank_vectors, label_index, n_labels, rows)
    step = chunk_size(max(atoms.vectors.shape[0], 4 * particles))
    parts = []
    for start in range(0, z.shape[0], step):
        part = slice(start, start + step)
        own = np.broadcast_to(rows, (z.shape[0], n_labels))[part]
        model = BankLabels(atoms, z[part], own, Streams(seed, keys[part]), stay)
        _, trace = run(model, schedule)
        parts.append((at_the_end(trace), trace))
    return join(parts)


def dirichlet_smc(
    class_means: Float,
    observations: Float,
    prior: Prior,
    keys: Sequence[int] | Int,
    *,
    seed: int,
    particles: int = 100,
    populations: int = 5,
    stop_acceptance: float | None = None,
    tolerance: float | None = None,
    budget: int | None = None,
) -> tuple[Posterior, Trace]:
    """D-SMC by particles: posterior mean, second-order output and the trace."""
    schedule = Schedule(particles, populations, stop_acceptance, tolerance, budget)
    z = check_observations(observations, class_means.shape[1])
    check_keys(keys, z.shape[0])
    if class_means.shape[0] != prior.n_labels:
        raise BadInput(f"there are {class_means.shape[0]} class means and {prior.n_labels} priors")
    cap = concentration_cap(prior.alpha, populations) if tolerance is None else None
    if np.count_nonzero(prior.probabilities) == 1:
        return _single_label(z.shape[0], prior, populations)
    width = max(particles**2, particles * 8 * prior.n_labels)
    step = max(1, min(256, chunk_size(width)))
    parts = []
    for start in range(0, z.shape[0], step):
        part = slice(start, start + step)
        model = SimplexPoints(class_means, z[part], prior, Streams(seed, keys[part]))
        population, trace = run(model, schedule)
        parts.append((_simplex_posterior(model, population, trace, cap), trace))
    return join(parts)


# --------------------------------------------------------------------------- models


class LabelParticles:
    """M-SMC: particles are labels, and `simulate` says what a simulation of each is and how far away."""

    particle_shape: tuple[int, ...] = ()
    particle_type: Any = np.int64
    floor: Float

    def __init__(self, prior: Float, stay: float) -> None:
        self.prior, self.stay = prior, stay
        self.n_cases = len(prior)
        self.possible = prior > 0
        self.moved = prior.copy()  # label distribution of proposals

    @abstractmethod
    def simulate(self, cases: Int, label_probability: Float, size: int) -> tuple[Particles, Float]:
        """`size` labels a case drawn from (cases, K) probabilities, and distances to their simulations."""

    def prior_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        return self.simulate(cases, self.prior[cases], size)

    def adapt(self, cases: Int, before: Population) -> None:
        share = self.label_mass(cases, before.particles[cases], before.weight[cases])
        self.moved[cases] = jump_density(share, self.possible[cases], self.stay)

    def move_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        return self.simulate(cases, self.moved[cases], size)

    def weight(self, cases: Int, particles: Particles) -> Float:
        moved = self.moved[cases]
        ratio = np.divide(self.prior[cases], moved, out=np.zeros_like(moved), where=moved > 0)
        return np.take_along_axis(ratio, particles, axis=1)

    def label_mass(self, cases: Int, particles: Particles, weight: Float) -> Float:
        rows, k = len(cases), self.prior.shape[1]
        flat = (np.arange(rows)[:, None] * k + particles).ravel()
        sums = np.bincount(flat, weights=weight.ravel(), minlength=rows * k)
        return sums.astype(np.float64).reshape(rows, k)

    def prior_mass(self, cases: Int) -> Float:
        return self.prior[cases]


def jump_density(population: Float, possible: Mask, stay: float) -> Float:
    """Label distribution of an ancestor from `population` moved by DiscreteJump over possible labels."""
    others = np.maximum(possible.sum(axis=-1, keepdims=True) - 1, 1)
    alone = possible.sum(axis=-1, keepdims=True) == 1
    moved = stay * population + (1 - stay) * (1 - population) / others
    return np.where(alone, population, moved) * possible


class BankLabels(LabelParticles):
    """On a bank: each proposal draws one of its label's simulations."""

    def __init__(self, atoms: Atoms, z: Float, prior: Float, streams: Streams, stay: float) -> None:
        super().__init__(prior, stay)
        self.streams = streams
        self.distance = 1 - similarity(z, atoms.vectors)
        self.counts = np.bincount(atoms.label, minlength=atoms.n_labels)
        self.starts = np.searchsorted(atoms.label, np.arange(atoms.n_labels))
        possible = np.where(self.possible[:, atoms.label], self.distance, np.inf)
        self.floor = possible.min(axis=1).astype(np.float64)

    def simulate(self, cases: Int, label_probability: Float, size: int) -> tuple[Particles, Float]:
        u = self.streams.uniform(cases, 2, size)
        label = pick(label_probability, u[:, 0])
        row = self.starts[label] + (u[:, 1] * self.counts[label]).astype(np.int64)
        return label, self.distance[cases[:, None], row].astype(np.float64)


class SimplexPoints:
    """D-SMC: particles are log-ratio coordinates of the possible labels."""

    particle_shape: tuple[int, ...]
    particle_type = np.float64

    def __init__(self, class_means: Float, z: Float, prior: Prior, streams: Streams) -> None:
        self.possible = prior.probabilities > 0
        means = np.asarray(class_means, dtype=np.float32)[self.possible]
        self.alpha = prior.alpha[self.possible]
        self.prior = prior
        self.streams = streams
        self.n_cases = z.shape[0]
        self.particle_shape = (self.alpha.size - 1,)
        self.c = similarity(z, means).astype(np.float64)
        self.gram = means.astype(np.float64) @ means.T.astype(np.float64)
        self.floor = np.full(self.n_cases, -np.inf)
        square = (self.n_cases, self.alpha.size - 1, self.alpha.size - 1)
        self.root, self.inverse = np.empty(square), np.empty(square)

    def prior_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        log_theta = self._prior_draws(cases, size)
        return log_ratio(log_theta), self._distance(cases, log_theta)

    def adapt(self, cases: Int, before: Population) -> None:
        self.before = before
        self.root[cases], self.inverse[cases] = _kernel(before.particles[cases], before.weight[cases])

    def move_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        ancestor = pick(self.before.weight[cases], self.streams.uniform(cases, size))
        noise = self.streams.normal(cases, size, *self.particle_shape)
        x = self.before.particles[cases[:, None], ancestor] + noise @ np.swapaxes(self.root[cases], 1, 2)
        # Interleaved, so that a population cut off anywhere holds the mixture in these proportions.
        fresh = slice(DEFENCE - 1, None, DEFENCE)
        x[:, fresh] = log_ratio(self._prior_draws(cases, x[:, fresh].shape[1]))
        return x, self._distance(cases, from_log_ratio(x))

    def weight(self, cases: Int, particles: Particles) -> Float:
        whiten = np.swapaxes(self.inverse[cases], 1, 2)
        new, old = particles @ whiten, self.before.particles[cases] @ whiten
        square = (
            np.sum(new**2, axis=2)[:, :, None]
            + np.sum(old**2, axis=2)[:, None, :]
            - 2 * new @ np.swapaxes(old, 1, 2)
        )
        with np.errstate(divide="ignore"):
            exponent = np.log(self.before.weight[cases])[:, None, :] - 0.5 * np.maximum(square, 0)
        constant = np.log(np.einsum("nkk->nk", self.inverse[cases])).sum(axis=1)
        constant -= 0.5 * self.particle_shape[0] * np.log(2 * np.pi)
        moved = logsumexp(exponent) + constant[:, None]
        prior = log_prior_in_log_ratio(from_log_ratio(particles), self.alpha)
        ratio = prior - np.logaddexp(moved + np.log(1 - 1 / DEFENCE), prior + np.log(1 / DEFENCE))
        return np.exp(ratio - ratio.max(axis=1, keepdims=True))

    def label_mass(self, cases: Int, particles: Particles, weight: Float) -> Float:
        mean = np.einsum("ns,nsk->nk", weight, np.exp(from_log_ratio(particles)))
        out = np.zeros((particles.shape[0], self.possible.size))
        out[:, self.possible] = mean / mean.sum(axis=1, keepdims=True)
        return out

    def prior_mass(self, cases: Int) -> Float:
        return np.tile(self.prior.probabilities, (cases.size, 1))

    def _prior_draws(self, cases: Int, size: int) -> Float:
        draws = [log_dirichlet(self.streams.generators[case], self.alpha, size) for case in cases]
        return np.stack(draws) if draws else np.zeros((0, size, self.alpha.size))

    def _distance(self, cases: Int, log_theta: Float) -> Float:
        theta = np.exp(log_theta)
        square = np.einsum("npk,npk->np", theta @ self.gram, theta)
        return 1 - np.einsum("npk,nk->np", theta, self.c[cases]) / np.sqrt(np.maximum(square, 1e-30))


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


def _kernel(x: Float, w: Float) -> tuple[Float, Float]:
    """Cholesky root of the proposal covariance per case, and its inverse.

    A share of the weighted covariance, drawn towards its diagonal as far as there are fewer effective
    particles than a covariance needs.
    """
    mean = np.einsum("ns,nsk->nk", w, x)
    centred = x - mean[:, None, :]
    covariance = np.einsum("nsk,nsl->nkl", centred * w[:, :, None], centred, optimize=True)
    size = covariance.shape[1]
    spread = np.einsum("nkk->nk", covariance)
    spread = np.maximum(spread, 1e-6 * spread.max(axis=1, keepdims=True) + 1e-12)
    shrink = np.minimum(1.0, size * np.sum(w**2, axis=1))[:, None, None]
    diagonal = spread[:, :, None] * np.eye(size)
    covariance = KERNEL_SCALE * ((1 - shrink) * covariance + shrink * diagonal) + 1e-9 * diagonal
    root = np.linalg.cholesky(covariance)
    return root, np.linalg.inv(root)


# --------------------------------------------------------------------------- answers


def at_the_end(trace: Trace) -> Posterior:
    """What each case's last own population says."""
    last, each = trace.populations - 1, np.arange(len(trace.populations))
    return Posterior(trace.mass[last, each], trace.ess[last, each], trace.tolerance[last, each])


def _simplex_posterior(
    model: SimplexPoints, population: Population, trace: Trace, cap: float | None
) -> Posterior:
    nothing = population.weight.sum(axis=1) == 0
    # A case the prior answers gets a placeholder point here and the prior's own summary below.
    weight = np.where(nothing[:, None], 1.0, population.weight)
    some = of_draws(from_log_ratio(population.particles), weight, cap)
    kept, end = some.combined(lambda column: column[~nothing]), at_the_end(trace)
    second = with_prior(kept, nothing, model.prior, end.probabilities, end.effective_simulations)
    return replace(end, second_order=second)


def _single_label(n: int, prior: Prior, populations: int) -> tuple[Posterior, Trace]:
    """One possible label: nothing to infer."""
    second = of_dirichlet(np.tile(prior.alpha, (n, 1)), cap=1.0)
    shape = (populations, n)
    trace = Trace(
        tolerance=np.zeros(shape),
        acceptance=np.ones(shape),
        simulations=np.zeros(shape, dtype=np.int64),
        ess=np.zeros(shape),
        entropy_bits=np.zeros(shape),
        mass=np.tile(prior.probabilities, (populations, n, 1)),
        populations=np.full(n, populations),
        outcome=("complete",) * n,
    )
    return Posterior(second.mean, np.zeros(n), np.zeros(n), second), trace


def join(parts: Iterable[tuple[Posterior, Trace]]) -> tuple[Posterior, Trace]:
    """Chunks of cases back into one batch."""
    (first, *rest), traces = zip(*parts, strict=True)
    if not rest:
        return first, traces[0]
    steps = {name: np.concatenate([getattr(t, name) for t in traces], axis=1) for name in STEPS}
    trace = Trace(
        **steps,
        populations=np.concatenate([t.populations for t in traces]),
        outcome=tuple(o for t in traces for o in t.outcome),
    )
    return first.combined(lambda *columns: np.concatenate(columns), *rest), trace


def check_keys(keys: Sequence[int] | Int, n: int) -> None:
    if n == 0:
        raise BadInput("there are no cases; give at least one")
    if len(keys) != n:
        raise BadInput(f"there are {len(keys)} case keys for {n} cases; give one per case")


def check_stay(stay: float) -> None:
    if not 0 <= stay < 1:
        raise BadInput(f"DiscreteJump's probability to stay is {stay:g}; give one of at least 0, below 1")
