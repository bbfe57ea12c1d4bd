"""All headline metrics of one set of predictions, under the command line's key names."""

import numpy as np
from numpy.typing import ArrayLike

from simdx.metrics import calibration, scores, selective
from simdx.metrics.resampling import HEADLINE, bootstrap_intervals
from simdx.metrics.value import Value, checked


def headline_values(
    probabilities: ArrayLike, label_index: ArrayLike, labels: int | None = None
) -> dict[str, Value]:
    """Every headline metric and the further calibration errors as `Value`s; `labels` as for `macro_f1`."""
    p, y = checked(probabilities, label_index)
    doubt, wrong = selective.uncertainty(p), selective.errors(p, y)
    return {
        "accuracy": scores.accuracy(p, y),
        "macro_f1": scores.macro_f1(p, y, labels),
        "brier": scores.brier(p, y),
        "ece": calibration.ece(p, y),
        "nll": scores.nll(p, y),
        "entropy_bits": scores.mean_entropy_bits(p),
        "auroc": scores.class_auroc(p, y),
        "error_auroc": selective.error_auroc(doubt, wrong),
        "aurc": selective.aurc(doubt, wrong),
        "e_aurc": selective.e_aurc(doubt, wrong),
        "risk_at_80": selective.risk_at(0.8, doubt, wrong),
        "classwise_ece": calibration.classwise_ece(p, y),
        "adaptive_ece": calibration.adaptive_ece(p, y),
        "smooth_ece": calibration.smooth_ece(p, y),
    }


def evaluate_probabilities(
    probabilities: ArrayLike,
    label_index: ArrayLike,
    *,
    labels: int | None = None,
    resamples: int = 2000,
    rng: np.random.Generator | None = None,
) -> dict[str, object]:
    """The headline metrics as plain numbers or None, with `ci` and, under `undefined`, every reason.

    Intervals are drawn only when a generator is given; otherwise `ci` maps every metric to None. That of the
    calibration error is around `ece_debiased`: the plug-in `ece` of a calibrated method lies above it.
    `labels` as for `macro_f1`.
    """
    values = headline_values(probabilities, label_index, labels)
    reasons = {name: value.reason for name, value in values.items() if value.reason}
    ci: dict[str, list[float] | None] = dict.fromkeys(HEADLINE)
    debiased = None
    if rng is not None:
        found = bootstrap_intervals(probabilities, label_index, labels=labels, resamples=resamples, rng=rng)
        ci = {name: interval.as_list() for name, interval in found.items()}
        debiased = found["ece"].estimate
        reasons |= {f"ci.{name}": i.reason for name, i in found.items() if i.reason and name not in reasons}
    p = np.asarray(probabilities)
    return {
        "n": int(p.shape[0]),
        "k": labels or int(p.shape[1]),
        **{name: value.value for name, value in values.items()},
        "ece_debiased": debiased,
        "ci": ci,
        "undefined": reasons,
    }
