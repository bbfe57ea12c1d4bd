"""M-SMC on a bank, in closed form.

With many particles and median tolerances, population t of the sampler keeps the nearest 2^-t of the
prior predictive, whose mass pi_y * share_i sits on simulation i. The posterior after T populations is
therefore the label shares of the nearest 2^-T of prior-weighted bank: no sampling, one matrix product
and a partial sort. Kernels:

hard, boundary "fractional"  the block of simulations at the tolerance counts in part, so that exactly
                             2^-T of mass is kept; smooth in the prior and the default
hard, boundary "whole"       each tolerance is a distance in the bank and its block counts whole, medians
                             taken recursively: the limit the particle sampler converges to
hard, absolute tolerance     every simulation within the tolerance counts; when none is, the answer is
                             the prior with zero effective simulations
soft                         every simulation counts exp(-distance / bandwidth): attention over the bank

Simulations at equal distance (within `space.TIE`) are one block and enter or leave together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simdx.abc.prior import Prior, prior_rows
from simdx.abc.space import (
    TIE,
    Atoms,
    check_kernel,
    check_observations,
    chunk_size,
    make_atoms,
    similarity,
)
from simdx.errors import BadInput
from simdx.types import Float, Int, Mask, Posterior

BLOCK_BYTES = 2 * 2**20  # of cosines handled together after the matrix product
MASS_SLACK = 1e-9  # a cumulative mass this close to its target has reached it (summation error)


@dataclass(frozen=True, slots=True)
class KernelRule:
    """Which simulations count, and how much."""

    kernel: Literal["soft", "hard"] = "soft"
    bandwidth: float = 0.05
    populations: int = 5
    tolerance: float | None = None
    boundary: Literal["fractional", "whole"] = "fractional"

    def __post_init__(self) -> None:
        check_kernel(self.kernel, self.bandwidth, self.tolerance)
        if self.boundary not in ("fractional", "whole"):
            raise BadInput(f"there is no boundary '{self.boundary}'; choose fractional or whole")
        if not 1 <= self.populations <= 1000:
            raise BadInput(f"there are {self.populations} populations; give between 1 and 1000")


def multinomial(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    observations: Float,
    prior: Prior | Float,
    **how: Any,
) -> Posterior:
    """Posterior of every observation, by a `KernelRule`.

    `prior` is one Prior (or K numbers) for all cases or an (N, K) array of one per case.
    `Posterior.tolerance` is the distance reached, or the bandwidth of the soft kernel.
    """
    rule = KernelRule(**how)
    z = check_observations(observations, bank_vectors.shape[1])
    mass = prior_rows(prior, n_labels, z.shape[0])
    atoms = make_atoms(bank_vectors, label_index, n_labels, mass)
    out = np.empty((z.shape[0], n_labels))
    effective = np.empty(z.shape[0])
    reached = np.empty(z.shape[0])
    share = 0.5**rule.populations
    nearest = rule.kernel == "hard" and rule.tolerance is None and rule.boundary == "fractional"
    for part, cosine, own_mass in _blocks(atoms, z, mass):
        if nearest:  # by partial sorts
            out[part], effective[part], reached[part] = _nearest(atoms, cosine, own_mass, share)
            continue
        weight, reached[part] = _weights(atoms, cosine, own_mass, rule)
        by_label = np.add.reduceat(weight, atoms.starts, axis=1).astype(np.float64)
        total = by_label.sum(axis=1)
        square = np.einsum("ij,ij->i", weight, weight).astype(np.float64)
        effective[part] = np.divide(total**2, square, out=np.zeros_like(total), where=total > 0)
        out[part] = atoms.spread(by_label / np.where(total > 0, total, 1.0)[:, None])
    nothing = effective == 0
    if nothing.any():
        out[nothing] = np.broadcast_to(mass, out.shape)[nothing]
    return Posterior(out, effective, reached)


def simulation_weights(
    bank_vectors: Float,
    label_index: Int,
    n_labels: int,
    observations: Float,
    prior: Prior | Float,
    **how: Any,
) -> Float:
    """What share of each answer every bank row carries: (N, n) in the caller's row order, rows sum to one.

    Their sums per label are the posterior of `multinomial`. All zero where nothing was accepted.
    """
    rule = KernelRule(**how)
    z = check_observations(observations, bank_vectors.shape[1])
    mass = prior_rows(prior, n_labels, z.shape[0])
    atoms = make_atoms(bank_vectors, label_index, n_labels, mass)
    out = np.zeros((z.shape[0], atoms.n_rows))
    for part, cosine, own_mass in _blocks(atoms, z, mass):
        weight = _weights(atoms, cosine, own_mass, rule)[0].astype(np.float64)
        total = weight.sum(axis=1, keepdims=True)
        out[part, atoms.rows] = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    return out


# --------------------------------------------------------------------------- kernels on one chunk


def _weights(atoms: Atoms, cosine: Float, mass: Float, rule: KernelRule) -> tuple[Float, Float | float]:
    """Unnormalised weight of every atom for each case (zero: nothing accepted), and the distance reached."""
    if rule.kernel == "soft":  # a softmax over the bank in single precision, the largest weight one
        with np.errstate(divide="ignore"):
            offset = np.log(mass[:, atoms.label] * atoms.share).astype(np.float32)
        logit = np.multiply(cosine, np.float32(1 / rule.bandwidth), out=cosine)
        logit += offset
        logit -= logit.max(axis=1, keepdims=True)
        return np.exp(logit, out=logit), rule.bandwidth
    if rule.tolerance is not None:
        inside = cosine >= np.float32(1 - rule.tolerance - TIE)
        return np.where(inside, mass[:, atoms.label] * atoms.share, 0.0), float(rule.tolerance)
    order, value, each = _sorted(atoms, cosine, mass)
    if rule.boundary == "fractional":
        kept, last = _keep_fraction(value, each, 0.5**rule.populations)
    else:
        last = _block_cut(value, each, rule.populations)
        kept = np.where(np.arange(value.shape[1]) <= last[:, None], each, 0)
    weight = np.zeros(cosine.shape)
    np.put_along_axis(weight, order, kept, axis=1)
    return weight, 1 - value[np.arange(len(value)), last]


def _nearest(atoms: Atoms, cosine: Float, mass: Float, target: float) -> tuple[Float, Float, Float]:
    """Fractional boundary through partial sorts: look at the nearest few, and at more where too few."""
    cases, n = cosine.shape
    posterior = np.empty((cases, atoms.n_labels))
    effective, reached = np.empty(cases), np.empty(cases)
    todo = np.arange(cases)
    count = min(n, int(np.ceil(1.05 * target * n)) + 8)
    while todo.size:
        block = cosine if todo.size == cases else cosine[todo]
        own = mass if mass.shape[0] == 1 else mass[todo]
        if count < n:
            column = np.argpartition(block, n - count, axis=1)[:, n - count :]
            order, value, each = _sorted(atoms, block, own, column)
        else:
            order, value, each = _sorted(atoms, block, own)
        kept, last = _keep_fraction(value, each, target)
        # Done when the target is reached and the boundary block ends inside what was looked at.
        done = np.full(todo.size, True)
        if count < n:
            done = (last < count - 1) & (each.sum(axis=1) >= target)
        where = todo[done]
        kept, order = kept[done], order[done]
        total = kept.sum(axis=1)
        posterior[where] = _label_sums(atoms, order, kept) / total[:, None]
        effective[where] = total**2 / np.einsum("ij,ij->i", kept, kept)
        reached[where] = 1 - value[np.arange(todo.size), last][done]
        todo, count = todo[~done], min(n, 2 * count)
    return posterior, effective, reached


# --------------------------------------------------------------------------- arithmetic on sorted atoms


def _sorted(atoms: Atoms, cosine: Float, mass: Float, column: Int | None = None) -> tuple[Int, Float, Float]:
    """Columns (all, or the candidates given) from nearest to farthest, their cosines and masses.

    Atoms without mass for a case (its prior forbids the label) are sent behind all others.
    """
    value = cosine if column is None else np.take_along_axis(cosine, column, axis=1)
    by = np.argsort(-value, axis=1)
    order = by if column is None else np.take_along_axis(column, by, axis=1)
    value = np.take_along_axis(value, by, axis=1).astype(np.float64)
    rows = 0 if mass.shape[0] == 1 else np.arange(mass.shape[0])[:, None]
    each = mass[rows, atoms.label[order]] * atoms.share[order]
    return order, value, each


def _block_ends(value: Float) -> Mask:
    """True at the last atom of each block of equal distances (values descending)."""
    ends = np.ones(value.shape, dtype=bool)
    ends[:, :-1] = value[:, :-1] - value[:, 1:] > TIE
    return ends


def _keep_fraction(value: Float, each: Float, target: float) -> tuple[Float, Int]:
    """Kept mass of each sorted atom (in units of `target`, one in all), and the last atom touched.

    The block in which the cumulative mass crosses the target counts in part, every atom of it alike.
    """
    relative = each / target
    cumulative = np.cumsum(relative, axis=1)
    crossing = np.minimum(np.sum(cumulative < 1 - MASS_SLACK, axis=1), value.shape[1] - 1)
    ends = _block_ends(value)
    index = np.arange(value.shape[1])[None, :]
    last = np.argmax(ends & (index >= crossing[:, None]), axis=1)
    before = ends & (index < crossing[:, None])
    first = np.where(before.any(axis=1), value.shape[1] - np.argmax(before[:, ::-1], axis=1), 0)
    inside = index < first[:, None]
    block = (index >= first[:, None]) & (index <= last[:, None])
    above = np.sum(np.where(inside, relative, 0), axis=1)
    here = np.sum(np.where(block, relative, 0), axis=1)
    part = np.divide(1 - above, here, out=np.ones_like(here), where=here > 0)
    return relative * (inside + block * np.clip(part, 0, 1)[:, None]), last


def _block_cut(value: Float, each: Float, populations: int) -> Int:
    """The last sorted atom that is kept: whole blocks up to the median, as often as there are populations."""
    ends = _block_ends(value)
    cumulative = np.cumsum(each, axis=1)
    kept = cumulative[:, -1]
    for _ in range(populations):
        enough = ends & (cumulative >= (0.5 * kept * (1 - MASS_SLACK))[:, None])
        last = np.argmax(enough, axis=1)
        kept = np.take_along_axis(cumulative, last[:, None], axis=1)[:, 0]
    return last


def _label_sums(atoms: Atoms, order: Int, kept: Float) -> Float:
    """(cases, K): kept mass per label."""
    cases = order.shape[0]
    flat = (np.arange(cases)[:, None] * atoms.n_labels + atoms.label[order]).ravel()
    sums = np.bincount(flat, weights=kept.ravel(), minlength=cases * atoms.n_labels).astype(np.float64)
    return sums.reshape(cases, atoms.n_labels)


def _blocks(atoms: Atoms, z: Float, mass: Float) -> Iterator[tuple[slice, Float, Float]]:
    """(cases, their cosines, their label masses), a few cases at a time.

    The matrix product wants many cases at once, the passes after it few enough to stay in cache: so
    products are taken over large chunks of bounded memory and handed out in small blocks of rows.
    """
    n = atoms.vectors.shape[0]
    large = chunk_size(n, bytes_per_entry=4)
    small = max(8, BLOCK_BYTES // (4 * n))
    for start in range(0, z.shape[0], large):
        cosine = similarity(z[start : start + large], atoms.vectors)
        for low in range(0, cosine.shape[0], small):
            part = slice(start + low, start + min(low + small, cosine.shape[0]))
            yield part, cosine[low : low + small], mass if mass.shape[0] == 1 else mass[part]
