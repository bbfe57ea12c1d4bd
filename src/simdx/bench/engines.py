"""How fast are the engines, and do they agree with pyABC? One bank problem, both side by side.

The problem is synthetic and overlapping, so that an answer is neither obvious nor empty: K labels with
`per_label` unit vectors each, observations drawn like the bank. Measured, in seconds per case:

pyabc      ABCSMC 0.13 with S particles and T populations, median tolerances, an on-disk SQLite database
           as it ships, the faster of its single-core and multicore samplers. Set-up (construction,
           database) is excluded. M: a randint prior with DiscreteJumpTransition; D: log-gamma variables,
           normalised (faster for it than gammas), with its default multivariate normal. Its model
           returns the distance alone, so it stores one number per particle.
exact      `multinomial` (hard, fractional) and `dirichlet` (hard) on a batch. The label-sorted bank and
           the shared draws are set-up.
particles  `multinomial_smc` and `dirichlet_smc` on the same batch, early stop off.
floor      the bare matrix products and `np.partition` of the same shapes: what no such method can beat.

Agreement compares the exact engine with pyABC at a population large enough to mean something; the same
comparison with this package's own particles stands beside it under `conditions` as a yardstick of
Monte Carlo error.
"""

import logging
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from simdx.abc.dirichlet import dirichlet, prepare
from simdx.abc.multinomial import multinomial
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.abc.prior import Prior
from simdx.errors import MissingExtra
from simdx.types import Float, Int

SPREAD = 0.23  # of label centres: mean top mass of the exact answer is then between .4 and .8


class Workload(NamedTuple):
    """A bank, its class means and observations, in one space."""

    bank: Float
    labels: Int
    n_labels: int
    cases: Float
    means: Float
    prior: Prior

    def of_labels(self, cases: int | None = None) -> tuple[Float, Int, int, Float, Prior]:
        """What M-SMC takes, for the first so many cases."""
        return self.bank, self.labels, self.n_labels, self.cases[:cases], self.prior

    def of_means(self, cases: int | None = None) -> tuple[Float, Float, Prior]:
        return self.means, self.cases[:cases], self.prior


def make_problem(n_labels: int, per_label: int, width: int, n_cases: int, seed: int = 0) -> Workload:
    """Unit vectors around overlapping label centres that share a common direction."""
    rng = np.random.default_rng([seed, n_labels, per_label, width])
    centres = rng.standard_normal(width) + SPREAD * rng.standard_normal((n_labels, width))
    labels = np.repeat(np.arange(n_labels), per_label)
    bank = _around(centres, labels, rng)
    means = np.add.reduceat(bank.astype(np.float64), np.arange(0, labels.size, per_label), axis=0) / per_label
    truth = rng.integers(0, n_labels, n_cases)
    return Workload(bank, labels, n_labels, _around(centres, truth, rng), means, Prior.uniform(n_labels))


def run(
    *,
    labels: int = 6,
    per_label: int = 1000,
    width: int = 384,
    particles: int = 100,
    populations: int = 5,
    batch: int = 512,
    repeats: int = 7,
    pyabc_cases: int = 3,
    agreement_particles: int = 2000,
    agreement_cases: int = 2,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything measured, as one JSON-ready dictionary with its conditions."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyabc
    except ImportError:
        raise MissingExtra("comparing with pyABC", "bench") from None
    problem = make_problem(labels, per_label, width, batch, seed)
    exact, floor, sampled, top_mass = measure_own(problem, particles, populations, repeats, seed)
    theirs, samplers = _time_pyabc(pyabc, problem, particles, populations, pyabc_cases)
    agreement, yardstick = _agreement(
        pyabc, samplers, problem, agreement_particles, populations, agreement_cases, seed
    )
    beside = {"exact": (theirs, exact), "particles": (theirs, sampled), "floor": (exact, floor)}
    return {
        "pyabc": theirs,
        "exact": exact,
        "particles": sampled,
        "floor": floor,
        "ratio": {f"{kind}_{name}": a[kind] / b[kind] for name, (a, b) in beside.items() for kind in "md"},
        "agreement": agreement,
        "conditions": {
            "labels": labels,
            "simulations_per_label": per_label,
            "width": width,
            "particles": particles,
            "populations": populations,
            "batch": batch,
            "repeats": repeats,
            "statistic": "median over repeats (ours) and over cases (pyABC), set-up excluded on both sides",
            "mean_top_mass": top_mass,
            "seed": seed,
            "pyabc": {
                "version": pyabc.__version__,
                "cases": pyabc_cases,
                "sampler": samplers,
                "database": "SQLite on disk",
                "m": "randint prior, DiscreteJumpTransition(p_stay=.5), MedianEpsilon",
                "d": "independent log-gamma(alpha_k), softmax, MultivariateNormalTransition, MedianEpsilon",
            },
            "agreement": {
                "particles": agreement_particles,
                "cases": agreement_cases,
                "own_particles_against_exact": yardstick,
            },
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }


# --------------------------------------------------------------------------- our side


def measure_own(
    problem: Workload, particles: int, populations: int, repeats: int, seed: int
) -> tuple[dict[str, float], dict[str, float], dict[str, float], float]:
    """Seconds per case of (exact, floor, particles), and the mean top mass of the exact answer.

    Exact and floor are timed in turns, so that a busy moment of the machine falls on both.
    """
    n = problem.cases.shape[0]
    bank, means, keys = problem.of_labels(), problem.of_means(), np.arange(n)
    drawn: dict[str, Any] = {"seed": seed, "draws": particles, "populations": populations}
    sampled: dict[str, Any] = {"seed": seed, "particles": particles, "populations": populations}
    shared = prepare(problem.means, problem.prior, **drawn)

    def m_exact() -> Any:
        return multinomial(*bank, kernel="hard", populations=populations)

    def m_floor() -> None:
        cosine = problem.cases @ problem.bank.T
        size = cosine.shape[1]
        np.partition(cosine, size - max(1, size >> populations), axis=1)

    def d_floor() -> None:
        cosine = (problem.cases @ shared.means.T) @ shared.unit.T
        np.partition(cosine, cosine.shape[1] - particles, axis=1)

    turns = medians([m_exact, m_floor, lambda: dirichlet(*means, shared=shared, **drawn), d_floor], repeats)
    slow = medians(
        [lambda: multinomial_smc(*bank, keys, **sampled), lambda: dirichlet_smc(*means, keys, **sampled)],
        max(1, repeats // 3),
    )
    top = float(m_exact().probabilities.max(axis=1).mean())
    exact = {"m": turns[0] / n, "d": turns[2] / n}
    floor = {"m": turns[1] / n, "d": turns[3] / n}
    return exact, floor, {"m": slow[0] / n, "d": slow[1] / n}, top


def medians(jobs: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median wall time of each job, the jobs taking turns; the first round warms up and is not counted."""
    times: list[list[float]] = [[] for _ in jobs]
    for turn in range(repeats + 1):
        for job, seen in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            if turn:
                seen.append(time.perf_counter() - start)
    return [float(np.median(seen)) for seen in times]


# --------------------------------------------------------------------------- pyABC's side


class _BankModel:
    """pyABC's M model: a fresh simulation of the proposed label, reduced to its distance."""

    def __init__(self, problem: Workload, case: int) -> None:
        self.distance = (1 - problem.bank @ problem.cases[case]).astype(float)
        self.per_label = problem.labels.size // problem.n_labels
        self.rng, self.process = np.random.default_rng(), os.getpid()

    def __call__(self, parameter: Any) -> dict[str, float]:
        if self.process != os.getpid():  # workers are forks: each needs its own stream
            self.rng, self.process = np.random.default_rng(), os.getpid()
        row = int(parameter["y"]) * self.per_label + int(self.rng.integers(self.per_label))
        return {"rho": float(self.distance[row])}


class _SimplexModel:
    """pyABC's D model: log-gamma variables to a point of the simplex, and its distance."""

    def __init__(self, problem: Workload, case: int) -> None:
        self.names = [f"x{k}" for k in range(problem.n_labels)]
        self.c = problem.means @ problem.cases[case].astype(float)
        self.gram = problem.means @ problem.means.T

    def __call__(self, parameter: Any) -> dict[str, float]:
        theta = softmax([parameter[name] for name in self.names])
        return {"rho": float(1 - theta @ self.c / np.sqrt(theta @ self.gram @ theta))}


def _distance(simulated: Any, observed: Any) -> float:
    return float(simulated["rho"])


def run_pyabc(
    pyabc: Any, problem: Workload, case: int, variant: str, particles: int, populations: int, sampler: str
) -> tuple[float, Float]:
    """(seconds inside `ABCSMC.run`, posterior over labels) of one case."""
    if variant == "m":
        model: Any = _BankModel(problem, case)
        prior = pyabc.Distribution(y=pyabc.RV("randint", 0, problem.n_labels))
        domain = np.arange(problem.n_labels)
        transition = pyabc.DiscreteJumpTransition(domain=domain, p_stay=0.5)
    else:
        model = _SimplexModel(problem, case)
        alpha = problem.prior.alpha
        rvs = {name: pyabc.RV("loggamma", float(a)) for name, a in zip(model.names, alpha, strict=True)}
        prior = pyabc.Distribution(**rvs)
        transition = pyabc.MultivariateNormalTransition()
    log = logging.getLogger("ABC")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            smc = pyabc.ABCSMC(
                model, prior, _distance, population_size=particles, transitions=transition,
                eps=pyabc.MedianEpsilon(), sampler=getattr(pyabc.sampler, sampler)(),
            )  # fmt: skip
            smc.new(f"sqlite:///{Path(folder) / 'run.db'}", {"rho": 0.0})
            start = time.perf_counter()
            history = smc.run(max_nr_populations=populations)
            seconds = time.perf_counter() - start
            frame, weight = history.get_distribution(m=0)
    finally:
        log.setLevel(level)
    weight = np.asarray(weight) / np.sum(weight)
    if variant == "m":
        return seconds, np.bincount(frame["y"].astype(int), weight, problem.n_labels).astype(np.float64)
    return seconds, weight @ softmax(frame[model.names].to_numpy(), axis=1)


def _time_pyabc(
    pyabc: Any, problem: Workload, particles: int, populations: int, cases: int
) -> tuple[dict[str, float], dict[str, str]]:
    """Median seconds per case of the faster sampler, and which that was, for M and D."""
    best: dict[str, float] = {}
    which: dict[str, str] = {}
    for variant in ("m", "d"):
        times = {}
        for sampler in ("SingleCoreSampler", "MulticoreEvalParallelSampler"):
            asked = variant, particles, populations, sampler
            times[sampler] = float(np.median([run_pyabc(pyabc, problem, i, *asked)[0] for i in range(cases)]))
        which[variant] = min(times, key=times.__getitem__)
        best[variant] = times[which[variant]]
    return best, which


def _agreement(
    pyabc: Any,
    samplers: dict[str, str],
    problem: Workload,
    particles: int,
    populations: int,
    cases: int,
    seed: int,
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact against pyABC, and the same against our own particles; means over cases."""
    bank, means, keys = problem.of_labels(cases), problem.of_means(cases), np.arange(cases)
    exact_m = multinomial(*bank, kernel="hard", boundary="whole", populations=populations).probabilities
    exact_d = dirichlet(*means, seed=seed, draws=particles, populations=populations).probabilities

    def theirs(variant: str) -> Float:
        asked = variant, particles, populations, samplers[variant]
        return np.stack([run_pyabc(pyabc, problem, case, *asked)[1] for case in range(cases)])

    def gaps(m: Float, d: Float) -> dict[str, float]:
        variation = 0.5 * np.abs(m - exact_m).sum(axis=1).mean()
        return {"m_tv": float(variation), "d_mean_abs": float(np.abs(d - exact_d).mean())}

    sampled: dict[str, Any] = {"seed": seed + 1, "particles": particles, "populations": populations}
    own_m, own_d = multinomial_smc(*bank, keys, **sampled)[0], dirichlet_smc(*means, keys, **sampled)[0]
    return gaps(theirs("m"), theirs("d")), gaps(own_m.probabilities, own_d.probabilities)


def _around(centres: Float, labels: Int, rng: np.random.Generator) -> Float:
    rows = centres[labels] + rng.standard_normal((labels.size, centres.shape[1]))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
