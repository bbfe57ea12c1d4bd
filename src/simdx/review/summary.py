"""What the reviewers said: means and spread per scale, how far they agree, and which cases to revise.

Agreement is over cases that at least two reviewers scored: exact and within-one shares, the mean pairwise
quadratically weighted kappa (chance-corrected, for ordered scores) and, on cases all reviewers scored,
ICC(2,1). When nearly every score is a 5, kappa and ICC are low or undefined although reviewers agree: read
them together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from simdx.metrics.scores import Value, defined, undefined
from simdx.review.forms import ACCEPTED, HIGHEST, LOWEST, SCALES, ReviewSheet, Score, read_scores
from simdx.types import Float

FEW = "fewer than two reviewers scored the same case"


@dataclass(frozen=True, slots=True)
class ReviewSummary:
    """A review's outcome as plain values; `undefined` says why a value is None."""

    n_cases: int
    n_scored: int
    reviewers: Mapping[str, Mapping[str, Any]]
    scales: Mapping[str, Mapping[str, Any]]
    label_agreement: Mapping[str, Any] | None
    revise: Sequence[Mapping[str, Any]]
    undefined: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(sheet: ReviewSheet) -> ReviewSummary:
    """Summarise the scores of the texts this review sent out; scores of other versions are not counted."""
    current = [s for s in read_scores(sheet.scores_file) if sheet.hashes.get(s.id) == s.text_hash]
    by_case, by_reviewer = defaultdict[str, list[Score]](list), defaultdict[str, list[Score]](list)
    for score in current:
        by_case[score.id].append(score)
        by_reviewer[score.reviewer].append(score)
    scales: dict[str, dict[str, Any]] = {}
    reasons: dict[str, str] = {}
    for scale in SCALES:
        points = {case: {s.reviewer: getattr(s, scale) for s in own} for case, own in by_case.items()}
        values = _summary_of(list(points.values()))
        reasons |= {f"{scale}.{k}": v.reason for k, v in values.items() if v.reason}
        counts = np.bincount([getattr(s, scale) for s in current], minlength=HIGHEST + 1)
        counted = {str(i): int(counts[i]) for i in range(LOWEST, HIGHEST + 1)}
        scales[scale] = {**{k: v.value for k, v in values.items()}, "counts": counted}
    return ReviewSummary(
        n_cases=len(sheet.hashes),
        n_scored=len(by_case),
        reviewers={
            name: {"role": own[-1].role, "n": len(own)}
            | {scale: float(np.mean([getattr(s, scale) for s in own])) for scale in SCALES}
            for name, own in sorted(by_reviewer.items())
        },
        scales=scales,
        label_agreement=_label_agreement(sheet, current),
        revise=_to_revise(by_case),
        undefined=reasons,
    )


def weighted_kappa(a: Sequence[int], b: Sequence[int]) -> Value:
    """Cohen's kappa with quadratic weights over the five points."""
    from sklearn.metrics import cohen_kappa_score

    if len({*a, *b}) == 1:
        return undefined("both reviewers gave one and the same score throughout, so chance explains it all")
    return defined(cohen_kappa_score(a, b, labels=range(LOWEST, HIGHEST + 1), weights="quadratic"))


def icc(table: Float) -> Value:
    """ICC(2,1): two-way random effects, absolute agreement, single reviewer; rows are cases."""
    n, k = table.shape if table.ndim == 2 else (0, 0)
    if n < 2 or k < 2:
        return undefined("ICC needs two cases that two reviewers scored")
    cases, judges = table.mean(axis=1, keepdims=True), table.mean(axis=0)
    between_cases = k * ((cases - table.mean()) ** 2).sum() / (n - 1)
    between_judges = n * ((judges - table.mean()) ** 2).sum() / (k - 1)
    error = ((table - cases - judges + table.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    whole = between_cases + (k - 1) * error + k * (between_judges - error) / n
    if whole <= 1e-12:
        return undefined("all scores are equal, so there is no variance to share")
    return defined((between_cases - error) / whole)


def _summary_of(cases: Sequence[Mapping[str, int]]) -> dict[str, Value]:
    """One scale, from the points per reviewer of each case."""
    values = np.array([points for case in cases for points in case.values()], dtype=float)
    names = sorted({name for case in cases for name in case})
    gaps, kappas = list[int](), list[Value]()
    for a, b in combinations(names, 2):
        if both := [(case[a], case[b]) for case in cases if a in case and b in case]:
            gaps += [abs(x - y) for x, y in both]
            kappas.append(weighted_kappa(*zip(*both, strict=True)))
    known = [kappa.value for kappa in kappas if kappa.value is not None]
    complete = [[case[name] for name in names] for case in cases if len(case) == len(names)]
    nothing, few = undefined("no scores yet"), undefined(FEW)
    return {
        "mean": defined(values.mean()) if values.size else nothing,
        "sd": defined(values.std(ddof=1)) if values.size > 1 else undefined("fewer than two scores"),
        "median": defined(float(np.median(values))) if values.size else nothing,
        "exact_agreement": defined(float(np.mean([g == 0 for g in gaps]))) if gaps else few,
        "within_one": defined(float(np.mean([g <= 1 for g in gaps]))) if gaps else few,
        "weighted_kappa": defined(float(np.mean(known))) if known else next(iter(kappas), few),
        "icc": icc(np.array(complete, dtype=float)) if len(names) > 1 else few,
    }


def _label_agreement(sheet: ReviewSheet, scores: Sequence[Score]) -> dict[str, Any] | None:
    """How often the diagnosis a blinded reviewer names is the gold label; None when nobody named one."""
    gold = {case: sent.label for case, sent in sheet.cases.items()}
    named = [(s.id, s.diagnosis == gold[s.id]) for s in scores if s.diagnosis and gold.get(s.id)]
    if not named:
        return None
    agreement = float(np.mean([same for _, same in named]))
    differing = sorted({case for case, same in named if not same})
    return {"n": len(named), "agreement": agreement, "differing": differing}


def _to_revise(by_case: Mapping[str, Sequence[Score]]) -> list[dict[str, Any]]:
    """Cases that any reviewer gave less than 4 on either scale, worst first, with what was said."""
    rows = []
    for case, own in by_case.items():
        lowest = {scale: min(getattr(s, scale) for s in own) for scale in SCALES}
        if min(lowest.values()) < ACCEPTED:
            said = [s.feedback for s in own if s.feedback]
            rows.append((min(lowest.values()), case, {"id": case, **lowest, "feedback": said}))
    return [row for *_, row in sorted(rows, key=lambda found: found[:2])]
