"""What the reviewers said: means and spread per scale, how far they agree, and which cases to revise.

Agreement is over cases that at least two reviewers scored: exact and within-one shares, the mean pairwise
quadratically weighted kappa (chance-corrected, for ordered scores) and, on cases all reviewers scored,
ICC(2,1). When nearly every score is a 5, kappa and ICC are low or undefined although reviewers agree: read
them together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from simdx.metrics.value import Value, defined, undefined
from simdx.review.scores import Score, read_scores
from simdx.review.sheet import ACCEPTED, HIGHEST, LOWEST, SCALES, ReviewSheet
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


def summarise(sheet: ReviewSheet, scores: Sequence[Score] | None = None) -> ReviewSummary:
    """Summarise the scores of the texts this review sent out; scores of other versions are not counted."""
    stored = read_scores(sheet.scores_file) if scores is None else scores
    current = [s for s in stored if sheet.hashes.get(s.id) == s.text_hash]
    reasons: dict[str, str] = {}
    scales = {}
    for scale in SCALES:
        values = _summary_of(current, scale)
        reasons |= {f"{scale}.{k}": v.reason for k, v in values.items() if v.reason}
        counts = np.bincount([getattr(s, scale) for s in current], minlength=HIGHEST + 1)[LOWEST:]
        scales[scale] = {k: v.value for k, v in values.items()} | {
            "counts": {str(i + LOWEST): int(c) for i, c in enumerate(counts)}
        }
    return ReviewSummary(
        n_cases=len(sheet.hashes),
        n_scored=len({s.id for s in current}),
        reviewers={
            name: {"role": own[-1].role, "n": len(own)}
            | {k: float(np.mean([getattr(s, k) for s in own])) for k in SCALES}
            for name in sorted({s.reviewer for s in current})
            if (own := [s for s in current if s.reviewer == name])
        },
        scales=scales,
        label_agreement=_label_agreement(sheet, current),
        revise=_to_revise(current),
        undefined=reasons,
    )


def weighted_kappa(a: Sequence[int], b: Sequence[int]) -> Value:
    """Cohen's kappa with quadratic weights over the five points."""
    from sklearn.metrics import cohen_kappa_score

    if len(a) == 0:
        return undefined(FEW)
    if len({*a, *b}) == 1:
        return undefined("both reviewers gave one and the same score throughout, so chance explains it all")
    return defined(cohen_kappa_score(a, b, labels=range(LOWEST, HIGHEST + 1), weights="quadratic"))


def icc(table: Float) -> Value:
    """ICC(2,1): two-way random effects, absolute agreement, single reviewer; rows are cases."""
    table = np.asarray(table, dtype=float)
    n, k = table.shape if table.ndim == 2 else (0, 0)
    if n < 2 or k < 2:
        return undefined("ICC needs two cases that two reviewers scored")
    grand = table.mean()
    rows = k * ((table.mean(axis=1) - grand) ** 2).sum() / (n - 1)
    columns = n * ((table.mean(axis=0) - grand) ** 2).sum() / (k - 1)
    residual = ((table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + grand) ** 2).sum()
    error = residual / ((n - 1) * (k - 1))
    whole = rows + (k - 1) * error + k * (columns - error) / n
    if whole <= 1e-12:
        return undefined("all scores are equal, so there is no variance to share")
    return defined((rows - error) / whole)


def _summary_of(scores: Sequence[Score], scale: str) -> dict[str, Value]:
    values = np.array([getattr(s, scale) for s in scores], dtype=float)
    nothing = undefined("no scores yet")
    by_case: dict[str, dict[str, int]] = {}
    for s in scores:
        by_case.setdefault(s.id, {})[s.reviewer] = getattr(s, scale)
    names = sorted({s.reviewer for s in scores})
    gaps, kappas = list[int](), list[Value]()
    for a, b in combinations(names, 2):
        both = [(c[a], c[b]) for c in by_case.values() if a in c and b in c]
        gaps += [abs(x - y) for x, y in both]
        if both:
            kappas.append(weighted_kappa([x for x, _ in both], [y for _, y in both]))
    known = [v.value for v in kappas if v.value is not None]
    why = next((v.reason for v in kappas if v.reason), FEW) or FEW
    complete = [[c[name] for name in names] for c in by_case.values() if len(c) == len(names)]
    return {
        "mean": defined(values.mean()) if values.size else nothing,
        "sd": defined(values.std(ddof=1)) if values.size > 1 else undefined("fewer than two scores"),
        "median": defined(float(np.median(values))) if values.size else nothing,
        "exact_agreement": defined(float(np.mean([g == 0 for g in gaps]))) if gaps else undefined(FEW),
        "within_one": defined(float(np.mean([g <= 1 for g in gaps]))) if gaps else undefined(FEW),
        "weighted_kappa": defined(float(np.mean(known))) if known else undefined(why),
        "icc": icc(np.array(complete)) if len(names) > 1 else undefined(FEW),
    }


def _label_agreement(sheet: ReviewSheet, scores: Sequence[Score]) -> dict[str, Any] | None:
    """How often the diagnosis a blinded reviewer names is the gold label; None when nobody named one."""
    gold = {case: sent.label for case, sent in sheet.cases.items()}
    named = [s for s in scores if s.diagnosis is not None and gold.get(s.id) is not None]
    if not named:
        return None
    differing = sorted({s.id for s in named if s.diagnosis != gold[s.id]})
    agreement = float(np.mean([s.diagnosis == gold[s.id] for s in named]))
    return {"n": len(named), "agreement": agreement, "differing": differing}


def _to_revise(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Cases that any reviewer gave less than 4 on either scale, worst first, with what was said."""
    by_case: dict[str, list[Score]] = {}
    for s in scores:
        by_case.setdefault(s.id, []).append(s)
    low = [
        {
            "id": case,
            **{scale: min(getattr(s, scale) for s in own) for scale in SCALES},
            "feedback": [s.feedback for s in own if s.feedback],
        }
        for case, own in by_case.items()
        if any(min(s.completeness, s.correctness) < ACCEPTED for s in own)
    ]
    return sorted(low, key=lambda r: (min(r["completeness"], r["correctness"]), r["id"]))
