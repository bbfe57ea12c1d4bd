"""Scores of a batch of predictive distributions against gold labels.

Every function takes probabilities (N, K) and label positions (N,). The prediction is the most probable
label (the first of them on a tie, so that the panel's order decides and not the row order).
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from simdx.metrics.value import NO_CASES, Value, checked, checked_rows, defined, of_cases, undefined
from simdx.types import Float, Int, entropy_bits

NLL_FLOOR = 1e-6  # a probability of zero would make one case outweigh every other


def predictions(probabilities: ArrayLike) -> Int:
    """Position of the most probable label in each row."""
    return np.asarray(probabilities).argmax(axis=1)


def confusion(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """Counts (K, K): rows are gold labels, columns are predictions."""
    p, y = checked(probabilities, label_index)
    k = p.shape[1]
    return np.bincount(y * k + predictions(p), minlength=k * k).reshape(k, k)


@of_cases
def accuracy(p: Float, y: Int) -> float:
    return float((predictions(p) == y).mean())


def gold_rank(probabilities: ArrayLike, label_index: ArrayLike) -> Int:
    """How many labels each answer puts before the gold one, ties in the panel's order; 0: none."""
    p, y = checked(probabilities, label_index)
    own = p[np.arange(len(y)), y][:, None]
    earlier = np.arange(p.shape[1]) < y[:, None]
    return ((p > own) | ((p == own) & earlier)).sum(axis=1)


def macro_f1(probabilities: ArrayLike, label_index: ArrayLike, labels: int | None = None) -> Value:
    """Unweighted mean of F1 over the labels that occur as gold label or prediction.

    `labels`: how many of the columns are labels, where another outcome stands behind them.
    """
    table = confusion(probabilities, label_index)
    if not table.sum():
        return undefined(NO_CASES)
    hits = np.diagonal(table).astype(float)[:labels]
    either = (table.sum(axis=0) + table.sum(axis=1))[:labels]
    return defined((2 * hits[either > 0] / either[either > 0]).mean())


@of_cases
def brier(p: Float, y: Int) -> float:
    """Mean over cases of the sum over labels of squared differences, 0 to 2."""
    return float(brier_terms(p, y).mean())


@of_cases
def nll(p: Float, y: Int, floor: float = NLL_FLOOR) -> float:
    """Mean negative log-likelihood in nats, with the gold label's probability floored."""
    return float(nll_terms(p, y, floor).mean())


def mean_entropy_bits(probabilities: ArrayLike) -> Value:
    p = checked_rows(probabilities)
    if not p.shape[0]:
        return undefined(NO_CASES)
    return defined(entropy_bits(p).mean())


@of_cases
def class_auroc(p: Float, y: Int) -> Value:
    """Class discrimination: macro mean over labels of one-vs-rest AUROC.

    A label that no case (or every case) carries has no AUROC and is left out of the mean, with a note.
    """
    each = [auroc(p[:, k], y == k).value for k in range(p.shape[1])]
    present = [v for v in each if v is not None]
    if not present:
        return undefined("every case has the same label, so there is nothing to discriminate")
    missing = len(each) - len(present)
    return defined(float(np.mean(present)), f"labels without cases left out: {missing}" if missing else None)


def auroc(score: ArrayLike, positive: ArrayLike) -> Value:
    """Probability that a positive outranks a negative, ties counting one half (Mann–Whitney)."""
    s = np.asarray(score, dtype=float)
    t = np.asarray(positive, dtype=bool)
    n_pos, n_neg = int(t.sum()), int((~t).sum())
    if not n_pos or not n_neg:
        return undefined("there are no positives" if not n_pos else "there are no negatives")
    rank_sum = rankdata(s)[t].sum()
    return defined((rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))


def brier_terms(p: Float, y: Int) -> Float:
    """Per-case Brier terms of checked arrays."""
    return (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1.0


def nll_terms(p: Float, y: Int, floor: float = NLL_FLOOR) -> Float:
    """Per-case negative log-likelihoods of checked arrays."""
    return -np.log(np.maximum(p[np.arange(len(y)), y], floor))
