"""Does the answer know when it is wrong?

A selective classifier answers its most certain cases first. The selective risk at coverage n/N is the
error rate among the n most certain. Cases with equal uncertainty have no order of their own, so a tied block
is one block and the risk inside it is the one expected over its random orders; no figure here depends on
the order of rows. With e errors among the m cases of a block that follows n0 cases with e0 errors, the
expected risk after j of them is (e0 + j e/m) / (n0 + j), whose sum over the block is
e + (e0 − n0 e/m) (H(n0+m) − H(n0)) with harmonic numbers H.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.scores import (
    NO_CASES,
    Value,
    auroc,
    checked,
    defined,
    predictions,
    scores_and_errors,
    undefined,
)  # fmt: skip
from simdx.types import Float, Int, entropy_bits

# Entropies of the same probabilities in another order differ in the last bits; they are still ties.
_TIE_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The risk–coverage curve at the N coverages 1/N … 1, ties averaged."""

    coverage: Float
    risk: Float


@dataclass(frozen=True, slots=True)
class EntropyBand:
    """Accuracy among the cases of one band of predictive entropy."""

    low_bits: float
    high_bits: float
    n: int
    accuracy: Value


def uncertainty(probabilities: ArrayLike) -> Float:
    """Predictive entropy in bits, rounded so that equal distributions tie."""
    return np.round(entropy_bits(np.asarray(probabilities, dtype=float)), _TIE_DECIMALS)


def errors(probabilities: ArrayLike, label_index: ArrayLike) -> Float:
    """1 where the most probable label is not the gold label."""
    p, y = checked(probabilities, label_index)
    return (predictions(p) != y).astype(float) if y.size else np.zeros(0)


def error_auroc(score: ArrayLike, error: ArrayLike) -> Value:
    """How well uncertainty ranks errors above correct answers, ties counting one half."""
    s, e = scores_and_errors(score, error)
    if not s.size:
        return undefined(NO_CASES)
    if not e.any():
        return undefined("no case was misclassified, so there is no error to detect")
    if e.all():
        return undefined("every case was misclassified, so there is no correct answer to rank errors against")
    return auroc(s, e == 1)


def risk_coverage(score: ArrayLike, error: ArrayLike) -> RiskCoverage:
    """Expected selective risk at each coverage, most certain (lowest score) first."""
    s, e = scores_and_errors(score, error)
    n = len(s)
    if not n:
        return RiskCoverage(np.zeros(0), np.zeros(0))
    order = np.argsort(s, kind="stable")
    _, block, size = np.unique(s[order], return_inverse=True, return_counts=True)
    share = np.bincount(block, weights=e[order]) / size  # expected errors per case of the block
    kept = np.arange(1, n + 1)
    return RiskCoverage(kept / n, np.cumsum(share[block]) / kept)


def aurc(score: ArrayLike, error: ArrayLike) -> Value:
    """Mean selective risk over the N coverages."""
    s, e = scores_and_errors(score, error)
    if not s.size:
        return undefined(NO_CASES)
    return defined(risk_coverage(s, e).risk.mean())


def best_aurc(n: int, n_errors: int) -> float:
    """AURC of the ranking that puts all of the errors last."""
    kept = np.arange(1, n + 1)
    return float((np.maximum(kept - (n - n_errors), 0) / kept).mean())


def e_aurc(score: ArrayLike, error: ArrayLike) -> Value:
    """Excess AURC over the best ranking with as many errors; zero without errors, by definition."""
    s, e = scores_and_errors(score, error)
    area = aurc(s, e).value
    if area is None:
        return undefined(NO_CASES)
    return defined(max(area - best_aurc(len(e), int(e.sum())), 0.0))


def risk_at(coverage: float, score: ArrayLike, error: ArrayLike) -> Value:
    """Expected risk among the ceil(coverage · N) most certain cases."""
    if not 0 < coverage <= 1:
        raise BadInput("a coverage must lie in (0, 1]")
    s, e = scores_and_errors(score, error)
    if not s.size:
        return undefined(NO_CASES)
    return defined(risk_coverage(s, e).risk[kept_at(coverage, len(s)) - 1])


def kept_at(coverage: float, n: int) -> int:
    """How many cases a coverage keeps; the small slack undoes products such as .8 · 5 = 4.0000001."""
    return max(1, math.ceil(coverage * n - 1e-9))


def entropy_strata(probabilities: ArrayLike, label_index: ArrayLike) -> list[EntropyBand]:
    """Accuracy within three bands of entropy cut at its quantiles; equal entropies share a band."""
    p, y = checked(probabilities, label_index)
    if not y.size:
        return []
    bits, wrong = uncertainty(p), errors(p, y)
    edges = np.quantile(bits, np.linspace(0, 1, 4))
    index: Int = np.searchsorted(edges[1:-1], bits, side="left")
    strata = []
    for b in range(3):
        inside = index == b
        n = int(inside.sum())
        correct = defined(1 - wrong[inside].mean()) if n else undefined("no entropy falls in this band")
        strata.append(EntropyBand(float(edges[b]), float(edges[b + 1]), n, correct))
    return strata
