"""The background: what the labels are weighed against when a case may be none of them.

Other conditions are of many kinds. Told that they are one class, a regression looks for what they have in
common, which is little; so their simulations are grouped, and every kind stands as one more label in both
comparisons. The background is the mixture of its kinds, each weighed by its share of the texts:

    p(text | another condition) = sum over kinds of share(kind) · p(text | kind)

A panel may name which of its banks speak for the labels here. Real cases, where there are any, always do.
Bandwidth and number of kinds were chosen on a second simulator's texts (docs/recipe.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.abc.logs import log_softmax, logsumexp
from simdx.methods.comparison import KERNEL_SHARE, Comparison
from simdx.methods.data import Observations, PanelData, gather
from simdx.types import Bank, Float, Int, Mask

BANDWIDTH = 0.05  # of the kernel here; the answer among labels has its own
KINDS = 9
LEAST_TEXTS = 8  # of a kind, on average: a smaller background is divided into fewer
MOST_LINKED = 2000  # texts; a larger background is grouped by a part of it


@dataclass(frozen=True, slots=True, eq=False)
class BackgroundModel:
    """The labels and the kinds of the background, compared with a case in the recipe's two ways."""

    comparison: Comparison  # the panel's labels, then the kinds
    log_share: Float  # (kinds,) of the background's texts

    @classmethod
    def fit(cls, data: PanelData, bandwidth: float = BANDWIDTH, kinds: int = KINDS) -> BackgroundModel | None:
        """None for a bank without background."""
        bank = data.embedded
        if bank.background is None or len(bank.background) == 0:
            return None
        rows = gather(data, standing_against(data.bank), background=True)
        comparison = Comparison.fit(
            data.lexicon, rows, bandwidth=bandwidth, self_consistent=False, regress_joint=True,
            split_last=lambda joint: kinds_of(joint, kinds, grouped=len(data.bank.background)),
        )  # fmt: skip
        share = np.bincount(comparison.label_index, weights=comparison.weight)[bank.n_labels :]
        return cls(comparison, np.log(share / share.sum()))

    @property
    def n_labels(self) -> int:
        return self.comparison.n_labels - len(self.log_share)

    def scores(self, observations: Observations) -> tuple[Float, Float]:
        """(N, labels + kinds) log-likelihoods by the summary and by the kernel, each up to a constant."""
        c = self.comparison
        seen = c.observe(observations)
        return c.summary(seen), KERNEL_SHARE * c.kernel(c.near(seen))

    def folded(self, score: Float) -> Float:
        """(N, labels + 1) the kinds' mixture in the place of the kinds."""
        k = self.n_labels
        mixture = logsumexp(score[:, k:] + self.log_share, axis=1, keepdims=True)
        return np.concatenate([score[:, :k], mixture], axis=1)

    def signs(self, observations: Observations, possible: Mask | None = None) -> Float:
        """(N, 3) signs of another condition, each larger the more it looks like one; not calibrated.

        Log odds of the background against the best of the possible labels, by summary and kernel together and
        by a regression on the joint rows; and how little the summary has to say for any label (its energy),
        which also tells conditions that the background does not hold.
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
        return np.stack([*leads, -logsumexp(evidence[:, : self.n_labels][:, every], axis=1)], axis=1)


def standing_against(bank: Bank) -> Int:
    """Rows that are weighed against the background: those named, and all of a label that has none of them."""
    if bank.against is None:
        return np.arange(len(bank.texts))
    spoken_for = np.isin(bank.label_index, bank.label_index[bank.against])
    return np.flatnonzero(bank.against | ~spoken_for)


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
