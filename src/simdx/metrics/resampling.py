"""The headline metrics, and the bootstrap: how sure are we of one, and of a difference between two methods?

A bootstrap resample of N cases is a row of counts that sum to N. Written in counts, sums become matrix
products and rankings are sorted once, so B resamples cost a handful of (B, N) passes; the metric itself has
counts of one. A resample in which a metric is undefined (no errors, say) is NaN inside this file. Two methods
are always compared on the same resample.

The excess risk is biased upwards under resampling, so an interval is the percentile interval shifted by the
bootstrap's own estimate of that bias and clipped to the metric's range; for plain means the bias is zero and
this is the ordinary percentile interval. The p-value of a difference is two-sided, from the bootstrap
distribution centred on zero. The calibration error is biased even without resampling, since chance looks like
miscalibration: its interval and its differences are those of the debiased error (`debiased_ece`).

Areas under the risk–coverage curve are in closed form: with e errors among the m cases of a tied block that
follows n0 cases with e0 errors, the expected risk after j of them is (e0 + j e/m) / (n0 + j), whose sum over
the block is e + (e0 − n0 e/m) (H(n0+m) − H(n0)) with harmonic numbers H. The excess is over the best ranking
with as many errors.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.calibration import (
    adaptive_ece,
    classwise_ece,
    debiased_ece,
    ece_difference,
    smooth_ece,
    weighted_ece,
)
from simdx.metrics.scores import (
    NO_CASES,
    Ranking,
    Value,
    brier_terms,
    checked,
    defined,
    kept_at,
    nll_terms,
    predictions,
    uncertainty,
    undefined,
)
from simdx.types import Float, Int, entropy_bits

HEADLINE = (
    "accuracy", "macro_f1", "brier", "ece", "nll", "entropy_bits", "auroc", "error_auroc", "aurc", "e_aurc",
    "risk_at_80",
)  # fmt: skip
PAIRED = ("ece", "auroc", "error_auroc", "e_aurc")
_RANGE = {"brier": (0.0, 2.0), "nll": (0.0, np.inf), "entropy_bits": (0.0, np.inf)}
# With fewer defined resamples than this share, an interval would describe a conditioned distribution.
_LEAST_DEFINED = 0.9
_CHUNK_CELLS = 50_000  # counts held at once: 400 kB, so that the passes over a chunk stay in cache


def count_chunks(n: int, resamples: int, rng: np.random.Generator) -> Iterator[Float]:
    """Bootstrap counts in chunks of rows; each row sums to n."""
    rows = max(1, min(resamples, _CHUNK_CELLS // max(n, 1)))
    for start in range(0, resamples, rows):
        b = min(rows, resamples - start)
        drawn = rng.integers(0, n, size=(b, n))
        flat = np.bincount((drawn + np.arange(b)[:, None] * n).ravel(), minlength=b * n)
        yield flat.reshape(b, n).astype(np.float64)


def resampled(statistic: Callable[[Float], Float], n: int, resamples: int, rng: np.random.Generator) -> Float:
    """(resamples, M) a statistic of counts, drawn anew."""
    return np.concatenate([statistic(w) for w in count_chunks(n, resamples, rng)])


# --------------------------------------------------------------------------- intervals and differences


def bootstrap_intervals(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    *,
    labels: int | None = None,
    metrics: Sequence[str] = HEADLINE,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, Value]:
    """A bootstrap interval for each metric, all from the same resamples of cases."""
    p, y = checked(probabilities, label_index)
    _check(resamples)
    if not y.size:
        return dict.fromkeys(metrics, undefined(NO_CASES))
    spans = {name: _RANGE.get(name, (0.0, 1.0)) for name in metrics}
    found = intervals_of(WeightedMetrics(p, y, metrics, labels), len(y), spans, resamples=resamples, rng=rng)
    if "ece" in found:
        value, low, high = debiased_ece(p, y, rng)
        found["ece"] = Value(value, low=low, high=high)
    return found


def intervals_of(
    statistic: Callable[[Float], Float],
    n: int,
    spans: Mapping[str, tuple[float, float]],
    *,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, Value]:
    """Intervals of a statistic of counts (B, N) with a column for each of `spans`, which clip them."""
    _check(resamples)
    point = statistic(np.ones((1, n)))[0]
    draws = resampled(statistic, n, resamples, rng)
    return {name: interval_of(point[i], draws[:, i], span) for i, (name, span) in enumerate(spans.items())}


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    label_index: ArrayLike,
    *,
    labels: int | None = None,
    metrics: Sequence[str] = PAIRED,
    resamples: int = 10_000,
    rng: np.random.Generator,
) -> dict[str, Value]:
    """Differences second − first with intervals and p-values from one set of shared resamples."""
    a, y = checked(first, label_index)
    b, _ = checked(second, label_index)
    _check(resamples)
    if not y.size:
        return dict.fromkeys(metrics, undefined(NO_CASES))
    one, two = WeightedMetrics(a, y, metrics, labels), WeightedMetrics(b, y, metrics, labels)
    most = {name: _RANGE.get(name, (0.0, 1.0))[1] for name in metrics}
    spans = {name: (-span, span) for name, span in most.items()}
    found = intervals_of(lambda w: two(w) - one(w), len(y), spans, resamples=resamples, rng=rng)
    if "ece" in found and not np.array_equal(a, b):
        gap, low, high = ece_difference(debiased_ece(a, y, rng), debiased_ece(b, y, rng))
        towards_zero = gap - low if gap > 0 else high - gap  # 1.96 standard errors
        p_value = math.erfc(1.96 / math.sqrt(2) * abs(gap) / max(towards_zero, 1e-12))
        found["ece"] = Value(gap, low=low, high=high, p_value=p_value)
    return found


def interval_of(point: float, draws: Float, span: tuple[float, float]) -> Value:
    """The 95 % percentile interval of resamples, less the bootstrap's own estimate of their bias."""
    if np.isnan(point):
        return undefined("the metric is undefined on these cases")
    good = draws[~np.isnan(draws)]
    if good.size < _LEAST_DEFINED * draws.size:
        return Value(float(point), f"undefined in {draws.size - good.size} of {draws.size} resamples")
    mean = good.mean()
    low, high = np.clip(np.quantile(good, [0.025, 0.975]) - (mean - point), *span)
    # The slack keeps two identical methods at p = 1 in spite of rounding.
    extreme = int((np.abs(good - mean) >= abs(point) - 1e-12).sum())
    p_value = (1 + extreme) / (1 + good.size)
    return Value(float(point), None, float(low), float(high), p_value)


def _check(resamples: int) -> None:
    if resamples < 100:
        raise BadInput("a bootstrap needs at least 100 resamples")


# --------------------------------------------------------------------------- metrics of counts


class WeightedMetrics:
    """The metrics of one set of predictions as functions of counts (B, N).

    `labels`: how many of the columns are labels, where another outcome stands behind them; F1 is theirs.
    """

    def __init__(
        self, p: Float, y: Int, metrics: Sequence[str] = HEADLINE, labels: int | None = None
    ) -> None:
        unknown = sorted(set(metrics) - set(HEADLINE))
        if unknown:
            raise BadInput(f"there is no bootstrap for {unknown[0]!r}; choose among {', '.join(HEADLINE)}")
        self.names = tuple(metrics)
        self._p, self._y, self._labels = p, y, labels
        self._error = (predictions(p) != y).astype(float)
        self._parts: dict[str, Callable[[Float], Float]] = {
            "accuracy": _mean_of(1 - self._error),
            "macro_f1": self._macro_f1,
            "brier": _mean_of(brier_terms(p, y)),
            "ece": lambda w: weighted_ece(w, p.max(axis=1), 1 - self._error),
            "nll": _mean_of(nll_terms(p, y)),
            "entropy_bits": _mean_of(entropy_bits(p)),
            "auroc": self._class_auroc,
            "error_auroc": lambda w: self._by_entropy.auroc(w, self._error),
            "aurc": lambda w: self._areas(w)[0],
            "e_aurc": lambda w: self._areas(w)[1],
            "risk_at_80": self._risk_at_80,
        }
        self._by_entropy = Ranking(uncertainty(p))
        self._by_class = [Ranking(p[:, k]) for k in range(p.shape[1])] if "auroc" in self.names else []

    def __call__(self, counts: Float) -> Float:
        """Values (B, number of metrics), NaN where a resample leaves a metric undefined."""
        return np.stack([self._parts[name](counts) for name in self.names], axis=1)

    def _macro_f1(self, w: Float) -> Float:
        n, k = self._p.shape
        cell = np.zeros((n, k * k))
        cell[np.arange(n), self._y * k + predictions(self._p)] = 1
        table = (w @ cell).reshape(-1, k, k)
        hits = np.diagonal(table, axis1=1, axis2=2)[:, : self._labels]
        either = (table.sum(axis=1) + table.sum(axis=2))[:, : self._labels]
        f1 = 2 * hits / np.maximum(either, 1)
        return f1.sum(axis=1) / (either > 0).sum(axis=1)

    def _class_auroc(self, w: Float) -> Float:
        """Macro mean of one-vs-rest over the labels that some cases carry and others do not."""
        each = [one.auroc(w, (self._y == k).astype(float)) for k, one in enumerate(self._by_class)]
        there = ~np.isnan(each)
        n = there.sum(axis=0)
        return np.where(n > 0, np.where(there, each, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)

    def _areas(self, w: Float) -> tuple[Float, Float]:
        """AURC and E-AURC, the sum over tied blocks."""
        size = self._by_entropy.blocks(w)
        wrong = self._by_entropy.blocks(w * self._error)
        after, wrong_after = np.cumsum(size, axis=1), np.cumsum(wrong, axis=1)
        before, wrong_before = after - size, wrong_after - wrong
        n, total = after[:, -1], wrong_after[:, -1]
        table = np.cumsum(np.r_[0.0, 1 / np.arange(1, int(n.max()) + 1)])  # H(0) … H(n)
        harmonic = table[after.astype(int)] - table[before.astype(int)]
        share = wrong / np.maximum(size, 1)
        area = (wrong + (wrong_before - share * before) * harmonic).sum(axis=1) / n
        right = n - total
        best = (total - right * (table[n.astype(int)] - table[right.astype(int)])) / n
        return area, np.maximum(area - best, 0.0)

    def _risk_at_80(self, w: Float) -> Float:
        size = self._by_entropy.blocks(w)
        wrong = self._by_entropy.blocks(w * self._error)
        kept = kept_at(0.8, int(w[0].sum()))
        before = np.cumsum(size, axis=1) - size
        taken = np.clip(kept - before, 0, size)  # how much of each tied block the coverage keeps
        return (taken * wrong / np.maximum(size, 1)).sum(axis=1) / kept


class RankCorrelation:
    """Spearman's correlation of two scores of the cases as a function of counts (B, N)."""

    def __init__(self, first: Float, second: Float) -> None:
        self._orders = (Ranking(first), Ranking(second))

    def __call__(self, w: Float) -> Float:
        """(B, 1), NaN where a resample leaves one of the scores the same for every case."""
        n = w.sum(axis=1, keepdims=True)
        centred = [order.ranks(w) - (n + 1) / 2 for order in self._orders]  # the mean rank is (n + 1) / 2
        together, *spreads = (
            np.einsum("ij,ij,ij->i", w, a, b)
            for a, b in (centred, (centred[0], centred[0]), (centred[1], centred[1]))
        )
        product = spreads[0] * spreads[1]
        # n/12·(n²−1) is the spread of n distinct ranks; what is far below it is rounding around nought
        there = product > (1e-9 * n[:, 0] ** 3) ** 2
        return np.where(there, together / np.sqrt(np.where(there, product, 1.0)), np.nan)[:, None]


def _mean_of(terms: Float) -> Callable[[Float], Float]:
    return lambda w: (w @ terms) / w.sum(axis=1)


# --------------------------------------------------------------------------- all headline metrics at once


def headline_values(
    probabilities: ArrayLike, label_index: ArrayLike, labels: int | None = None
) -> dict[str, Value]:
    """Every headline metric and the further calibration errors; `labels` as for `WeightedMetrics`."""
    p, y = checked(probabilities, label_index)
    further = {"classwise_ece": classwise_ece, "adaptive_ece": adaptive_ece, "smooth_ece": smooth_ece}
    if not y.size:
        return dict.fromkeys((*HEADLINE, *further), undefined(NO_CASES))
    found = WeightedMetrics(p, y, labels=labels)(np.ones((1, len(y))))[0]
    reasons = _reservations(p, y)
    values = {name: defined(value, reasons.get(name)) for name, value in zip(HEADLINE, found, strict=True)}
    return values | {name: Value(metric(p, y)) for name, metric in further.items()}


def _reservations(p: Float, y: Int) -> dict[str, str]:
    """Why a metric is undefined on these cases, or what it leaves out."""
    reasons = {}
    own = np.bincount(y, minlength=p.shape[1])
    left_out = int(((own == 0) | (own == len(y))).sum())
    if left_out == p.shape[1]:
        reasons["auroc"] = "every case has the same label, so there is nothing to discriminate"
    elif left_out:
        reasons["auroc"] = f"labels without cases left out: {left_out}"
    wrong = predictions(p) != y
    if not wrong.any():
        reasons["error_auroc"] = "no case was misclassified, so there is no error to detect"
    elif wrong.all():
        reasons["error_auroc"] = (
            "every case was misclassified, so there is no correct answer to rank errors against"
        )
    return reasons


def evaluate_probabilities(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    *,
    labels: int | None = None,
    resamples: int = 2000,
    rng: np.random.Generator | None = None,
) -> dict[str, object]:
    """The headline metrics as plain numbers or None, with `ci` and, under `undefined`, every reason.

    Intervals are drawn only when a generator is given; otherwise `ci` maps every metric to None. That of the
    calibration error is around `ece_debiased`: the plug-in `ece` of a calibrated method lies above it.
    `labels` as for `WeightedMetrics`.
    """
    values = headline_values(probabilities, label_index, labels)
    reasons = {name: value.reason for name, value in values.items() if value.reason}
    ci: dict[str, list[float] | None] = dict.fromkeys(HEADLINE)
    debiased = None
    if rng is not None:
        found = bootstrap_intervals(probabilities, label_index, labels=labels, resamples=resamples, rng=rng)
        ci = {name: interval.interval for name, interval in found.items()}
        debiased = found["ece"].value
        reasons |= {f"ci.{name}": i.reason for name, i in found.items() if i.reason and name not in reasons}
    p = np.asarray(probabilities)
    return {
        "n": int(p.shape[0]),
        "k": labels or int(p.shape[1]),
        **{name: value.value for name, value in values.items()},
        "ece_debiased": debiased,
        "ci": ci,
        "undefined": reasons,
    }
