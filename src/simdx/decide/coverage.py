"""Do conformal sets hold the truth on labelled cases, how large are they, and what does a changed prior do?

Thresholds come from a calibration set where there is one; else the cases are dealt into folds, and each gets
its sets by thresholds from the other folds. Sets of both kinds are measured as the cases are, and as if their
labels came in the shares of the prior: a case then weighs as much more as its label would be more frequent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdx.decide.guarantees import calibrate, mondrian_sets, shift_weights
from simdx.metrics.means import mean_values
from simdx.types import Float, Int

FOLDS = 5
Sets = NDArray[np.bool_]


def measured_sets(
    posterior: Float,
    truth: Int,
    labels: Sequence[str],
    prior: Float,
    *,
    level: float = 0.9,
    calibration: tuple[Float, Int] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    resamples: int = 2000,
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Coverage and mean size of split and class-conditional sets, under the command line's key names.

    `calibration` are posteriors and labels of other cases. `groups` are values of fields, of the cases and
    then of the other ones: split sets are measured by group, with one threshold for all and with one for each
    group (`mondrian`). None where there is nothing to calibrate on; `at_prior` is None where the labels come
    in the shares of the prior already.
    """
    if calibration is None and len(truth) < 2:
        return None
    if calibration is not None:
        sets = _sets(posterior, *calibration, prior, level)
    else:
        sets = {}
        for held in _folds(truth):
            own = _sets(posterior[held], posterior[~held], truth[~held], prior, level)
            for name, inside in own.items():
                sets.setdefault(name, np.zeros(posterior.shape, bool))[held] = inside
    weights = shift_weights(truth, prior)[truth]

    def measured(kind: str, at_prior: bool = False) -> dict[str, Any]:
        inside = sets[kind]
        terms = {"coverage": inside[np.arange(len(truth)), truth], "mean_size": inside.sum(axis=1)}
        found = mean_values(terms, weights=weights if at_prior else None, resamples=resamples, rng=rng)
        return {**found.values, "ci": found.ci}

    share = np.bincount(truth, minlength=len(labels)) / len(truth)
    changed = not np.allclose(share, prior, atol=1e-9)
    return {
        "level": level,
        "calibrated_on": "other folds" if calibration is None else "calibration cases",
        "n_calibration": len(truth) * (FOLDS - 1) // FOLDS if calibration is None else len(calibration[1]),
        **{
            kind: {
                **measured(kind),
                "least": _least(sets[kind], truth, labels),
                "labels_always_inside": int(sets[kind].all(axis=0).sum()),
            }
            for kind in ("split", "class_conditional")
        },
        "at_prior": {
            **{kind: measured(kind, at_prior=True) for kind in ("split", "weighted", "class_conditional")},
            "labels_without_cases": int(((share == 0) & (prior > 0)).sum()),
        }
        if changed
        else None,
        "groups": {
            field: _by_group(posterior, truth, sets["split"], np.asarray(values), level, calibration)
            for field, values in (groups or {}).items()
        },
    }


def _by_group(
    posterior: Float,
    truth: Int,
    split: Sets,
    values: Any,
    level: float,
    calibration: tuple[Float, Int] | None,
) -> dict[str, Any]:
    """Coverage and mean size in each group, by one threshold for all cases and by one for each group."""
    n, rows = len(truth), np.arange(len(truth))
    how: dict[str, Any] = {"level": level, "kind": "split"}
    own = values[:n]
    if calibration is not None:
        mondrian = mondrian_sets(posterior, own, *calibration, values[n:], **how)
    else:
        mondrian = np.ones_like(split)
        for held in _folds(truth):
            known = (posterior[~held], truth[~held], own[~held])
            mondrian[held] = mondrian_sets(posterior[held], own[held], *known, **how)
    found: dict[str, Any] = {}
    for value in np.unique(own):
        here = own == value
        found[str(value)] = {"n": int(here.sum())} | {
            name: {
                "coverage": float(sets[rows, truth][here].mean()),
                "mean_size": float(sets.sum(axis=1)[here].mean()),
            }
            for name, sets in (("split", split), ("mondrian", mondrian))
        }
    return found


def _sets(posterior: Float, known: Float, labelled: Int, prior: Float, level: float) -> dict[str, Sets]:
    """Sets by thresholds from the posteriors `known` of labelled cases; `weighted`: split, at the prior."""
    thresholds = {
        "split": calibrate(known, labelled, level=level, kind="split"),
        "weighted": calibrate(known, labelled, level=level, kind="split", prior=prior),
        "class_conditional": calibrate(known, labelled, level=level, kind="class-conditional"),
    }
    return {name: found.sets(posterior) for name, found in thresholds.items()}


def _folds(truth: Int) -> list[Sets]:
    fold = np.empty(len(truth), dtype=np.int64)
    fold[np.argsort(truth, kind="stable")] = np.arange(len(truth)) % FOLDS  # each label over all folds
    return [fold == f for f in np.unique(fold)]


def _least(sets: Sets, truth: Int, labels: Sequence[str]) -> dict[str, Any]:
    hit = sets[np.arange(len(truth)), truth]
    share = {k: float(hit[truth == k].mean()) for k in np.unique(truth).tolist()}
    k = min(share, key=share.__getitem__)
    return {"label": labels[k], "n": int((truth == k).sum()), "coverage": share[k]}
