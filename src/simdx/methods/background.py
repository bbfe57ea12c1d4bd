"""The labels against a background of other conditions: features, and how they become log odds.

Other conditions are of many kinds. Told that they are one class, a regression looks for what they have in
common, which is little. So their simulations are grouped, and every kind stands as one more label in both
scores; the background is the mixture of its kinds, each weighed by its share of the texts. A panel may name
which of its banks speak for the labels here. Real cases, where there are any, always do.

Constants were chosen on simulated text alone (docs/recipe.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simdx.abc.logs import expit, log_softmax, logit, logsumexp
from simdx.methods.calibration_record import OutsideScale
from simdx.methods.experts import SecondExpert, first_block
from simdx.methods.panel_data import Observations, PanelData, gather, standing_against
from simdx.methods.scores import KERNEL_SHARE, Comparison
from simdx.methods.speed import Arrays, named, part
from simdx.types import Float, Int, Mask

BACKGROUND_BANDWIDTH = 0.05  # of the kernel here; the answer among labels has its own
KINDS = 9
LEAST_TEXTS = 8  # of a kind, on average: a smaller background is divided into fewer
MOST_LINKED = 2000  # texts; a larger background is grouped by a part of it
# Where the threshold lies is found as if it were nearly a step. Where it should lie for real text is not
# known to better than a third of a standard deviation of the features, so that log odds rise more slowly.
STEP = 8.0
SLOPE = 3.0
# Mean probability of none of these that held-out simulated texts of the labels get: about what an open list
# costs in accuracy. Set with the labelled cases of the packaged panels in view.
INSIDE_SHARE = 0.015
NONE_PRIOR = 0.05  # the prior mass of another condition that `--none-prior` is compared with
MOST_FOUND = 0.8  # mean none of these of the held-out background that no threshold is set to exceed
ENOUGH_OTHERS = 30  # texts of it that can say so


@dataclass(frozen=True, slots=True, eq=False)
class BackgroundModel:
    """The labels and the kinds of the background, compared with a case in the recipe's two ways."""

    comparison: Comparison  # the panel's labels, then the kinds
    log_share: Float  # (kinds,) of the background's texts
    second: SecondExpert | None = None  # of the same labels and kinds

    @classmethod
    def fit(
        cls, data: PanelData, bandwidth: float = BACKGROUND_BANDWIDTH, kinds: int = KINDS
    ) -> BackgroundModel | None:
        """None for a bank without background."""
        bank = data.embedded
        if bank.background is None or len(bank.background) == 0:
            return None
        rows = gather(data, standing_against(data.bank), background=True)
        comparison = Comparison.fit(
            data.lexicon, first_block(rows), bandwidth=bandwidth, self_consistent=False, regress_joint=True,
            split_last=lambda joint: kinds_of(joint, kinds, grouped=len(data.bank.background)),
        )  # fmt: skip
        share = np.bincount(comparison.label_index, weights=comparison.weight)[bank.n_labels :]
        finer = np.empty(len(rows.texts), dtype=np.int64)
        finer[comparison.space.rows] = comparison.label_index
        return cls(comparison, np.log(share / share.sum()), SecondExpert.fit(rows, finer))

    @classmethod
    def from_arrays(cls, arrays: Arrays, data: PanelData) -> BackgroundModel:
        """What `fit` made."""
        comparison = Comparison.from_arrays(arrays, data, BACKGROUND_BANDWIDTH)
        share = np.bincount(comparison.label_index)[data.embedded.n_labels :]
        second = SecondExpert.from_arrays(part(arrays, "second"), data.embedded.blocks)
        return cls(comparison, np.log(share / share.sum()), second)

    def arrays(self) -> dict[str, Float]:
        """What was fitted, for a compiled panel."""
        second = {} if self.second is None else named("second", self.second.arrays())
        return {**self.comparison.arrays(), **second}

    @property
    def n_labels(self) -> int:
        return self.comparison.n_labels - len(self.log_share)

    def folded(self, score: Float) -> Float:
        """(N, labels + 1) the kinds' mixture in the place of the kinds."""
        k = self.n_labels
        mixture = logsumexp(score[:, k:] + self.log_share, axis=1, keepdims=True)
        return np.concatenate([score[:, :k], mixture], axis=1)

    def features(self, observations: Observations, possible: Mask | None = None) -> Float:
        """(N, 3) features of another condition, each larger the more it looks like one; not calibrated.
        A second expert brings two more.

        Log odds of the background against the best of the possible labels, by summary and kernel together and
        by a regression on the joint rows; and how little the summary has to say for any label (its energy),
        which also tells conditions that the background does not hold. The second expert's are its own log
        odds and energy.
        """
        every = np.ones(self.n_labels, dtype=bool) if possible is None else possible
        c = self.comparison
        assert c.joint is not None  # `fit` asked for it
        seen = c.observe(observations)
        evidence = c.regressed.scores(seen)
        summary, kernel = log_softmax(evidence, axis=1), KERNEL_SHARE * c.kernel(c.near(seen))
        pooled = self.folded(summary + kernel)
        regressed = self.folded(log_softmax(c.joint.scores(seen), axis=1))
        leads = [s[:, -1] - s[:, :-1][:, every].max(axis=1) for s in (pooled, regressed)]
        energies = [-logsumexp(evidence[:, : self.n_labels][:, every], axis=1)]
        if self.second is not None:
            sensed = self.second.scores(observations)
            of_kinds = self.folded(log_softmax(sensed, axis=1))
            leads.append(of_kinds[:, -1] - of_kinds[:, :-1][:, every].max(axis=1))
            energies.append(-logsumexp(sensed[:, : self.n_labels][:, every], axis=1))
        return np.stack([*leads, *energies], axis=1)


def kinds_of(rows: Float, most: int = KINDS, grouped: int | None = None) -> Int:
    """(n,) the kind of each row, from 0: Ward's clusters.

    Only the first `grouped` rows make the kinds, and of many of those only a part; the others join the
    nearest one.
    """
    makers = rows[:grouped]
    kinds = min(most, len(makers) // LEAST_TEXTS)
    if kinds < 2:
        return np.zeros(len(rows), dtype=np.int64)
    # Spread along some direction and not along the file: neighbours in a file may be alike, or take turns.
    step = -(-len(makers) // MOST_LINKED)
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    linked = np.asarray(makers if step == 1 else makers[np.argsort(makers @ direction)[::step]], dtype=float)
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import, and an answer does not need it

    kind = fcluster(linkage(linked, "ward"), kinds, "maxclust") - 1
    if len(linked) < len(rows):
        means = np.stack([linked[kind == g].mean(axis=0) for g in range(kind.max() + 1)])
        nearest = (rows @ means.T - 0.5 * (means**2).sum(axis=1)).argmax(axis=1)
        # a row that made a kind keeps it
        kind = nearest if step > 1 else np.concatenate([kind, nearest[len(linked) :]])
    return np.unique(kind, return_inverse=True)[1].astype(np.int64)


def condition_log_odds(features: Float, scale: OutsideScale, prior: float | None = None) -> Float:
    """(N,) of another condition, from (N, features); `prior` is its mass, where the user states one."""
    moved = 0.0 if prior is None else logit(prior) - logit(NONE_PRIOR)
    return SLOPE * (feature_score(features, scale) - scale.threshold) + moved


def feature_score(features: Float, scale: OutsideScale) -> Float:
    """(N,) the mean of the features, each in units of the panel's own texts."""
    return ((features - np.array(scale.centre)) / np.array(scale.spread)).mean(axis=1)


def scale_of(
    features: Float, others: Float | None = None, share: float = INSIDE_SHARE, found: float = MOST_FOUND
) -> OutsideScale:
    """Features in units of held-out texts of the labels, and the threshold they mostly stay below.

    Where `others`, the held-out background's, nearly all lie above it, the texts of a weak simulator are too
    like one another, and real ones will lie between: the threshold moves up until it finds the share
    `found` of the others, half of the way to them at most.
    """
    centre, spread = np.median(features, axis=0), np.maximum(features.std(axis=0), 1e-6)
    units, wide = (tuple(round(float(v), 6) for v in values) for values in (centre, spread))
    scale = OutsideScale(units, wide, threshold=0.0)
    threshold = threshold_at(feature_score(features, scale), share)
    if others is not None and len(others) >= ENOUGH_OTHERS:
        score = feature_score(others, scale)
        half_way = (threshold + float(np.median(score))) / 2
        threshold = max(threshold, min(half_way, threshold_at(score, found)))
    return replace(scale, threshold=round(threshold, 6))


def threshold_at(score: Float, share: float) -> float:
    """Where a soft threshold gives these scores this mean probability."""
    low, high = float(score.min()) - 5, float(score.max()) + 5
    for _ in range(60):
        middle = (low + high) / 2
        above = expit(STEP * (score - middle)).mean() > share
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2
