"""Whole posteriors against reference differentials: a distribution over labels beside the one gold label.

Posterior and reference are (N, K) arrays over the labels of the panel, both summing to one in each row. What
a reference says of conditions that the panel does not have is no part of it: `compare_differentials` takes
that mass apart and holds it against the probability of none of these.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from simdx.metrics.means import mean_values
from simdx.metrics.resampling import RankCorrelation, intervals_of
from simdx.metrics.scores import NLL_FLOOR, checked_rows
from simdx.types import Float

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
    intervals = intervals_of(ranks, len(said), span, resamples=resamples, rng=rng)
    value = float(ranks(np.ones((1, len(said))))[0, 0])
    means.add("rank_correlation", value, intervals["rank_correlation"])
    return {"n": len(said), **means.as_dict()}
