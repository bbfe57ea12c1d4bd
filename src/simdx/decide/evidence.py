"""The simulated descriptions that carried an answer, for the leading label and those that compete with it.

Where the method is a kernel over the bank, every simulation carries a known share of the answer and the
largest shares are shown; for other methods the nearest simulations stand in, without a share.
"""

from __future__ import annotations

import numpy as np

from simdx.abc import exact
from simdx.abc.multinomial import Kernel
from simdx.abc.space import Space
from simdx.types import Float, Int

LEADING = 3  # descriptions of the leading label
RIVALS = 1  # of every label that competes with it
COMPETES = 0.1  # with at least this probability; the runner-up is always shown for contrast
MOST_LABELS = 3


def carried_shares(
    space: Space, places: Float, prior: Float, kernel: Kernel, bandwidth: float, populations: int,
    tolerance: float | None,
) -> Float:  # fmt: skip
    """(N, n) share of each answer that every row of the space's bank carries."""
    return exact.simulation_weights(
        space.bank, space.label_index, space.n_labels, places, prior,
        kernel=kernel, bandwidth=bandwidth, populations=populations, tolerance=tolerance,
    )  # fmt: skip


def choose_rows(label_index: Int, posterior: Float, score: Float) -> list[int]:
    """Bank rows to show: the highest scores of the leading labels, label by label."""
    order = np.argsort(-posterior, kind="stable")[:MOST_LABELS]
    chosen: list[int] = []
    for rank, label in enumerate(order):
        if rank > 1 and posterior[label] < COMPETES:
            break
        rows = np.flatnonzero(label_index == label)
        best = rows[np.argsort(-score[rows], kind="stable")[: LEADING if rank == 0 else RIVALS]]
        chosen += [int(row) for row in best]
    return chosen
