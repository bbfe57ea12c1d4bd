"""Conformal sets: the labels that cannot be ruled out, with a coverage guarantee.

From a labelled calibration file, the score of a label is one minus its posterior probability. A set holds
every label whose score the calibration cases make plausible at the chosen level, over all cases (*split*) or
among the cases of that label (*class-conditional*, which guards rare labels too). The p-values come from
crepes; what is kept is, per label, the largest calibration score still inside, so that an answer needs
neither the library nor the calibration cases. The guarantee holds for cases drawn like the calibration
cases, answered by the same method, bank and prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simdx.errors import BadInput, MissingExtra
from simdx.types import Float, Int

Kind = Literal["split", "class-conditional"]
KINDS = ("split", "class-conditional")


@dataclass(frozen=True, slots=True)
class ConformalThresholds:
    """Per label the largest score inside the set; infinite where the calibration cases are too few."""

    kind: Kind
    level: float
    largest: tuple[float, ...]
    n: int

    def sets(self, posterior: Float) -> NDArray[np.bool_]:
        """(N, K) bool: which labels each set holds."""
        # the slack keeps a calibration case inside its own set in spite of rounding in the file
        return 1 - np.atleast_2d(posterior) <= np.asarray(self.largest) + 1e-9


def calibrate(
    posterior: Float, truth: Int, *, level: float = 0.9, kind: Kind = "class-conditional"
) -> ConformalThresholds:
    """Thresholds from the posteriors (N, K) of labelled cases."""
    try:
        from crepes import ConformalClassifier
    except ImportError:
        raise MissingExtra("conformal calibration", "decide") from None
    if kind not in KINDS:
        raise BadInput(f"unknown kind of conformal set '{kind}': choose {' or '.join(KINDS)}")
    if not 0 < level < 1:
        raise BadInput(f"the coverage is {level:g}: give a number between 0 and 1, such as .9")
    p = np.asarray(posterior, dtype=float)
    y = np.asarray(truth)
    if not len(y):
        raise BadInput("there are no calibration cases")
    score = 1 - p[np.arange(len(y)), y]
    largest = []
    for k in range(p.shape[1]):
        own = score if kind == "split" else score[y == k]
        largest.append(_largest_inside(ConformalClassifier, own, level))
    return ConformalThresholds(kind, level, tuple(largest), len(y))


def _largest_inside(classifier: type, score: Float, level: float) -> float:
    """The largest score whose conformal p-value exceeds 1 − level."""
    if not len(score):
        return float("inf")
    fitted = classifier().fit(score)
    # A score above every calibration score has the smallest p-value there is: 1 / (n + 1).
    probe = np.append(np.unique(score), np.inf)
    p_value = fitted.predict_p(probe[:, None], smoothing=False).ravel()
    inside = probe[p_value > 1 - level + 1e-12]
    return float(inside.max()) if inside.size else -1.0


def coverage_of(sets: NDArray[np.bool_], truth: Sequence[int] | Int) -> float:
    """Share of cases whose set holds the gold label."""
    return float(np.asarray(sets)[np.arange(len(truth)), truth].mean())
