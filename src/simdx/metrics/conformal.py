"""Conformal sets: the labels that cannot be ruled out, as labelled cases promise it.

The score of a label is one minus its posterior probability; a set holds every label whose score the
calibration cases make plausible at the chosen level, over all cases (*split*) or among the cases of that
label (*class-conditional*, which guards rare labels too). What is kept is, per label, the largest calibration
score still inside, and for split sets the scores of each label, so that an answer does not need the
calibration cases. Within groups of cases (*Mondrian*) each group has thresholds of its own, and so the
coverage that was asked for.

Where labels will come in other shares than among the calibration cases (another prior, the cases of each
label as before) class-conditional sets hold as they are. Split sets need each calibration case to weigh as
much more as its label will be more frequent, and a label considered for a new case weighs as one more of it
(Tibshirani et al. 2019; for labels Podkopaev and Ramdas 2021): the limit is then another one for each label.
They hold for cases drawn like the calibration cases, answered by the same method, bank and prior.

`measured_sets` says whether sets hold the truth on labelled cases and how large they are. Thresholds come
from other cases where there are some; else the cases are dealt into folds, and each gets its sets by
thresholds from the other folds. Sets are measured as the cases are, and as if their labels came in the
shares of the prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from simdx.errors import BadInput
from simdx.metrics.means import mean_values
from simdx.types import Float, Int, Mask

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

    def sets(self, posterior: Float) -> Mask:
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
) -> Mask:
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


# --------------------------------------------------------------------------- measured on labelled cases

FOLDS = 5


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
    n, every, of_every = len(truth), posterior, truth
    if calibration is None:
        splits = _folds(truth)
    else:
        every, of_every = np.concatenate([posterior, calibration[0]]), np.append(truth, calibration[1])
        splits = [(np.arange(n), np.arange(n, len(every)))]
    split: dict[str, Any] = {"level": level, "kind": "split"}
    wanted = {
        "split": split,
        "weighted": {**split, "prior": prior},
        "class_conditional": {"level": level, "kind": "class-conditional"},
    }
    sets = {name: np.ones(posterior.shape, bool) for name in wanted}
    by_field = {field: (np.asarray(values), sets["split"].copy()) for field, values in (groups or {}).items()}
    for asked, known in splits:
        labelled = every[known], of_every[known]
        for name, how in wanted.items():
            sets[name][asked] = calibrate(*labelled, **how).sets(posterior[asked])
        for values, mondrian in by_field.values():
            own = mondrian_sets(posterior[asked], values[asked], *labelled, values[known], **split)
            mondrian[asked] = own
    weights = shift_weights(truth, prior)[truth]

    def measured(kind: str, at_prior: bool = False) -> dict[str, Any]:
        inside = sets[kind]
        terms = {"coverage": inside[np.arange(n), truth], "mean_size": inside.sum(axis=1)}
        found = mean_values(terms, weights=weights if at_prior else None, resamples=resamples, rng=rng)
        return {**found.values, "ci": found.ci}

    share = np.bincount(truth, minlength=len(labels)) / n
    changed = not np.allclose(share, prior, atol=1e-9)
    return {
        "level": level,
        "calibrated_on": "other folds" if calibration is None else "calibration cases",
        "n_calibration": n * (FOLDS - 1) // FOLDS if calibration is None else len(calibration[1]),
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
            field: _by_group(truth, values[:n], {"split": sets["split"], "mondrian": mondrian})
            for field, (values, mondrian) in by_field.items()
        },
    }


def _by_group(truth: Int, values: Any, kinds: Mapping[str, Mask]) -> dict[str, Any]:
    """Coverage and mean size in each group, by one threshold for all cases and by one for each group."""
    found: dict[str, Any] = {}
    for value in np.unique(values):
        here = np.flatnonzero(values == value)
        found[str(value)] = {"n": len(here)} | {
            name: {
                "coverage": float(sets[here, truth[here]].mean()),
                "mean_size": float(sets[here].sum(axis=1).mean()),
            }
            for name, sets in kinds.items()
        }
    return found


def _folds(truth: Int) -> list[tuple[Int, Int]]:
    """Rows that are asked about, and the others; each label is dealt over all folds."""
    order = np.argsort(truth, kind="stable")
    dealt = [np.sort(order[f::FOLDS]) for f in range(min(FOLDS, len(truth)))]
    return [(own, np.setdiff1d(order, own)) for own in dealt]


def _least(sets: Mask, truth: Int, labels: Sequence[str]) -> dict[str, Any]:
    hit = sets[np.arange(len(truth)), truth]
    share = {k: float(hit[truth == k].mean()) for k in np.unique(truth).tolist()}
    k = min(share, key=share.__getitem__)
    return {"label": labels[k], "n": int((truth == k).sum()), "coverage": share[k]}
