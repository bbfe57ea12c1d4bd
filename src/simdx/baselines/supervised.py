"""The ceiling: what the same embeddings give where labelled cases exist.

Logistic regression on real cases with temperature scaling, cross-validated, so that every case is answered
by a model that saw neither it nor any copy of its text. It is not a method of the front door: a method never
sees a label. Beside it temperature scaling on a labelled split, a step any method's answers can take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.datasets.dataset import Dataset, make_splits
from simdx.errors import BadInput
from simdx.methods.logistic import Logistic, choose_penalty, fit_logistic, shuffled_folds
from simdx.metrics.calibration import Temperature, apply_temperature, fit_temperature
from simdx.types import Float, Int, content_hash

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
