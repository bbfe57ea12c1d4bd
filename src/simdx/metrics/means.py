"""Means with bootstrap intervals and medians with quartiles, for one number per case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from simdx.errors import BadInput
from simdx.metrics.resampling import RankCorrelation, intervals_of
from simdx.metrics.scores import NLL_FLOOR, NO_CASES, checked_rows
from simdx.types import Float


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers by name, their intervals where drawn, and the reasons for what is undefined or left out."""

    values: dict[str, float | None]
    ci: dict[str, list[float] | None]
    undefined: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        return {**self.values, "ci": self.ci, "undefined": self.undefined}


def mean_values(
    terms: Mapping[str, ArrayLike],
    *,
    weights: ArrayLike | None = None,
    resamples: int = 2000,
    rng: np.random.Generator | None = None,
) -> Figures:
    """The mean of each vector of terms; intervals are drawn only when a generator is given.

    A term that is NaN is undefined for that case and left out. With `weights` a case counts as much as its
    weight; resamples draw cases, whatever they weigh.
    """
    table = np.column_stack([np.asarray(values, dtype=np.float64) for values in terms.values()])
    there = ~np.isnan(table)
    weight = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    total, share = np.where(there, table, 0.0) * weight[:, None], there * weight[:, None]

    def statistic(w: Float) -> Float:
        over = w @ share
        return np.where(over > 0, (w @ total) / np.where(over > 0, over, 1.0), np.nan)

    point = statistic(np.ones((1, len(table))))[0]
    values = {name: None if np.isnan(v) else float(v) for name, v in zip(terms, point, strict=True)}
    missing = dict(zip(terms, (~there).sum(axis=0).tolist(), strict=True))
    undefined = {name: f"cases left out: {n}" for name, n in missing.items() if n}
    undefined |= {name: "no case defines it" for name, value in values.items() if value is None}
    ci: dict[str, list[float] | None] = dict.fromkeys(terms)
    if rng is not None and len(table):
        low, high = (pick(np.where(there, table, 0.0), axis=0) for pick in (np.min, np.max))
        spans = {name: (low[i], high[i]) for i, name in enumerate(terms)}  # of terms, hence of their means
        found = intervals_of(statistic, len(table), spans, resamples=resamples, rng=rng)
        ci = {name: interval.interval for name, interval in found.items()}
        unsure = {name: i.reason for name, i in found.items() if i.reason and values[name] is not None}
        undefined |= {f"ci.{name}": reason for name, reason in unsure.items()}
    return Figures(values, ci, undefined)


def spread(values: ArrayLike) -> dict[str, float | int | str | None]:
    """Median and quartiles (linear interpolation) of a vector; None with a reason for none at all."""
    x = np.asarray(values, dtype=float).ravel()
    if not x.size:
        return {"n": 0, **dict.fromkeys(("median", "q1", "q3", "iqr")), "reason": NO_CASES}
    if not np.all(np.isfinite(x)):
        raise BadInput("values to summarise must be finite")
    q1, median, q3 = (float(q) for q in np.quantile(x, [0.25, 0.5, 0.75]))
    return {"n": int(x.size), "median": median, "q1": q1, "q3": q3, "iqr": q3 - q1}


# --------------------------------------------------------------------------- against reference differentials
#
# Whole posteriors beside a distribution over labels: (N, K) arrays over the labels of the panel, both summing
# to one in each row. What a reference says of conditions that the panel does not have is no part of it:
# `compare_differentials` takes that mass apart and holds it against the probability of none of these.


TOP = 3


def total_variation(p: Float, r: Float) -> Float:
    """Half the sum of absolute differences, a value from 0 to 1 for each case."""
    return np.abs(p - r).sum(axis=1) / 2


def cross_entropy(p: Float, r: Float) -> Float:
    """Expected negative log-likelihood of a label drawn from the reference, in nats, floored as it is."""
    return -(r * np.log(np.maximum(p, NLL_FLOOR))).sum(axis=1)


def top_recall(p: Float, r: Float, top: int = TOP) -> Float:
    """Share of the reference's most probable labels, at most `top`, that are in the posterior's top.

    A label to which the reference gives nothing is none of its most probable; ties go by the panel's order.
    """
    # rank of each label, from 0
    answered, wanted = (np.argsort(np.argsort(-x, axis=1, kind="stable"), axis=1) < top for x in (p, r))
    wanted &= r > 0
    return (answered & wanted).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1)


def rank_correlation(p: Float, r: Float) -> Float:
    """Spearman's correlation over the labels, for each case; NaN where either gives all labels the same.

    Labels to which the reference gives nothing are tied, so that even the right order stays below 1 where
    there are several of them.
    """
    a, b = (rankdata(x, axis=1) - (x.shape[1] + 1) / 2 for x in (p, r))
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(spread > 0, (a * b).sum(axis=1) / np.where(spread > 0, spread, 1.0), np.nan)


def compare_differentials(
    among_labels: ArrayLike,
    reference: ArrayLike,
    outside: ArrayLike,
    none_of_these: ArrayLike | None = None,
    *,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, object]:
    """Every figure with its interval, under the command line's key names.

    `reference` (N, K) is the mass on the panel's labels as given, `outside` (N,) that on other conditions;
    together they sum to one. The reference is renormalised over the panel; a case whose reference names no
    label of the panel is left out of those figures and counted.
    """
    given, other = np.asarray(reference, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    mass = given.sum(axis=1)
    known = mass > 0
    scaled = checked_rows(given[known] / mass[known, None])
    p = checked_rows(np.asarray(among_labels)[known])
    few = given.shape[1] <= TOP  # then all labels are among the top three
    terms = {
        "total_variation": total_variation(p, scaled),
        "cross_entropy": cross_entropy(p, scaled),
        "top3_recall": np.full(len(p), np.nan) if few else top_recall(p, scaled),
        "rank_correlation": rank_correlation(p, scaled),
    }
    found = mean_values(terms, resamples=resamples, rng=rng)
    if few:
        found.undefined["top3_recall"] = "the panel has three labels or fewer"
    least = mean_values({"reference_entropy": cross_entropy(scaled, scaled)}).values
    return {
        "n": int(known.sum()),
        "n_naming_no_label": int((~known).sum()),
        **found.as_dict(),
        **least,
        "outside": _outside(other, none_of_these, resamples, rng),
    }


def _outside(
    reference: Float, none_of_these: ArrayLike | None, resamples: int, rng: np.random.Generator
) -> dict[str, object]:
    """The reference's mass outside the panel beside none of these, over all cases with a reference."""
    if none_of_these is None:
        alone = mean_values({"reference_mass": reference}, resamples=resamples, rng=rng)
        alone.undefined["rank_correlation"] = "the answers have no probability of none of these"
        return {"n": len(reference), "none_of_these": None, "rank_correlation": None, **alone.as_dict()}
    said = np.asarray(none_of_these, dtype=np.float64)
    columns = {"reference_mass": reference, "none_of_these": said}
    means = mean_values(columns, resamples=resamples, rng=rng)
    ranks, span = RankCorrelation(reference, said), {"rank_correlation": (-1.0, 1.0)}
    interval = intervals_of(ranks, len(said), span, resamples=resamples, rng=rng)["rank_correlation"]
    means.values["rank_correlation"] = interval.value
    means.ci["rank_correlation"] = interval.interval
    if interval.reason:
        means.undefined["rank_correlation"] = interval.reason
    return {"n": len(said), **means.as_dict()}
