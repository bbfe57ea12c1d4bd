"""What labelled cases can promise: conformal sets, and a limit on errors among accepted answers.

Conformal sets hold the labels that cannot be ruled out. The score of a label is one minus its posterior
probability; a set holds every label whose score the calibration cases make plausible at the chosen level,
over all cases (*split*) or among the cases of that label (*class-conditional*, which guards rare labels too).
What is kept is, per label, the largest calibration score still inside, and for split sets the scores of each
label, so that an answer does not need the calibration cases. Within groups of cases (*Mondrian*) each group
has thresholds of its own, and so the coverage that was asked for.

Where labels will come in other shares than among the calibration cases (another prior, the cases of each
label as before) class-conditional sets hold as they are. Split sets need each calibration case to weigh as
much more as its label will be more frequent, and a label considered for a new case weighs as one more of it
(Tibshirani et al. 2019; for labels Podkopaev and Ramdas 2021): the limit is then another one for each label.

Risk control finds the largest entropy up to which answers may be accepted with at most the target rate of
errors, at a stated confidence, whatever the distribution. The test of many thresholds at once is MAPIE's
(learn then test, Holm's correction). The thresholds are fixed in advance, so they owe nothing to the labels;
and they are few, because each one tested costs power.

Both hold for cases drawn like the calibration cases, answered by the same method, bank and prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simdx.decide.policy import RiskFile
from simdx.errors import BadInput, MissingExtra
from simdx.types import Float, Int, entropy_bits

Kind = Literal["split", "class-conditional"]
KINDS = ("split", "class-conditional")


@dataclass(frozen=True, slots=True)
class ConformalThresholds:
    """Per label the largest score inside the set; infinite where the calibration cases are too few."""

    kind: Kind
    level: float
    largest: tuple[float, ...]
    n: int
    scores: tuple[tuple[float, ...], ...] = ()  # of each label's calibration cases, for split sets

    def under(self, prior: Float) -> ConformalThresholds | None:
        """The same where labels come in the prior's shares; None where that cannot be said.

        They are for posteriors under the prior of calibration: the scores must be those calibrated.
        """
        wanted = np.asarray(prior, dtype=float)
        if self.kind == "class-conditional":
            largest = tuple(q if share > 0 else -1.0 for q, share in zip(self.largest, wanted, strict=True))
            return replace(self, largest=largest)
        if not self.scores:
            return None
        truth = np.repeat(np.arange(len(self.scores)), [len(own) for own in self.scores])
        score = np.array([one for own in self.scores for one in own])
        return replace(self, largest=_split(score, truth, shift_weights(truth, wanted), self.level))

    def sets(self, posterior: Float) -> NDArray[np.bool_]:
        """(N, K) bool: which labels each set holds."""
        # the slack keeps a calibration case inside its own set in spite of rounding in the file
        return 1 - np.atleast_2d(posterior) <= np.asarray(self.largest) + 1e-9


def calibrate(
    posterior: Float,
    truth: Int,
    *,
    level: float = 0.9,
    kind: Kind = "class-conditional",
    prior: Float | None = None,
) -> ConformalThresholds:
    """Thresholds from the posteriors (N, K) of labelled cases.

    `prior` has the labels' shares among the cases to come; without it they stay as they are here.
    """
    if kind not in KINDS:
        raise BadInput(f"unknown kind of conformal set '{kind}': choose {' or '.join(KINDS)}")
    if not 0 < level < 1:
        raise BadInput(f"the coverage is {level:g}: give a number between 0 and 1, such as .9")
    p = np.asarray(posterior, dtype=float)
    y = np.asarray(truth)
    if not len(y):
        raise BadInput("there are no calibration cases")
    score = 1 - p[np.arange(len(y)), y]
    if kind == "class-conditional":
        same = [score[y == k] for k in range(p.shape[1])]
        largest = [_largest_inside(own, np.ones(len(own)), 1.0, level) for own in same]
        return ConformalThresholds(kind, level, tuple(largest), len(y))
    weight = np.ones(p.shape[1]) if prior is None else shift_weights(y, prior)
    scores = tuple(tuple(score[y == k].tolist()) for k in range(p.shape[1]))
    return ConformalThresholds(kind, level, _split(score, y, weight, level), len(y), scores)


def mondrian_sets(
    posterior: Float, groups: ArrayLike, known: Float, truth: Int, known_groups: ArrayLike, **how: Any
) -> NDArray[np.bool_]:
    """(N, K) sets by thresholds from the labelled cases of each case's own group (`how`: as `calibrate`).

    A group without labelled cases can rule nothing out: its sets hold every label.
    """
    own, others = np.asarray(groups), np.asarray(known_groups)
    out = np.ones(np.shape(posterior), dtype=bool)
    for group in np.unique(own):
        cases = others == group
        if cases.any():
            out[own == group] = calibrate(known[cases], truth[cases], **how).sets(posterior[own == group])
    return out


def _split(score: Float, truth: Int, weight: Float, level: float) -> tuple[float, ...]:
    return tuple(_largest_inside(score, weight[truth], own, level) for own in weight)


def shift_weights(truth: Int, prior: Float) -> Float:
    """How much more frequent each label will be than among these cases; infinite where none carries it."""
    wanted = np.asarray(prior, dtype=float)
    share = np.bincount(truth, minlength=len(wanted)) / len(truth)
    absent = np.where(wanted > 0, np.inf, 0.0)
    return np.where(share > 0, wanted / np.where(share > 0, share, 1.0), absent)


def _largest_inside(score: Float, weight: Float, own: float, level: float) -> float:
    """The largest calibration score whose p-value exceeds 1 − level.

    The p-value of a score is the weight of the calibration scores at least as large, and of the new case
    itself (`own`), as a share of all weight.
    """
    if own == 0:
        return -1.0  # a label that will not come
    # With a slack for rounding; a score above every other has the new case's weight on its side alone.
    needed = 1 - level + 1e-12
    if np.isinf(own) or own > needed * (weight.sum() + own):
        return float("inf")
    order = np.argsort(score)
    at_least = np.cumsum(weight[order][::-1])[::-1]  # right for the first of tied scores, which decides
    inside = score[order][at_least + own > needed * (weight.sum() + own)]
    return float(inside.max()) if inside.size else -1.0


def coverage_of(sets: NDArray[np.bool_], truth: Sequence[int] | Int) -> float:
    """Share of cases whose set holds the gold label."""
    return float(np.asarray(sets)[np.arange(len(truth)), truth].mean())


# --------------------------------------------------------------------------- selective risk

GRID = 6  # thresholds tested: each one costs power (Holm's correction)


def control_risk(posterior: Float, truth: Int, *, target: float = 0.05, confidence: float = 0.9) -> RiskFile:
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
            predict_function=lambda s: np.column_stack([1 - s[:, 0], s[:, 0]]),
            risk="precision",
            target_level=1 - target,
            confidence_level=confidence,
            list_predict_params=np.linspace(0, 1, GRID, endpoint=False),
        ).calibrate(certainty[:, None], correct)
    valid = np.asarray(controller.valid_predict_params, dtype=float)
    if not valid.size:
        return RiskFile(target, confidence, None, len(p), 0, 0)
    kept = certainty >= valid.min()
    entropy, errors = float(most * (1 - valid.min())), int((1 - correct[kept]).sum())
    return RiskFile(target, confidence, entropy, len(p), int(kept.sum()), errors)
