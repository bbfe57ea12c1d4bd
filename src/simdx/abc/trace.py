"""Reading a trace: the paper's table of refinement dynamics and its worked example, as plain rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdx.errors import BadInput
from simdx.types import Int, Trace

Row = dict[str, float | int | None]


def dynamics_table(trace: Trace, true_label: Sequence[int] | Int | None = None) -> list[Row]:
    """Population by population means over the cases still refining.

    Keys: population, cases, epsilon, acceptance, simulations, entropy_bits, p_true (None when the true
    labels are not given). A case that stopped early leaves the means instead of repeating itself.
    """
    steps, n = trace.tolerance.shape
    if true_label is not None and len(true_label) != n:
        raise BadInput(f"there are {len(true_label)} true labels for {n} cases; give one per case")
    rows: list[Row] = []
    for t in range(steps):
        here = np.flatnonzero(trace.populations > t)
        if not here.size:
            break
        p_true = None
        if true_label is not None:
            p_true = float(np.mean(trace.mass[t, here, np.asarray(true_label)[here]]))
        rows.append(
            {
                "population": t + 1,
                "cases": int(here.size),
                "epsilon": float(trace.tolerance[t, here].mean()),
                "acceptance": float(trace.acceptance[t, here].mean()),
                "simulations": float(trace.simulations[t, here].mean()),
                "entropy_bits": float(trace.entropy_bits[t, here].mean()),
                "p_true": p_true,
            }
        )
    return rows


def total_simulations(trace: Trace) -> Int:
    """Simulations each case took in all, (N,): rows a stopped case repeats are not counted again."""
    own = np.arange(trace.simulations.shape[0])[:, None] < trace.populations[None, :]
    return np.sum(np.where(own, trace.simulations, 0), axis=0)


def steps_of(trace: Trace, case: int) -> list[Row]:
    """What each of a case's own populations (or rounds of fresh simulations) did."""
    return [
        {
            "population": t + 1,
            "tolerance": float(trace.tolerance[t, case]),
            "acceptance": float(trace.acceptance[t, case]),
            "simulations": int(trace.simulations[t, case]),
            "ess": float(trace.ess[t, case]),
            "entropy_bits": float(trace.entropy_bits[t, case]),
        }
        for t in range(int(trace.populations[case]))
    ]


def cut_short(trace: Trace, case: int) -> str | None:
    """What a reader must know of a case that did not get to its end."""
    reached = int(trace.populations[case])
    if trace.outcome[case] == "budget":
        return f"cut short: the budget ended, the answer is of step {reached}; raise --budget to go on"
    if trace.outcome[case] == "nothing accepted":
        return "nothing came within the tolerance: the answer is the prior"
    return None


def worked_example(trace: Trace, case: int, label: int) -> list[Row]:
    """One case's own populations: population, p_label, entropy_bits, epsilon, acceptance, ess."""
    return [
        {
            "population": t + 1,
            "p_label": float(trace.mass[t, case, label]),
            "entropy_bits": float(trace.entropy_bits[t, case]),
            "epsilon": float(trace.tolerance[t, case]),
            "acceptance": float(trace.acceptance[t, case]),
            "ess": float(trace.ess[t, case]),
        }
        for t in range(int(trace.populations[case]))
    ]
