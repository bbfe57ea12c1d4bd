"""No simulations at all: cosine between a case and the label's own name and description."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.baselines.scores import posterior_of, similarity_scores
from simdx.embedders.cache import embed_cached
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Label, Posterior, Trace


def fit_zero_shot(material: Material, settings: Settings) -> Infer:
    texts = [label_text(label) for label in material.panel.labels]
    # The labels' own texts stand where the bank would: one vector for each label.
    named = replace(
        material.embedded,
        vectors=embed_cached(material.embedder, texts),
        label_index=np.arange(len(texts)),
        background=None,
    )
    space = Space.fit(named, centre=False)

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        cosine = space.transform(observations.vectors) @ space.bank.T
        scores = similarity_scores(cosine, settings.kernel, settings.bandwidth)
        return posterior_of(scores, prior, carried_by=0.0), None

    return infer


def label_text(label: Label) -> str:
    return f"{label.name}: {label.description}" if label.description else label.name
