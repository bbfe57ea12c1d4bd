"""Training observations from simulated text, as coordinates c = class_means @ z.

Bank rows are taken leave-one-out: a row's own label mean is recomputed without it, else every training
observation would sit closer to its label than any unseen text can. Real text is more mixed, more off
topic and more varied than a bank, so observations are then spread: mixtures of two rows (of any labels,
or of background descriptions), noise with the covariance of the rows themselves, and a random length,
because text with much that is irrelevant has a smaller cosine with every label at once. All of it is
linear in z up to length, so it is done on c directly.
"""

import numpy as np

from simdx.abc.space import Space
from simdx.errors import BadInput
from simdx.types import Float

NOISE = (0.0, 0.25, 0.5, 1.0)  # standard deviations of noise, in those of the rows themselves
LENGTH = (0.4, 1.25)  # how much shorter or longer than a mixture of rows an observation may be


def from_bank(space: Space) -> Float:
    """(n + m, K): coordinates of every bank row, leave-one-out, and of every background row."""
    means = space.class_means
    bank = space.bank.astype(np.float64)
    coordinates = bank @ means.T
    rows, label = np.arange(len(bank)), space.label_index
    counts = np.bincount(label, minlength=space.n_labels)[label].astype(np.float64)
    own = coordinates[rows, label]
    square = np.einsum("nd,nd->n", bank, bank)
    # A label with a single row has no other row to compare with: its coordinate stays as it is.
    alone = counts < 2
    coordinates[rows, label] = np.where(alone, own, (counts * own - square) / np.maximum(counts - 1, 1))
    if space.background is not None and len(space.background):
        coordinates = np.concatenate([coordinates, space.background.astype(np.float64) @ means.T])
    return coordinates


def from_vectors(space: Space, vectors: Float) -> Float:
    """(n, K): coordinates of texts embedded elsewhere, for training on unlabelled real cases."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or len(vectors) < 2:
        raise BadInput("training needs at least 2 observations")
    if not np.all(np.isfinite(vectors)):
        raise BadInput("a training observation holds NaN or infinite values; embed the texts again")
    return space.transform(vectors).astype(np.float64) @ space.class_means.T


def spread(rng: np.random.Generator, base: Float, count: int) -> Float:
    """(count, K): observations around `base`; one half of the mixtures are a single row."""
    first, second = rng.integers(len(base), size=(2, count))
    share = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))[:, None]
    mixture = share * base[first] + (1 - share) * base[second]
    covariance = np.cov(base, rowvar=False).reshape(base.shape[1], base.shape[1])
    root = np.linalg.cholesky(covariance + 1e-9 * np.trace(covariance) * np.eye(len(covariance)))
    noise = rng.choice(NOISE, size=(count, 1)) * (rng.standard_normal(base[first].shape) @ root.T)
    length = np.exp(rng.uniform(np.log(LENGTH[0]), np.log(LENGTH[1]), size=(count, 1)))
    return length * (mixture + noise)
