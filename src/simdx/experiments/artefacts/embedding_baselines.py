"""Is it only the embedding? Cosine, TF-IDF, zero-shot, logistic and the supervised ceiling beside M-SMC."""

from __future__ import annotations

from simdx.experiments.artefacts.panels import packaged
from simdx.experiments.config import ExperimentConfig, MethodPart, Scale

_SIMILARITY = ("centroid", "tfidf", "zero-shot")


def config(scale: Scale) -> ExperimentConfig:
    similarity = tuple(
        MethodPart(method=name, kernel=kernel, calibration=0.2 if kernel == "soft" else None)
        for name in _SIMILARITY
        for kernel in (None, "soft")
    )
    others = tuple(MethodPart(method=name) for name in ("auto", "m-smc", "d-smc"))
    return ExperimentConfig(
        name="embedding-baselines",
        title="Embedding and lexical baselines on the reference banks",
        panels=packaged()[:1] if scale == "smoke" else packaged(),
        methods=(*others, *similarity, MethodPart(method="bank-logistic"), MethodPart(method="supervised")),
        resamples=100 if scale == "smoke" else 2000,
    )
