"""Live engines: a simulator callback in place of the bank.

The callback is `simulate(label_indices (m,), rng) -> vectors (m, d)` in the space of the observations;
what is behind it (an LLM and an embedder, or a formula in a test) is none of this module's business.
Calls cost money, so they are drawn in batches, counted and capped (`CountedSimulator`), and a budget
that ends is an outcome, not an error.

live, M    Algorithm 1 as the paper has it: every proposal is a fresh simulation of its own label
live, D    fresh simulations of all labels refresh the class means, round by round, until a case's
           posterior mean has stopped moving

The budget of live M is per case, so that an answer depends neither on the batch nor on the order of cases;
live D shares its simulations and its budget between all cases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from simdx.abc.dirichlet import dirichlet
from simdx.abc.multinomial import jump_density
from simdx.abc.particles import at_the_end, check_keys, check_stay, join
from simdx.abc.prior import Prior, prior_rows
from simdx.abc.smc import Particles, Population, Schedule, pick, run, stream
from simdx.abc.space import check_observations
from simdx.errors import BadInput, RunFailed
from simdx.types import Float, Int, Posterior, Trace, entropy_bits

Simulate = Callable[[Int, Generator], Float]


@dataclass(slots=True)
class CountedSimulator:
    """A simulator that counts its calls and stops at a budget: it then returns fewer rows, or none."""

    simulate: Simulate
    budget: int
    width: int
    calls: int = 0
    batches: int = 0

    @property
    def left(self) -> int:
        return self.budget - self.calls

    def __call__(self, labels: Int, rng: Generator) -> Float:
        labels = np.asarray(labels)[: max(0, self.left)]
        if not labels.size:
            return np.zeros((0, self.width))
        vectors = np.asarray(self.simulate(labels, rng), dtype=np.float64)
        if vectors.shape != (labels.size, self.width):
            raise RunFailed(
                f"the simulator returned an array of shape {vectors.shape} for {labels.size} simulations "
                f"of width {self.width}; it must return one vector per label"
            )
        if not np.all(np.isfinite(vectors)):
            raise RunFailed("the simulator returned NaN or infinite values; check its embedder")
        self.calls += labels.size
        self.batches += 1
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, length, out=vectors, where=length > 1e-12)


# --------------------------------------------------------------------------- live


def multinomial_live(
    simulate: Simulate,
    n_labels: int,
    observations: Float,
    prior: Prior | Float,
    keys: Sequence[int] | Int,
    *,
    seed: int,
    budget: int,
    particles: int = 100,
    populations: int = 5,
    batch: int = 32,
    stay: float = 0.5,
    stop_acceptance: float | None = None,
    tolerance: float | None = None,
) -> tuple[Posterior, Trace]:
    """M-SMC with a fresh simulation per proposal and at most `budget` simulations per case."""
    z = check_observations(observations, np.atleast_2d(observations).shape[1])
    check_keys(keys, z.shape[0])
    check_stay(stay)
    _check_budget(budget, batch)
    schedule = Schedule(particles, populations, stop_acceptance, tolerance, budget, batch, live=True)
    rows = np.broadcast_to(prior_rows(prior, n_labels, z.shape[0]), (z.shape[0], n_labels))
    parts = []
    for case, key in enumerate(keys):
        simulator = CountedSimulator(simulate, budget, z.shape[1])
        model = LiveLabels(simulator, z[case], rows[case], stream(seed, int(key)), stay)
        _, trace = run(model, schedule)
        parts.append((at_the_end(trace), trace))
    return join(parts)


class LiveLabels:
    """M-SMC of one case with a simulator: every proposal simulates its own label."""

    n_cases = 1
    particle_shape: tuple[int, ...] = ()
    particle_type: Any = np.int64

    def __init__(
        self, simulator: CountedSimulator, z: Float, prior: Float, rng: Generator, stay: float
    ) -> None:
        self.simulator, self.z, self.rng, self.stay = simulator, z.astype(np.float64), rng, stay
        self.prior = prior[None, :]
        self.possible = self.prior > 0
        self.moved = self.prior.copy()
        self.floor: Float = np.array([-np.inf])

    def prior_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        return self._simulate(self.prior, size)

    def adapt(self, cases: Int, before: Population) -> None:
        self.moved = jump_density(self._shares(before.particles, before.weight), self.possible, self.stay)

    def move_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        return self._simulate(self.moved, size)

    def weight(self, cases: Int, particles: Particles) -> Float:
        ratio = np.divide(self.prior, self.moved, out=np.zeros_like(self.moved), where=self.moved > 0)
        return ratio[0][particles]

    def label_mass(self, cases: Int, particles: Particles, weight: Float) -> Float:
        return self._shares(particles, weight)[: cases.size]

    def prior_mass(self, cases: Int) -> Float:
        return self.prior[: cases.size]

    def _simulate(self, label_probability: Float, size: int) -> tuple[Particles, Float]:
        labels = pick(label_probability, self.rng.random((1, size)))[0]
        vectors = self.simulator(labels, self.rng)
        return labels[None, : vectors.shape[0]], (1 - vectors @ self.z)[None, :]

    def _shares(self, particles: Particles, weight: Float) -> Float:
        sums = np.bincount(particles.ravel(), weights=weight.ravel(), minlength=self.prior.shape[1])
        return sums.astype(np.float64)[None, :]


def dirichlet_live(
    simulate: Simulate,
    observations: Float,
    prior: Prior,
    *,
    seed: int,
    budget: int,
    batch: int = 8,
    change: float = 0.01,
    draws: int = 100,
    populations: int = 5,
    tolerance: float | None = None,
) -> tuple[Posterior, Trace]:
    """D-SMC on class means of fresh simulations, `batch` per label and round, `budget` in all.

    A case is converged when its posterior mean moved less than `change` (total variation) in two rounds
    running; its answer is frozen there, so it does not depend on how long other cases need. Rows of the
    trace are rounds; simulations are shared by all cases.
    """
    z = check_observations(observations, np.atleast_2d(observations).shape[1])
    possible = np.flatnonzero(prior.probabilities > 0)
    _check_budget(budget, batch)
    if budget < possible.size:
        raise BadInput(f"a budget of {budget} cannot simulate {possible.size} labels once; raise it")
    simulator = CountedSimulator(simulate, budget, z.shape[1])
    rng = stream(seed, 0)
    sums = np.zeros((prior.n_labels, z.shape[1]))
    rounds = _Rounds(z.shape[0])
    calm = np.zeros(z.shape[0], dtype=int)
    count = 0
    while simulator.left >= possible.size and np.any(calm < 2):
        per_label = min(batch, simulator.left // possible.size)
        labels = np.repeat(possible, per_label)
        np.add.at(sums, labels, simulator(labels, rng))
        count += per_label
        posterior = dirichlet(
            sums / count, z, prior, seed=seed, draws=draws, populations=populations, tolerance=tolerance
        )
        move = rounds.add(posterior, np.full(z.shape[0], labels.size), running=calm < 2)
        calm = np.where(calm < 2, np.where(move < change, calm + 1, 0), calm)
    return rounds.finish(np.where(calm >= 2, "complete", "budget"))


# --------------------------------------------------------------------------- books


@dataclass(slots=True)
class _Rounds:
    """Answers round by round; a case that stopped keeps its last one."""

    n_cases: int
    posteriors: list[Posterior] = field(default_factory=list)
    simulations: list[Int] = field(default_factory=list)
    own: Int = field(default_factory=lambda: np.zeros(0, dtype=int))

    def add(self, posterior: Posterior, simulations: Int, running: Any = True) -> Float:
        """Record a round; returns how far each case's posterior moved (one for the first round)."""
        going = np.broadcast_to(np.asarray(running), (self.n_cases,))
        if not self.posteriors:
            self.own = np.ones(self.n_cases, dtype=int)
            self.posteriors.append(posterior)
            self.simulations.append(simulations)
            return np.ones(self.n_cases)
        before = self.posteriors[-1]

        def kept(new: Float, old: Float) -> Float:
            return np.where(going.reshape(-1, *([1] * (new.ndim - 1))), new, old)

        now = posterior.combined(kept, before)
        self.own = self.own + going
        self.posteriors.append(now)
        self.simulations.append(np.where(going, simulations, self.simulations[-1]))
        return 0.5 * np.abs(now.probabilities - before.probabilities).sum(axis=1)

    def finish(self, outcome: Any) -> tuple[Posterior, Trace]:
        last = self.posteriors[-1]
        names = [
            "nothing accepted" if n == 0 else str(o)
            for n, o in zip(last.effective_simulations, outcome, strict=True)
        ]
        mass = np.stack([p.probabilities for p in self.posteriors])
        shape = mass.shape[:2]
        trace = Trace(
            tolerance=np.stack([p.tolerance for p in self.posteriors]),
            acceptance=np.ones(shape),
            simulations=np.stack(self.simulations),
            ess=np.stack([p.effective_simulations for p in self.posteriors]),
            entropy_bits=entropy_bits(mass),
            mass=mass,
            populations=self.own,
            outcome=tuple(names),
        )
        return last, trace


def _check_budget(budget: int, batch: int) -> None:
    if budget < 1 or batch < 1:
        raise BadInput(f"the budget is {budget} and the batch {batch}; both must be at least 1")
