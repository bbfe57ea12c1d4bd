"""What the plots of an evaluation draw, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simdx.metrics.calibration import reliability
from simdx.metrics.scores import confusion
from simdx.metrics.selective import entropy_strata, errors, risk_coverage, uncertainty
from simdx.types import Float, Int

POINTS = 200  # of a curve: more would not be seen


def plotted(p: Float, y: Int, labels: Sequence[str]) -> dict[str, Any]:
    """Reliability, risk and coverage, confusion and strata of entropy as plain lists, under their keys."""
    table = reliability(p, y)
    curve = risk_coverage(uncertainty(p), errors(p, y))
    step: Int = np.unique(np.linspace(0, max(len(y) - 1, 0), min(len(y), POINTS)).astype(int))
    return {
        "reliability": {
            "edges": table.edges.tolist(),
            "n": table.n.tolist(),
            "confidence": table.confidence.tolist(),
            "accuracy": table.accuracy.tolist(),
        },
        "risk_coverage": {"coverage": curve.coverage[step].tolist(), "risk": curve.risk[step].tolist()},
        "confusion": {"labels": list(labels), "counts": confusion(p, y).tolist()},
        "strata": [
            {"low_bits": s.low_bits, "high_bits": s.high_bits, "n": s.n, "accuracy": s.accuracy.value}
            for s in entropy_strata(p, y)
        ],
    }
