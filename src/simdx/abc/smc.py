"""The sequential Monte Carlo loop of the paper's Algorithm 1, for one case.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from simdx.abc.space import TIE
from simdx.errors import BadInput, RunFailed
from simdx.types import Float, Int, Posterior, Trace, entropy_bits

MASK = 2**64 - 1
Particles = NDArray[Any]  # (S,) labels or (S, K-1) log-ratio coordinates


class Model(Protocol):
    """What the loop needs to know of a case."""

    prior: Float  # (K,) over labels
    floor: float  # no simulation can be nearer than this; -inf where unknown

    def prior_block(self, size: int) -> tuple[Particles, Float]:
        """`size` prior proposals and their distances."""

    def adapt(self, particles: Particles, weight: Float) -> None:
        """Fit the proposal to the population before."""

    def move_block(self, size: int) -> tuple[Particles, Float]:
        """`size` proposals from the adapted proposal, and their distances."""

    def weight(self, particles: Particles) -> Float:
        """Unnormalised importance weights: prior over the adapted proposal's density."""

    def label_mass(self, particles: Particles, weight: Float) -> Float:
        """(K,) posterior over labels of weighted particles."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to refine, and how much it may cost."""

    particles: int = 100
    populations: int = 5
    stop_acceptance: float | None = None  # 0.2 is the paper's early stop; None is off
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


class Row(NamedTuple):
    """A population, as the trace tells it."""

    tolerance: float
    acceptance: float
    simulations: int
    ess: float
    mass: Float  # (K,)


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The last population of a case, empty where the prior answers, and all of them in rows."""

    particles: Particles
    weight: Float
    rows: list[Row]
    outcome: str


def run(model: Model, schedule: Schedule) -> CaseRun:
    """All populations of a case."""
    size, steps, target = schedule.particles, schedule.populations, schedule.tolerance
    spent = min(size, schedule.limit)
    pending = spent  # paid for, not yet booked on a population
    head = model.prior_block(spent)
    epsilon = weighted_median(head[1], np.ones(spent))
    if target is not None:
        epsilon = max(epsilon, target) if steps > 1 else target
    particles: Particles = head[0][:0]
    weight: Float = np.zeros(0)
    rows: list[Row] = []
    outcome = "complete"
    for t in range(steps):
        if t:
            model.adapt(particles, weight)
        found = _fill(model, schedule, epsilon, schedule.limit - spent, None if t else head)
        spent, pending = spent + found.paid, pending + found.paid
        count, at_target = len(found.distance), target is not None and epsilon <= target + TIE
        if t and count < size and not at_target:
            # what was paid for, though no population was completed
            rows[-1] = rows[-1]._replace(simulations=rows[-1].simulations + pending)
            outcome = "budget"
            break
        particles = found.particles
        weight = model.weight(particles) if t and count else np.ones(count)
        weight = weight / (weight.sum() or 1.0)
        mass = model.label_mass(particles, weight) if count else model.prior
        ess = 1 / float(np.sum(weight**2)) if count else 0.0
        rate = count / max(found.used, 1)
        rows.append(Row(epsilon, rate, pending, ess, mass))
        pending = 0
        if count < size:
            outcome = "budget" if count else "nothing accepted"
            break
        if schedule.stop_acceptance is not None and rate < schedule.stop_acceptance:
            outcome = "acceptance"
            break
        if at_target or t + 1 == steps:
            break
        tighter = weighted_median(found.distance, weight)
        stalled = tighter >= epsilon - TIE
        if target is not None:
            epsilon = target if stalled or t + 2 == steps else max(tighter, target)
        elif stalled:
            outcome = "floor"
            break
        else:
            epsilon = tighter
    return CaseRun(particles, weight, rows, outcome)


def weighted_median(value: Float, weight: Float) -> float:
    """The smallest value at which half of the weight is reached."""
    order = np.argsort(value, kind="stable")
    cumulative = np.cumsum(weight[order])
    return float(value[order[np.argmax(cumulative >= 0.5 * cumulative[-1] * (1 - 1e-9))]])


class _Accepted(NamedTuple):
    particles: Particles
    distance: Float
    used: int  # proposals up to the last one needed, from which acceptance follows
    paid: int  # what the run pays for: whole blocks, when live


def _fill(
    model: Model, schedule: Schedule, epsilon: float, left: int, head: tuple[Particles, Float] | None
) -> _Accepted:
    """Propose in blocks until S particles are accepted or no budget is left.

    `head` is given for the first population, which proposes from the prior: the calibration draws, which
    are accepted like any other proposals where simulations cost money (they are paid for already).
    """
    size, block = schedule.particles, schedule.block or 2 * schedule.particles
    propose = model.move_block if head is None else model.prior_block
    free = head if schedule.live else None
    kept: list[tuple[Particles, Float]] = []
    count = used = paid = 0
    hopeless = epsilon < model.floor - TIE
    while not hopeless and count < size and (free is not None or left > paid):
        particles, distance = free or propose(block)
        allowed = len(distance) if free else min(len(distance), left - paid)
        if not allowed:  # a live simulator with nothing left to give
            break
        inside = np.flatnonzero(distance[:allowed] <= epsilon + TIE)[: size - count]
        count += inside.size
        needed = int(inside[-1]) + 1 if count == size else allowed
        used += needed
        if not free:
            paid += allowed if schedule.live else needed
        free = None
        kept.append((particles[inside], distance[inside]))
    if not kept:
        return _Accepted(np.zeros(0), np.zeros(0), used, paid)
    every, distances = zip(*kept, strict=True)
    return _Accepted(np.concatenate(every), np.concatenate(distances), used, paid)


# --------------------------------------------------------------------------- answers


def posterior_of(run: CaseRun) -> Posterior:
    """What the last population says, of one case."""
    last = run.rows[-1]
    return Posterior(last.mass[None], np.array([last.ess]), np.array([last.tolerance]))


def joined(
    runs: Sequence[CaseRun], how: Schedule, posteriors: Sequence[Posterior] | None = None
) -> tuple[Posterior, Trace]:
    """Cases as one batch. A case that stopped early repeats its last row."""
    first, *rest = posteriors or [posterior_of(one) for one in runs]
    padded = [[*one.rows, *[one.rows[-1]] * (how.populations - len(one.rows))] for one in runs]
    columns = {}
    for name in Row._fields:
        by_case = np.array([[getattr(row, name) for row in rows] for rows in padded])
        columns[name] = np.swapaxes(by_case, 0, 1)
    trace = Trace(
        **columns,
        entropy_bits=entropy_bits(columns["mass"]),
        populations=np.array([len(one.rows) for one in runs]),
        outcome=tuple(one.outcome for one in runs),
    )
    return first.combined(lambda *parts: np.concatenate(parts), *rest), trace


# --------------------------------------------------------------------------- draws


def stream(seed: int, key: int) -> Generator:
    """The generator of one case."""
    return Generator(Philox(key=np.array([seed & MASK, key & MASK], dtype=np.uint64)))


def pick(weight: Float, uniform: Float) -> Int:
    """Inverse-CDF draws by weights (m,); an index of weight zero is never drawn."""
    cumulative = np.cumsum(weight)
    index = np.searchsorted(cumulative / cumulative[-1], uniform, side="right")
    return np.minimum(index, np.flatnonzero(weight)[-1])


# --------------------------------------------------------------------------- live
#
# A simulator callback in place of the bank: `simulate(label_indices (m,), rng) -> vectors (m, d)` in the
# space of the observations. Calls cost money, so they are drawn in batches, counted and capped, and a budget
# that ends is an outcome, not an error.

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


def check_budget(budget: int, batch: int) -> None:
    if budget < 1 or batch < 1:
        raise BadInput(f"the budget is {budget} and the batch {batch}; both must be at least 1")
