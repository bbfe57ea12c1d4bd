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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from simdx.abc.dirichlet import dirichlet
from simdx.abc.particles import LabelParticles, check_keys
from simdx.abc.prior import Prior, prior_rows
from simdx.abc.smc import Particles, Schedule, joined, pick, posterior_of, run, stream
from simdx.abc.space import check_observations
from simdx.errors import BadInput, RunFailed
from simdx.types import Float, Int, Mask, Posterior, Trace, entropy_bits

Simulate = Callable[[Int, Generator], Float]


@dataclass(slots=True)
class CountedSimulator:
    """A simulator that counts its calls and stops at a budget: it then returns fewer rows, or none."""

    simulate: Simulate
    budget: int
    width: int
    calls: int = 0

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
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, length, out=vectors, where=length > 1e-12)


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
    _check_budget(budget, batch)
    schedule = Schedule(**how, budget=budget, block=batch, live=True)
    rows = np.broadcast_to(prior_rows(prior, n_labels, len(z)), (len(z), n_labels))
    runs = []
    for case, key in enumerate(keys):
        simulator = CountedSimulator(simulate, budget, z.shape[1])
        model = LiveLabels(simulator, z[case], rows[case], stream(seed, int(key)), stay)
        runs.append(run(model, schedule))
    return joined([posterior_of(one) for one in runs], runs, schedule)


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
    n, sums, per_label = len(z), np.zeros((prior.n_labels, z.shape[1])), 0
    rounds: list[Posterior] = []
    simulations: list[Int] = []
    own, calm = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    while simulator.left >= possible.size and np.any(calm < 2):
        more = min(batch, simulator.left // possible.size)
        labels = np.repeat(possible, more)
        np.add.at(sums, labels, simulator(labels, rng))
        per_label += more
        posterior = dirichlet(
            sums / per_label, z, prior, seed=seed, draws=draws, populations=populations, tolerance=tolerance
        )
        running, spent = calm < 2, np.full(n, labels.size)
        own += running
        if rounds:
            posterior = posterior.combined(_chosen(running), rounds[-1])
            spent = np.where(running, spent, simulations[-1])
            move = 0.5 * np.abs(posterior.probabilities - rounds[-1].probabilities).sum(axis=1)
            calm = np.where(running, np.where(move < change, calm + 1, 0), calm)
        rounds.append(posterior)
        simulations.append(spent)
    last, mass = rounds[-1], np.stack([p.probabilities for p in rounds])
    outcome = np.where(calm >= 2, "complete", "budget")
    outcome = np.where(last.effective_simulations == 0, "nothing accepted", outcome)
    trace = Trace(
        tolerance=np.stack([p.tolerance for p in rounds]),
        acceptance=np.ones(mass.shape[:2]),
        simulations=np.stack(simulations),
        ess=np.stack([p.effective_simulations for p in rounds]),
        entropy_bits=entropy_bits(mass),
        mass=mass,
        populations=own,
        outcome=tuple(outcome.tolist()),
    )
    return last, trace


def _chosen(new: Mask) -> Callable[[Float, Float], Float]:
    """Rows of a new column where that is wanted, else of the old one."""
    return lambda one, other: np.where(new.reshape(-1, *([1] * (one.ndim - 1))), one, other)


def _check_budget(budget: int, batch: int) -> None:
    if budget < 1 or batch < 1:
        raise BadInput(f"the budget is {budget} and the batch {batch}; both must be at least 1")
