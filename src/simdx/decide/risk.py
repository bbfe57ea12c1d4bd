"""Selective risk control: up to which entropy may answers be accepted?

Given labelled cases, a target (at most 5 % errors among accepted answers) and a confidence (90 %), the
largest entropy is sought for which the target holds on new cases with that confidence, whatever the
distribution. The test of many thresholds at once is MAPIE's (learn then test, Holm's correction, precision
of "accept" as a prediction of "correct"). The thresholds tested are fixed in advance, so they owe nothing
to the labels; and they are few, because each one tested costs power: with some hundred cases, many would
leave nothing to promise.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from simdx.errors import BadInput, MissingExtra
from simdx.types import Float, Int, entropy_bits

GRID = 6


@dataclass(frozen=True, slots=True)
class RiskControl:
    """`entropy_bits` is the largest entropy to accept; None when nothing can be promised."""

    target: float
    confidence: float
    entropy_bits: float | None
    n: int
    accepted: int
    errors: int


def control_risk(
    posterior: Float, truth: Int, *, target: float = 0.05, confidence: float = 0.9
) -> RiskControl:
    """The most lenient entropy threshold with at most `target` errors among accepted, at that confidence."""
    try:
        from mapie.risk_control import BinaryClassificationController
    except ImportError:
        raise MissingExtra("risk control", "decide") from None
    for name, value in (("risk", target), ("confidence", confidence)):
        if not 0 < value < 1:
            raise BadInput(f"the {name} is {value:g}: give a number between 0 and 1")
    p = np.asarray(posterior, dtype=float)
    if not len(p):
        raise BadInput("there are no labelled cases to control the risk on")
    most = np.log2(p.shape[1])
    certainty = 1 - entropy_bits(p) / most  # in [0, 1], so that a grid can be fixed in advance
    correct = (p.argmax(axis=1) == truth).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "no valid threshold" is an answer here, not a warning
        controller = BinaryClassificationController(
            predict_function=_as_binary,
            risk="precision",
            target_level=1 - target,
            confidence_level=confidence,
            list_predict_params=np.linspace(0, 1, GRID, endpoint=False),
        ).calibrate(certainty[:, None], correct)
    valid = np.asarray(controller.valid_predict_params, dtype=float)
    if not valid.size:
        return RiskControl(target, confidence, None, len(p), 0, 0)
    kept = certainty >= valid.min()
    return RiskControl(
        target,
        confidence,
        float(most * (1 - valid.min())),
        len(p),
        int(kept.sum()),
        int((1 - correct[kept]).sum()),
    )


def _as_binary(certainty: Float) -> Float:
    s = np.asarray(certainty, dtype=float)[:, 0]
    return np.column_stack([1 - s, s])
