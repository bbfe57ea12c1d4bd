"""Does the answer know when it is wrong?

A selective classifier answers its most certain cases first. The selective risk at coverage n/N is the
error rate among the n most certain. Cases with equal uncertainty have no order of their own, so a tied block
is one block and the risk inside it is the one expected over its random orders; no figure depends on the order
of rows. The areas under the curve are in `resampling`, in closed form.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simdx.metrics.scores import checked, predictions
from simdx.types import Float, Int, entropy_bits

# Entropies of the same probabilities in another order differ in the last bits; they are still ties.
_TIE_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The risk–coverage curve at the N coverages 1/N … 1, ties averaged."""

    coverage: Float
    risk: Float


def uncertainty(probabilities: ArrayLike) -> Float:
    """Predictive entropy in bits, rounded so that equal distributions tie."""
    return np.round(entropy_bits(np.asarray(probabilities, dtype=float)), _TIE_DECIMALS)


def errors(probabilities: ArrayLike, label_index: ArrayLike) -> Float:
    """1 where the most probable label is not the gold label."""
    p, y = checked(probabilities, label_index)
    return (predictions(p) != y).astype(float) if y.size else np.zeros(0)


def risk_coverage(score: ArrayLike, error: ArrayLike) -> RiskCoverage:
    """Expected selective risk at each coverage, most certain (lowest score) first."""
    s, e = np.asarray(score, dtype=float), np.asarray(error, dtype=float)
    order = np.argsort(s, kind="stable")
    _, block, size = np.unique(s[order], return_inverse=True, return_counts=True)
    share = np.bincount(block, weights=e[order], minlength=len(size)) / size  # errors per case of the block
    kept = np.arange(1, len(s) + 1)
    return RiskCoverage(kept / len(s), np.cumsum(share[block]) / kept)


def kept_at(coverage: float, n: int) -> int:
    """How many cases a coverage keeps; the small slack undoes products such as .8 · 5 = 4.0000001."""
    return max(1, math.ceil(coverage * n - 1e-9))


def entropy_strata(probabilities: ArrayLike, label_index: ArrayLike) -> list[dict[str, Any]]:
    """Accuracy within three bands of entropy cut at its quantiles; equal entropies share a band.

    It is None in a band where no case falls.
    """
    p, y = checked(probabilities, label_index)
    if not y.size:
        return []
    bits, wrong = uncertainty(p), errors(p, y)
    edges = np.quantile(bits, np.linspace(0, 1, 4))
    index: Int = np.searchsorted(edges[1:-1], bits, side="left")
    strata = []
    for b in range(3):
        own = wrong[index == b]
        accuracy = float(1 - own.mean()) if own.size else None
        band = {"low_bits": float(edges[b]), "high_bits": float(edges[b + 1])}
        strata.append({**band, "n": own.size, "accuracy": accuracy})
    return strata
