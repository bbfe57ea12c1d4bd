"""The sequential Monte Carlo loop of the paper's Algorithm 1, over many cases at once.

A `Model` knows how to propose particles and measure their discrepancy; this loop knows tolerances,
acceptance, weights and when to stop. Population t accepts S proposals within the tolerance eps_t, where
eps_1 is the median of S prior simulations and eps_{t+1} the weighted median of population t. A case
ends with one of these outcomes:

complete           all T populations ran (or the absolute tolerance asked for was reached)
acceptance         acceptance fell below the early-stop threshold after a population
floor              the median no longer tightens: the outermost block kept holds half of the mass
budget             the proposal budget ran out; the answer is the last complete population, or what was
                   accepted so far where there is none or an absolute tolerance was being tried
nothing accepted   no proposal came within the absolute tolerance; the answer is the prior

A case's random stream is keyed by (seed, content hash of the case), not by its place in a batch, and drawn
from in blocks of a fixed size: neither the batch nor the number of workers changes what it draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from simdx.abc.space import TIE
from simdx.errors import BadInput
from simdx.types import Float, Int, Trace, entropy_bits

MASK = 2**64 - 1
Particles = NDArray[Any]  # (N, S) labels or (N, S, K-1) log-ratio coordinates


@dataclass(slots=True)
class Population:
    """Weighted particles of N cases. A case's unused slots have weight zero."""

    particles: Particles  # (N, S, ...)
    distance: Float  # (N, S)
    weight: Float  # (N, S), rows sum to one, or to zero where there is no population


class Model(Protocol):
    """What the loop needs to know of a problem; every method acts on the given cases at once."""

    n_cases: int
    particle_shape: tuple[int, ...]  # trailing shape of one particle
    particle_type: Any
    floor: Float  # (N,) no simulation can be nearer than this; -inf where unknown

    def prior_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        """`size` prior proposals per case and their distances."""

    def adapt(self, cases: Int, before: Population) -> None:
        """Fit these cases' proposals to the population before; `before` holds all cases."""

    def move_block(self, cases: Int, size: int) -> tuple[Particles, Float]:
        """`size` proposals per case from the adapted proposal, and their distances."""

    def weight(self, cases: Int, particles: Particles) -> Float:
        """Unnormalised importance weights: prior over the adapted proposal's density."""

    def label_mass(self, cases: Int, particles: Particles, weight: Float) -> Float:
        """(A, K) posterior over labels of weighted particles."""

    def prior_mass(self, cases: Int) -> Float:
        """(A, K) the prior over labels."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to refine, and how much it may cost."""

    particles: int = 100
    populations: int = 5
    stop_acceptance: float | None = None
    tolerance: float | None = None
    budget: int | None = None  # proposals per case; 2000 per particle unless set
    block: int | None = None  # proposals drawn together; part of what fixes a case's stream
    live: bool = False  # simulations cost money: pay for whole blocks, let calibration draws count

    def __post_init__(self) -> None:
        if self.particles < 2:
            raise BadInput(f"there are {self.particles} particles; give at least 2")
        if self.populations < 1:
            raise BadInput(f"there are {self.populations} populations; give at least 1")
        if self.budget is not None and self.budget < 1:
            raise BadInput(f"the budget is {self.budget}; give at least 1")
        if self.stop_acceptance is not None and not 0 <= self.stop_acceptance < 1:
            raise BadInput("the acceptance threshold must be at least 0 and below 1")
        if self.tolerance is not None and not (np.isfinite(self.tolerance) and self.tolerance >= 0):
            raise BadInput(f"the tolerance is {self.tolerance}; give a finite distance of at least 0")

    @property
    def limit(self) -> int:
        return self.budget if self.budget is not None else 2000 * self.particles

    @property
    def block_size(self) -> int:
        return self.block if self.block is not None else 2 * self.particles


def weighted_median(value: Float, weight: Float) -> Float:
    """Per row the smallest value at which half of the weight is reached."""
    order = np.argsort(value, axis=1, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    half = 0.5 * cumulative[:, -1:] * (1 - 1e-9)
    at = np.argmax(cumulative >= half, axis=1)
    return np.take_along_axis(value, np.take_along_axis(order, at[:, None], axis=1), axis=1)[:, 0]


def run(model: Model, schedule: Schedule) -> tuple[Population, Trace]:
    """All populations of all cases. The population returned has weight zero where the prior answers."""
    n, size, steps = model.n_cases, schedule.particles, schedule.populations
    everyone = np.arange(n)
    ledger = _Ledger(n, steps, model.prior_mass(everyone))
    population = Population(
        np.zeros((n, size, *model.particle_shape), dtype=model.particle_type),
        np.full((n, size), np.inf),
        np.zeros((n, size)),
    )
    calibration = min(size, schedule.limit)
    first, distance = model.prior_block(everyone, calibration)
    ledger.spent += calibration
    epsilon = weighted_median(distance, np.ones_like(distance))
    ledger.pending += calibration
    target = schedule.tolerance
    if target is not None:
        epsilon = np.maximum(epsilon, target) if steps > 1 else np.full(n, float(target))
    active = everyone
    for t in range(steps):
        if t:
            model.adapt(active, population)
        head = None if t else (first, distance)
        accepted, filled, used = _fill(model, schedule, active, epsilon, head, ledger)
        whole = filled == size
        done = active[whole]
        if t:
            raw = model.weight(done, accepted.particles[whole])
        else:
            raw = np.ones((done.size, size))
        population.particles[done] = accepted.particles[whole]
        population.distance[done] = accepted.distance[whole]
        population.weight[done] = raw / raw.sum(axis=1, keepdims=True)
        mass = model.label_mass(done, population.particles[done], population.weight[done])
        ledger.record(t, done, epsilon[done], size / used[whole], population.weight[done], mass)
        for i in np.flatnonzero(~whole).tolist():
            case = active[i : i + 1]
            at_target = target is not None and bool(epsilon[case] <= target + TIE)
            if population.weight[case].any() and not at_target:
                ledger.simulations[t - 1, case] += ledger.pending[case]  # paid for, though nothing completed
                ledger.close(case, t - 1, "budget")
                continue
            mass = _take(model, population, case, accepted, i, int(filled[i]))
            rate = filled[i : i + 1] / np.maximum(used[i : i + 1], 1)
            ledger.record(t, case, epsilon[case], rate, population.weight[case], mass)
            ledger.close(case, t, "budget" if filled[i] else "nothing accepted")
        if schedule.stop_acceptance is not None and done.size:
            ledger.close(done[size / used[whole] < schedule.stop_acceptance], t, "acceptance")
        active = everyone[ledger.open]
        if t + 1 == steps or not active.size:
            break
        tighter = weighted_median(population.distance[active], population.weight[active])
        if target is None:
            stalled = tighter >= epsilon[active] - TIE
            ledger.close(active[stalled], t, "floor")
        else:
            ledger.close(active[epsilon[active] <= target + TIE], t, "complete")
            stalled = (tighter >= epsilon[active] - TIE) | (t + 2 == steps)
            tighter = np.where(stalled, target, np.maximum(tighter, target))
        epsilon[active] = tighter
        active = everyone[ledger.open]
    ledger.close(everyone[ledger.open], steps - 1, "complete")
    return population, ledger.trace()


def _fill(
    model: Model,
    schedule: Schedule,
    cases: Int,
    epsilon: Float,
    head: tuple[Particles, Float] | None,
    ledger: _Ledger,
) -> tuple[Population, Int, Int]:
    """Propose in blocks until each case has S accepted particles or no budget: (accepted, filled, used).

    `head` is given for the first population, which proposes from the prior: the calibration draws, which
    are accepted like any other proposals where simulations cost money (they are paid for already).
    `used` counts the proposals up to the last one needed, from which acceptance follows; what a run
    pays for (whole blocks, when live) is booked in the ledger.
    """
    size, block = schedule.particles, schedule.block_size
    accepted = Population(
        np.zeros((cases.size, size, *model.particle_shape), dtype=model.particle_type),
        np.full((cases.size, size), np.inf),
        np.zeros((cases.size, size)),
    )
    filled = np.zeros(cases.size, dtype=np.int64)
    used = np.zeros(cases.size, dtype=np.int64)
    hopeless = epsilon[cases] < model.floor[cases] - TIE
    left = schedule.limit - ledger.spent[cases]
    paid = np.zeros(cases.size, dtype=np.int64)
    free = head if head is not None and schedule.live else None
    todo = np.flatnonzero(~hopeless & ((left > 0) | (free is not None)))
    while todo.size:
        who = cases[todo]
        if free is not None:
            particles, distance = free[0][who], free[1][who]
            allowed = np.ones(distance.shape, dtype=bool)
        else:
            propose = model.move_block if head is None else model.prior_block
            particles, distance = propose(who, block)
            allowed = np.arange(distance.shape[1])[None, :] < (left - paid)[todo][:, None]
        if not distance.shape[1]:  # a live simulator with nothing left to give
            break
        inside = (distance <= epsilon[who][:, None] + TIE) & allowed
        rank = np.cumsum(inside, axis=1) + filled[todo][:, None]
        row, column = np.nonzero(inside & (rank <= size))
        slot = rank[row, column] - 1
        accepted.particles[todo[row], slot] = particles[row, column]
        accepted.distance[todo[row], slot] = distance[row, column]
        full = rank[:, -1] >= size
        needed = np.where(full, np.argmax(rank >= size, axis=1) + 1, allowed.sum(axis=1))
        used[todo] += needed
        if free is None:
            paid[todo] += allowed.sum(axis=1) if schedule.live else needed
        filled[todo] = np.minimum(rank[:, -1], size)
        free = None
        todo = todo[~full & (left[todo] > paid[todo])]
    ledger.spent[cases] += paid
    ledger.pending[cases] += paid
    return accepted, filled, used


def _take(
    model: Model, population: Population, case: Int, accepted: Population, row: int, count: int
) -> Float:
    """The `count` particles accepted when the budget ended become the case's answer; its label mass."""
    weight = np.zeros((1, population.weight.shape[1]))
    if count and population.weight[case].any():
        weight[:, :count] = model.weight(case, accepted.particles[row : row + 1, :count])
        weight /= weight.sum()
    elif count:
        weight[:, :count] = 1 / count
    population.particles[case] = accepted.particles[row : row + 1]
    population.distance[case] = accepted.distance[row : row + 1]
    population.weight[case] = weight
    return model.label_mass(case, population.particles[case], weight) if count else model.prior_mass(case)


class _Ledger:
    """Writes the trace while the loop runs."""

    def __init__(self, n: int, steps: int, prior: Float) -> None:
        shape = (steps, n)
        self.tolerance = np.zeros(shape)
        self.acceptance = np.zeros(shape)
        self.simulations = np.zeros(shape, dtype=np.int64)
        self.ess = np.zeros(shape)
        self.mass = np.broadcast_to(prior, (steps, *prior.shape)).copy()
        self.populations = np.full(n, steps)
        self.outcome = ["complete"] * n
        self.open = np.ones(n, dtype=bool)
        self.spent = np.zeros(n, dtype=np.int64)
        self.pending = np.zeros(n, dtype=np.int64)  # paid for, not yet booked on a population

    def record(
        self, t: int, cases: Int, tolerance: Float, acceptance: Float, weight: Float, mass: Float
    ) -> None:
        self.tolerance[t, cases] = tolerance
        self.acceptance[t, cases] = acceptance
        self.simulations[t, cases] = self.pending[cases]
        self.pending[cases] = 0
        squares = np.sum(weight**2, axis=1)
        self.ess[t, cases] = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
        self.mass[t, cases] = mass

    def close(self, cases: Int, t: int, outcome: str) -> None:
        """These cases end with row t as their last own row, which the rows after it repeat."""
        cases = cases[self.open[cases]]
        self.open[cases] = False
        self.populations[cases] = t + 1
        for case in cases:
            self.outcome[case] = outcome
        for rows in (self.tolerance, self.acceptance, self.simulations, self.ess, self.mass):
            rows[t + 1 :, cases] = rows[t, cases]

    def trace(self) -> Trace:
        return Trace(
            tolerance=self.tolerance,
            acceptance=self.acceptance,
            simulations=self.simulations,
            ess=self.ess,
            entropy_bits=entropy_bits(self.mass),
            mass=self.mass,
            populations=self.populations,
            outcome=tuple(self.outcome),
        )


# --------------------------------------------------------------------------- streams


def stream(seed: int, key: int) -> Generator:
    """The generator of one case."""
    return Generator(Philox(key=np.array([seed & MASK, key & MASK], dtype=np.uint64)))


class Streams:
    """The generators of a batch of cases, drawn from side by side."""

    def __init__(self, seed: int, keys: Iterable[int]) -> None:
        self.generators = [stream(seed, int(key)) for key in keys]

    def uniform(self, cases: Int, *shape: int) -> Float:
        """(len(cases), *shape) uniforms in [0, 1), each row from its own case's stream."""
        out = np.empty((len(cases), *shape))
        for row, case in zip(out, cases, strict=True):
            self.generators[case].random(out=row)
        return out

    def normal(self, cases: Int, *shape: int) -> Float:
        out = np.empty((len(cases), *shape))
        for row, case in zip(out, cases, strict=True):
            self.generators[case].standard_normal(out=row)
        return out


def pick(weight: Float, uniform: Float) -> Int:
    """Inverse-CDF draws per row: weight (A, m) rows summing to one, uniform (A, B) -> (A, B) indices.

    An index of weight zero is never drawn.
    """
    rows, m = weight.shape
    cumulative = np.cumsum(weight, axis=1)
    cumulative /= cumulative[:, -1:]
    offset = 2.0 * np.arange(rows)[:, None]  # rows of one sorted array, two apart so that none touch
    index = np.searchsorted((cumulative + offset).ravel(), (uniform + offset).ravel(), side="right")
    index = index.reshape(uniform.shape) - m * np.arange(rows)[:, None]
    last = m - 1 - np.argmax(weight[:, ::-1] > 0, axis=1)
    return np.minimum(index, last[:, None])
