"""Absolute tolerances for D-SMC, taken from the bank itself.

A quantile tolerance accepts the same share of prior mass for every case, so epistemic uncertainty cannot
rise on a text unlike the panel. An absolute tolerance can make it rise: it accepts little, or nothing,
of an atypical case, whose answer then stays near the prior. What is a usual distance? Leave each
simulation out of its class mean in turn, ask D-SMC about it, and note the tolerance it reaches.
"""

import numpy as np

from simdx.abc.atoms import chunk_size
from simdx.abc.dirichlet import prepare
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from simdx.types import Float, Int


def leave_one_out_tolerances(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    prior: Prior,
    *,
    seed: int,
    draws: int = 100,
    populations: int = 5,
) -> Float:
    """The quantile tolerance each simulation would reach as an observation, its class mean made without it.

    Leaving z out moves its class mean by delta = (mean - z) / (count - 1) and a mixture by theta_y delta,
    so no mean is ever recomputed. Rows of impossible labels and of labels with one simulation are left
    out of the result.
    """
    label_index = np.asarray(label_index)
    count = np.bincount(label_index, minlength=n_labels)
    means = np.zeros((n_labels, bank_vectors.shape[1]))
    np.add.at(means, label_index, bank_vectors.astype(np.float64))
    means /= np.maximum(count, 1)[:, None]
    possible = prior.probabilities > 0
    usable = np.flatnonzero(possible[label_index] & (count[label_index] > 1))
    if not usable.size:
        raise BadInput("no label has two simulations, so none can be left out; enlarge the bank")
    shared = prepare(means, prior, seed=seed, draws=draws, populations=populations)
    place = np.cumsum(possible) - 1  # position of a label among the possible ones
    theta = shared.features[:, : int(possible.sum())].astype(np.float64)
    own = means[possible]
    gram = own @ own.T
    pull = theta @ gram  # (P, K'): each draw's mixture dotted with each class mean
    length2 = np.einsum("pk,pk->p", pull, theta)
    out = np.empty(usable.size)
    step = chunk_size(theta.shape[0], bytes_per_entry=64)
    for start in range(0, usable.size, step):
        rows = usable[start : start + step]
        z = bank_vectors[rows].astype(np.float64)
        k = place[label_index[rows]]
        left = (count[label_index[rows]] - 1.0)[:, None]
        dot = z @ own.T @ theta.T  # (rows, P): mixture . z
        toward = theta[:, k].T
        mean_z = np.einsum("nd,nd->n", own[k], z)[:, None]
        square = np.einsum("nd,nd->n", z, z)[:, None]
        mixture_delta = (pull[:, k].T - dot) / left
        delta2 = (np.diag(gram)[k][:, None] - 2 * mean_z + square) / left**2
        length = np.sqrt(np.maximum(length2 + 2 * toward * mixture_delta + toward**2 * delta2, 1e-30))
        cosine = (dot + toward * (mean_z - square) / left) / (length * np.sqrt(square))
        edge = cosine.shape[1] - draws
        out[start : start + step] = 1 - np.partition(cosine, edge, axis=1)[:, edge]
    return out


def bank_tolerance(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    prior: Prior,
    *,
    seed: int,
    quantile: float = 0.5,
    draws: int = 100,
    populations: int = 5,
) -> float:
    """An absolute tolerance under which this share of simulations would accept at least 2^-T of the prior."""
    if not 0 <= quantile <= 1:
        raise BadInput(f"the quantile is {quantile:g}; give one between 0 and 1")
    reached = leave_one_out_tolerances(
        bank_vectors, label_index, n_labels, prior, seed=seed, draws=draws, populations=populations
    )
    return float(np.quantile(reached, quantile))
