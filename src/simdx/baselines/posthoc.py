"""Temperature scaling on a labelled split: a step any method's answers can take afterwards.

The split is stratified and never parts equal texts. The temperature is fitted on one part, and only the
other part is scored with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.datasets.dataset import Dataset
from simdx.datasets.splits import make_splits
from simdx.metrics.calibration import Temperature, apply_temperature, fit_temperature
from simdx.types import Float, Int

SHARE = 0.2  # the paper's calibration split


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
    fit, kept = (np.array(split.parts[name], dtype=np.int64) for name in ("calibration", "test"))
    fitted = fit_temperature(probabilities[fit], dataset.label_index(labels)[fit])
    return Scaled(kept, apply_temperature(probabilities[kept], fitted.value), fitted)
