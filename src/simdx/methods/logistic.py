"""Logistic regression on the rows of simulated texts, balanced over labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.abc.logs import log_softmax
from simdx.types import Float, Int

PENALTY = 0.1  # of the recipe's regression, on unit vectors
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)  # times 1/n: the usual grid around C = 1
FOLDS = 5  # of the choice of a penalty


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    weights: Float  # (d, K)
    bias: Float  # (K,)

    def scores(self, x: Float) -> Float:
        """(N, K) what log-probabilities are made of; the penalty keeps their mean over labels at zero."""
        return np.asarray(x, dtype=float) @ self.weights + self.bias

    def log_probabilities(self, x: Float) -> Float:
        return log_softmax(self.scores(x), axis=1)

    def probabilities(self, x: Float) -> Float:
        return np.exp(self.log_probabilities(x))


def fit_logistic(x: Float, y: Int, n_labels: int, penalty: float, weight: Float | None = None) -> Logistic:
    """The minimum of the balanced log-loss + penalty / (2n) · |W|², by L-BFGS; the bias is not penalised.

    Balanced: the mean over labels of each label's mean log-loss, so that an unevenly filled bank does not
    smuggle its label counts in as a prior. A row of weight w counts as w equal rows, in its label and in n.
    """
    x = np.asarray(x, dtype=float)
    n, d = x.shape
    each = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    counts = np.bincount(y, weights=each, minlength=n_labels)
    share = each / (counts[y] * max((counts > 0).sum(), 1))
    target = np.zeros((n, n_labels))
    target[np.arange(n), y] = share
    ridge = penalty / each.sum()

    def loss(flat: Float) -> tuple[float, Float]:
        weights, bias = flat[: d * n_labels].reshape(d, n_labels), flat[d * n_labels :]
        log_p = log_softmax(x @ weights + bias, axis=1)
        residual = share[:, None] * np.exp(log_p) - target
        gradient = np.concatenate([(x.T @ residual + ridge * weights).ravel(), residual.sum(axis=0)])
        return float(-(target * log_p).sum() + 0.5 * ridge * (weights**2).sum()), gradient

    from scipy.optimize import minimize  # slow to import, and an answer does not need it

    found = minimize(
        loss, np.zeros((d + 1) * n_labels), jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    return Logistic(found.x[: d * n_labels].reshape(d, n_labels), found.x[d * n_labels :])


def choose_penalty(x: Float, y: Int, n_labels: int, seed: int) -> float:
    """The penalty with the least cross-validated log-loss on the very data it is fitted to."""
    fold = shuffled_folds(y, FOLDS, seed)
    losses = []
    for penalty in PENALTIES:
        terms = np.zeros(len(y))
        for f in range(FOLDS):
            held = fold == f
            model = fit_logistic(x[~held], y[~held], n_labels, penalty)
            terms[held] = -model.log_probabilities(x[held])[np.arange(held.sum()), y[held]]
        losses.append(terms.mean())
    return PENALTIES[int(np.argmin(losses))]


def shuffled_folds(y: Int, folds: int, seed: int) -> Int:
    """A fold for every row, each label dealt evenly in a seeded order."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        fold[rows] = np.arange(len(rows)) % folds
    return fold
