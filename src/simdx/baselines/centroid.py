"""Nearest class mean: cosine between a case and the mean of each label's simulations."""

from __future__ import annotations

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.baselines.scores import posterior_of, similarity_scores
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Float, Posterior, Trace


def fit_centroid(material: Material, settings: Settings) -> Infer:
    space = Space.fit(material.embedded, centre=False)
    means = unit_rows(space.class_means)

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        cosine = space.transform(observations.vectors) @ means.T
        scores = similarity_scores(cosine, settings.kernel, settings.bandwidth)
        return posterior_of(scores, prior, carried_by=len(space.bank)), None

    return infer


def unit_rows(rows: Float) -> Float:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 1e-12, length, 1.0)
