"""Logistic regression on the rows of simulated texts, balanced over labels; how a bank is read, by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.abc.logs import log_softmax
from simdx.methods.features import LexicalSpace, Lexicon
from simdx.reading import DENIED, FOUND, HEAVY, LIGHT, PLAIN, as_read
from simdx.types import Bank, Float, Int

PENALTY = 0.1  # of the recipe's regression, on unit vectors
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0)  # times 1/n: the usual grid around C = 1
FOLDS = 5  # of the choice of a penalty, and of a way to read


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


# --------------------------------------------------------------------------- how a bank is read

CLEAR = 2.0  # standard errors of the mean difference in log loss
LEAST_DENYING = 0.05  # of the bank's texts deny something, or it denies nothing
MOST = 300  # texts; a larger bank chooses by an even part of it


def choose_reading(bank: Bank) -> str:
    """How a panel reads denied findings: chosen by its own simulated texts.

    On chest films "no effusion" must not count for effusion; in a contract "not exclusive" is what the clause
    is about, and a cardiologist's note that denies chest pain is a cardiologist's note all the same. The bank
    knows: its texts, left out in turn, are told apart by the lexical regression under each way of reading
    (`simdx.reading.as_read`). Denied findings, and what is called normal, are left out (`found`), or denials
    become words of their own (`denied`), where that makes the log loss smaller by CLEAR standard errors; they
    count like any word where that makes it larger by as much. Where the bank cannot tell, only texts that are
    mostly denials are cut (`light`). A bank that denies nothing does not say what a denial is worth: only
    texts that say much of what is not there are read without it (`heavy`).

    The rule was set with the labelled panels of results/reading in view.
    """
    rows = np.arange(len(bank.texts))[:: max(1, -(-len(bank.texts) // MOST))]
    texts, label = [bank.texts[i] for i in rows], bank.label_index[rows]
    denying = sum(bool(as_read(text, DENIED)[1]) for text in texts)
    counts = np.bincount(label, minlength=len(bank.labels))
    if denying < LEAST_DENYING * len(texts):
        return HEAVY
    if counts.min() < 2 or len(bank.labels) < 2:
        return LIGHT
    fold = shuffled_folds(label, FOLDS, seed=0)
    plain = _losses(texts, label, fold, PLAIN)
    gains = {way: plain - _losses(texts, label, fold, way) for way in (FOUND, DENIED)}
    best = max(gains, key=lambda way: float(gains[way].mean()))
    gain, error = gains[best].mean(), gains[best].std() / np.sqrt(len(texts))
    return best if gain > CLEAR * error else PLAIN if gain < -CLEAR * error else LIGHT


def _losses(texts: list[str], label: Int, fold: Int, way: str) -> Float:
    """(n,) of each text under a regression that does not hold it."""
    out = np.zeros(len(texts))
    n_labels = int(label.max()) + 1
    for f in range(FOLDS):
        held, kept = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        if not held.size or len(np.unique(label[kept])) < n_labels:
            continue
        own = [texts[i] for i in kept]
        space = LexicalSpace(Lexicon.of(own, reading=way), own)
        model = fit_logistic(space.bank, label[kept], n_labels, PENALTY)
        seen = space.basis.cosines([texts[i] for i in held]) @ space.project
        out[held] = -model.log_probabilities(seen)[np.arange(len(held)), label[held]]
    return out
