"""Calibration by a handful of labelled cases: 20 to 100 of any mixture, some of none of the labels perhaps.

Sharpness, a shift of each label and a shift of the threshold of none of these have the largest posterior
density under a normal prior around what the bank found without labels, so that a few cases move them little
and many move them far. The calibration error that is reported is cross-fitted: each fifth of the cases is
answered by what the others say. Cases of the labels alone raise the threshold; some of none of them keep it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from simdx.errors import BadInput
from simdx.methods.calibration import Calibration, drawn_to_prior
from simdx.methods.data import PanelData
from simdx.methods.rehearsal import HeldOutScores, answered_by, calibrated
from simdx.types import NONE_OF_THESE, Case, Float

FEWEST = 20  # labelled cases of the panel's labels
FOLDS = 5
# Spreads of the normal prior. Fixed before they were tried on cases, but for the last, which was .2 and .3.
SHARPNESS_SPREAD = 1.0  # of log sharpness: panels differ by less
SHIFT_SPREAD = 0.5  # of each label's log odds: what a label's share of real text may be off by
THRESHOLD_SPREAD = 0.3  # in standard deviations of the signs
FURTHEST = 2.0  # that any of them may move
RESAMPLES = 1_000


def calibrated_on(data: PanelData, cases: Sequence[Case]) -> PanelData:
    """The data with the calibration that labelled cases give it."""
    names = data.panel.names
    for i, case in enumerate(cases):
        if case.label not in names and case.label != NONE_OF_THESE:
            raise BadInput(f"calibration case {i + 1} has no label of panel '{data.panel.name}'")
    refuse_few(sum(case.label != NONE_OF_THESE for case in cases))
    rehearsed = calibrated(data)
    return replace(rehearsed, calibration=measured_on(rehearsed, cases))


def measured_on(data: PanelData, cases: Sequence[Case]) -> Calibration:
    """What labelled cases, those of none of the labels named so, make of a data's own calibration."""
    names, base = data.panel.names, data.calibration
    assert base is not None
    inside = [case for case in cases if case.label != NONE_OF_THESE]
    others = [case.text for case in cases if case.label == NONE_OF_THESE]
    labels = np.array([names.index(str(case.label)) for case in inside], dtype=np.int64)
    asked = answered_by(data, data.observe([case.text for case in inside]), labels)
    none = np.zeros(len(others), dtype=np.int64)
    beyond = answered_by(data, data.observe(others), none) if others else None
    return calibrate_on(asked, base, beyond)


def calibrate_on(
    cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None = None, seed: int = 0
) -> Calibration:
    """What labelled cases (and some of none of the labels) and what was known without them give together."""
    from simdx.metrics.calibration import ece
    from simdx.metrics.significance import bootstrap_intervals

    n, n_labels = cases.likelihood.shape
    refuse_few(n)
    rng = np.random.default_rng(seed)
    fold = rng.permutation(n) % FOLDS
    posterior = np.empty((n, n_labels))
    for f in range(FOLDS):
        posterior[fold == f] = posterior_under(fit_on(cases.at(fold != f), base, beyond), cases.at(fold == f))
    around = bootstrap_intervals(
        posterior, cases.label_index, metrics=("ece",), resamples=RESAMPLES, rng=rng
    )["ece"]
    known = around.low is not None and around.high is not None
    return replace(
        fit_on(cases, base, beyond),
        basis="measured",
        n=n,
        writers=0,
        accuracy=float((posterior.argmax(axis=1) == cases.label_index).mean()),
        ece=ece(posterior, cases.label_index).value,
        ece_interval=(float(around.low or 0), float(around.high or 0)) if known else None,
    )


def refuse_few(n: int) -> None:
    if n < FEWEST:
        raise BadInput(f"{n} labelled cases are too few to calibrate on: give {FEWEST} at least")


def fit_on(cases: HeldOutScores, base: Calibration, beyond: HeldOutScores | None = None) -> Calibration:
    """Sharpness, shifts and threshold of largest posterior density."""
    n_labels = cases.likelihood.shape[1]
    rows = np.arange(len(cases.label_index))
    spread = np.array([SHARPNESS_SPREAD, *[SHIFT_SPREAD] * n_labels, THRESHOLD_SPREAD])

    def moved(v: Float) -> Calibration:
        scale = base.outside
        if scale is not None:
            scale = replace(scale, threshold=scale.threshold + float(v[-1]))
        sharpness = float(base.sharpness * np.exp(v[0]))
        return replace(base, sharpness=sharpness, shift=tuple(v[1:-1] - v[1:-1].mean()), outside=scale)

    def loss(v: Float) -> float:
        tried = moved(v)
        own = posterior_under(tried, cases)[rows, cases.label_index]
        total = -np.log(np.maximum(own, 1e-12)).sum()
        told = None if beyond is None else beyond.outside(tried.outside)
        if told is not None:
            total -= np.log(np.maximum(told, 1e-12)).sum()
        return float(total + 0.5 * ((v / spread) ** 2).sum())

    start = np.zeros(2 + n_labels)
    found = moved(minimize(loss, start, method="L-BFGS-B", bounds=[(-FURTHEST, FURTHEST)] * len(start)).x)
    return replace(
        found, sharpness=round(found.sharpness, 4), shift=tuple(round(float(s), 4) for s in found.shift)
    )


def posterior_under(calibration: Calibration, cases: HeldOutScores) -> Float:
    """(N, K) answers under the uniform prior."""
    shift = np.array(calibration.shift) if calibration.shift else 0.0
    inside = np.exp(log_softmax(calibration.sharpness * cases.likelihood + shift, axis=1))
    uniform = np.full(inside.shape[1], 1 / inside.shape[1])
    return drawn_to_prior(inside, cases.outside(calibration.outside), uniform)
