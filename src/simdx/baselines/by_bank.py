"""Baselines that ask no model: they compare a case with the bank, or with the labels' own names.

centroid       cosine to the mean of each label's simulations
tfidf          the same, of bare words
zero-shot      cosine to the label's name and description: no simulation at all
bank-logistic  logistic regression on the bank's embeddings; its penalty is cross-validated within the bank

Each ends in one non-negative score per label and case. Under a uniform prior the normalised scores are the
answer; under another prior it is prior times score. A label with prior zero gets zero. Where no score is
above zero on a possible label the scores say nothing, and the answer is the prior.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import softmax

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.datasets.dataset import Dataset, make_splits
from simdx.embedders.base import embed_cached
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.logistic import Logistic, choose_penalty, fit_logistic, shuffled_folds
from simdx.methods.panel_data import Observations, PanelData
from simdx.metrics.calibration import Temperature, apply_temperature, fit_temperature
from simdx.reading import as_read
from simdx.types import Float, Int, Posterior, content_hash

BANDWIDTH = 0.05  # of the soft kernel, as in M-SMC


def posterior_of(scores: Float, prior: Prior, carried_by: float | Float) -> Posterior:
    """`carried_by`: how many simulations (or replies) stand behind each answer."""
    joint = np.asarray(scores, dtype=float) * prior.probabilities
    total = joint.sum(axis=1, keepdims=True)
    silent = ~(total > 0)
    probabilities = np.where(silent, prior.probabilities, joint / np.where(silent, 1.0, total))
    n = len(joint)
    return Posterior(probabilities, np.broadcast_to(np.asarray(carried_by, float), (n,)), np.full(n, np.nan))


def similarity_scores(similarity: Float, kernel: str | None, bandwidth: float | None) -> Float:
    """Similarities as scores: normalised as they are (hard, the paper's way) or through a softmax (soft).

    Similarities lie close together, so normalising them as they are gives answers close to uniform; the
    softmax at the kernel's own bandwidth is the fair form, and the one whose temperature can be fitted.
    """
    if kernel == "soft":
        return softmax(np.asarray(similarity, float) / (bandwidth or BANDWIDTH), axis=1)
    clipped = np.maximum(np.asarray(similarity, float), 0.0)
    total = clipped.sum(axis=1, keepdims=True)
    return clipped / np.where(total > 0, total, 1.0)


class Similarity(Fitted):
    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self.settings = settings
        self.kernel = settings.kernel

    @abstractmethod
    def similarity(self, observations: Observations) -> Float:
        """(N, K)."""

    def carried_by(self, similarity: Float) -> float | Float:
        return float(len(self.data.bank.texts))

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        cosine = self.similarity(observations)
        scores = similarity_scores(cosine, self.settings.kernel, self.settings.bandwidth)
        return Inferred(posterior_of(scores, prior, self.carried_by(cosine)))


class Centroid(Similarity):
    @cached_property
    def _raw(self) -> Space:
        return Space.fit(self.data.embedded, centre=False)

    @cached_property
    def _means(self) -> Float:
        return unit_rows(self._raw.class_means)

    def similarity(self, observations: Observations) -> Float:
        return self._raw.transform(observations.vectors) @ self._means.T


class TfIdf(Similarity):
    """Frequencies come from the bank; words that the bank never uses are ignored."""

    def __init__(self, data: PanelData, settings: Settings) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        super().__init__(data, settings)
        bank = data.bank
        self._model = TfidfVectorizer(token_pattern=r"(?u)\w\w+")
        one_hot = np.eye(len(bank.labels))[bank.label_index]
        try:
            rows = self._model.fit_transform(self._read(bank.texts))
        except ValueError:  # an empty vocabulary, the one thing it refuses in texts
            raise BadInput("--method tfidf compares words: the bank holds no word of two letters") from None
        self._means = unit_rows((rows.T @ one_hot).T)

    def similarity(self, observations: Observations) -> Float:
        return self._model.transform(self._read(observations.texts)) @ self._means.T

    def _read(self, texts: Sequence[str]) -> list[str]:
        return [as_read(text, self.data.reading)[0] for text in texts]

    def carried_by(self, similarity: Float) -> Float:
        # Without a word in common nothing was said: the scores are all alike, and the prior is the answer.
        return np.where(similarity.any(axis=1), len(self.data.bank.texts), 0.0)


class ZeroShot(Similarity):
    @cached_property
    def _named(self) -> Space:
        """The labels' own texts stand where the bank would: one vector for each label."""
        labels = self.data.panel.labels
        texts = [
            f"{label.name}: {label.description}" if label.description else label.name for label in labels
        ]
        named = replace(
            self.data.embedded,
            vectors=embed_cached(self.data.embedder, texts),
            label_index=np.arange(len(texts)),
            background=None,
        )
        return Space.fit(named, centre=False)

    def similarity(self, observations: Observations) -> Float:
        return self._named.transform(observations.vectors) @ self._named.bank.T

    def carried_by(self, similarity: Float) -> float:
        return 0.0


class BankLogistic(Fitted):
    """A discriminative classifier on the same simulations. It sees what M-SMC sees, and no real label."""

    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        x, y, n_labels = self.space.bank, self.space.label_index, self.space.n_labels
        self._model = fit_logistic(x, y, n_labels, choose_penalty(x, y, n_labels, settings.seed))

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        # The loss is balanced over labels, so these are the probabilities under a uniform prior.
        scores = self._model.probabilities(self.space.transform(observations.vectors))
        return Inferred(posterior_of(scores, prior, carried_by=float(len(self.space.bank))))


def unit_rows(rows: Float) -> Float:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 1e-12, length, 1.0)


# --------------------------------------------------------------------------- the supervised ceiling
#
# What the same embeddings give where labelled cases exist: logistic regression with temperature scaling,
# cross-validated, so that every case is answered by a model that saw neither it nor any copy of its text. It
# is not a method of the front door: a method never sees a label.


FOLDS = 5  # each case is answered by a fit on four fifths of the others
SHARE = 0.2  # the paper's calibration split


def supervised_ceiling(
    vectors: Float, label_index: Int, n_labels: int, texts: list[str], *, folds: int = FOLDS, seed: int = 0
) -> Float:
    """(N, K) out-of-fold probabilities. Penalty and temperature come from the training folds alone."""
    y = np.asarray(label_index)
    present, counts = np.unique(y, return_counts=True)
    if len(present) < 2 or counts.min() < folds:
        raise BadInput(f"a supervised ceiling needs at least {folds} labelled cases of two labels or more")
    fold = _folds(y, texts, folds, seed)
    x = np.asarray(vectors, dtype=float)
    out = np.empty((len(y), n_labels))
    for f in range(folds):
        held = fold == f
        penalty = choose_penalty(x[~held], y[~held], n_labels, seed)
        model, temperature = calibrated_logistic(x[~held], y[~held], n_labels, penalty, seed)
        out[held] = apply_temperature(model.probabilities(x[held]), temperature)
    return out


def calibrated_logistic(x: Float, y: Int, n_labels: int, penalty: float, seed: int) -> tuple[Logistic, float]:
    """A model of all training rows, and the temperature of its own out-of-fold answers."""
    fold = shuffled_folds(y, FOLDS, seed + 1)
    inner = np.empty((len(y), n_labels))
    for f in range(FOLDS):
        held = fold == f
        inner[held] = fit_logistic(x[~held], y[~held], n_labels, penalty).probabilities(x[held])
    return fit_logistic(x, y, n_labels, penalty), fit_temperature(inner, y).value


def _folds(y: Int, texts: list[str], folds: int, seed: int) -> Int:
    """Folds stratified by label in which equal texts (case and spaces aside) never part."""
    keys = [content_hash(" ".join(text.lower().split())) for text in texts]
    first: dict[str, int] = {}
    owner = np.array([first.setdefault(key, i) for i, key in enumerate(keys)])
    leaders = np.unique(owner)
    of_leader = dict(zip(leaders.tolist(), shuffled_folds(y[leaders], folds, seed).tolist(), strict=True))
    return np.array([of_leader[i] for i in owner.tolist()])


@dataclass(frozen=True, slots=True)
class Scaled:
    """Answers of the cases that were not used for fitting."""

    kept: Int  # their positions
    probabilities: Float  # (len(kept), K)
    temperature: Temperature


def temperature_scaled(
    probabilities: Float, dataset: Dataset, labels: tuple[str, ...], *, share: float = SHARE, seed: int = 0
) -> Scaled:
    """Fit on `share` of the cases, answer for the rest."""
    split = make_splits(dataset, {"calibration": share, "test": 1 - share}, seed=seed)
    fit, kept = (np.array(split[name], dtype=np.int64) for name in ("calibration", "test"))
    fitted = fit_temperature(probabilities[fit], dataset.label_index(labels)[fit])
    return Scaled(kept, apply_temperature(probabilities[kept], fitted.value), fitted)
