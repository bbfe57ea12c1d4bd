"""The shared-bias alarm: do independent views of the case contradict a confident answer?

A concentrated posterior comes from one simulator and one embedding and can be wrong. The alarm compares the
claimed label with other views. A view is one representation (an embedding block, or the words alone) of one
bank, with a soft kernel of its own bandwidth. The score is the log odds of the best other label against the
claimed one in the views' geometric mean, plus the same log odds in the answer itself. It is a sum of
evidence: an undecided view contributes little, a view that finds the claimed label very unlikely much.

The test: under the null hypothesis the claimed label is right. Simulated texts, each judged by views and a
method fitted without it, give the score's distribution among *correct* answers. Confident answers and the
rest have separate distributions, because views contradict uncertain answers more often even when these are
right. The alarm is raised above the (1 − rate) quantile of the answer's distribution; no labelled case is
used.

The score was chosen on simulated text alone, among loss of mass, Jensen–Shannon, Kullback–Leibler and pooled
margins with and without the answer's own: confident errors of one bank's kernel on the other bank's
descriptions, then confident errors of the cross-fitted method. A view's bandwidth minimises the log loss on
simulated text outside its bank: the other banks' texts if there are any, else its own texts left out in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass

from simdx.abc.space import Space
from simdx.methods.features import LexicalBasis, Lexicon, whole_words
from simdx.methods.panel_data import Observations
from simdx.reading import PLAIN
from simdx.types import Bank, EmbeddedBank, Float, Int, Mask

LEAST_TEXTS = 2  # a word that occurs in one text alone helps only that text
BANDWIDTHS = (0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.13, 0.17)
LOSS_FLOOR = 1e-6  # least probability in a log loss


@dataclass(frozen=True, slots=True)
class View:
    """One representation of one bank."""

    name: str
    bank: Bank
    bandwidth: float
    cosine: Callable[[Observations], Float]  # (N, n), centred, against the bank's rows in order

    def posterior(self, seen: Observations, prior: Float, *, leave_out: bool = False) -> Float:
        """(N, K) under that prior; `leave_out` drops rows of the bank whose text is the case's own."""
        own = _same_text(seen.texts, self.bank.texts) if leave_out else None
        return soft_posterior(self.cosine(seen), self.bank.label_index, prior, self.bandwidth, own)


def soft_posterior(
    cosine: Float, label_index: Int, prior: Float, bandwidth: float, own: Mask | None = None
) -> Float:
    """Soft-kernel posterior from cosines (N, n); cells where `own` is true do not count.

    A label without any simulation gets no mass; if no label has one, the answer is the prior.
    """
    logit = cosine / bandwidth
    if own is not None:
        logit = np.where(own, -np.inf, logit)
    top = logit.max(axis=1, keepdims=True)
    weight = np.exp(logit - np.where(np.isfinite(top), top, 0.0))
    member = np.eye(len(prior))[label_index]
    here = np.bincount(label_index, minlength=len(prior)) if own is None else (~own) @ member
    mass = prior * (weight @ member) / np.maximum(here, 1)
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), prior)


def build_views(
    banks: Sequence[Bank],
    vectors: Sequence[Float],
    blocks: Mapping[str, slice],
    bandwidths: Mapping[str, float] | None = None,
    words: Callable[[Bank], LexicalBasis] | None = None,
) -> tuple[View, ...]:
    """A view per (representation, bank); `bandwidths` by view name spares their choice.

    `vectors[i]` embeds the texts of `banks[i]`; `blocks` names the columns of each embedder. `words`: a
    bank's texts by their words, `word_basis` when left out.
    """
    by_words = words or (lambda bank: word_basis(bank.texts))
    seen = [Observations(bank.texts, v) for bank, v in zip(banks, vectors, strict=True)]
    given = [bank.name for bank in banks]
    names = [n if given.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(given)]
    views = []
    for representation, columns in [*blocks.items(), ("words", None)]:
        for i, bank in enumerate(banks):
            name = f"{representation} on {names[i]}"
            cosine = _lexical(by_words(bank)) if columns is None else _embedded(bank, vectors[i], columns)
            width = (bandwidths or {}).get(name) or _bandwidth(cosine, seen, banks, i)
            views.append(View(name, bank, width, cosine))
    return tuple(views)


def _embedded(bank: Bank, vectors: Float, columns: slice) -> Callable[[Observations], Float]:
    part = vectors[:, columns]
    space = Space.fit(EmbeddedBank(part, bank.label_index, len(bank.labels), (part.shape[1],)), centre=True)
    inside = np.empty(space.bank.shape)  # in double precision: the same to 1e-9 in every batch
    inside[space.rows] = space.bank
    return lambda seen: space.transform(seen.vectors[:, columns]).astype(np.float64) @ inside.T


def _lexical(basis: LexicalBasis) -> Callable[[Observations], Float]:
    """An embedding model may have a bias that all banks embedded by it share; word counts have none."""
    return lambda seen: basis.cosines(seen.texts)


def word_basis(texts: Sequence[str], reading: str = PLAIN) -> LexicalBasis:
    """These texts, prepared for comparison by words."""
    lexicon = Lexicon.of(texts, whole_words, LEAST_TEXTS, reading)
    lexicon.take(lexicon.counts(texts))
    return basis_of(lexicon)


def basis_of(lexicon: Lexicon) -> LexicalBasis:
    return LexicalBasis(lexicon, lexicon.taken, np.arange(len(lexicon.taken)))


def _bandwidth(
    cosine: Callable[[Observations], Float], seen: Sequence[Observations], banks: Sequence[Bank], own: int
) -> float:
    bank, loss = banks[own], np.zeros(len(BANDWIDTHS))
    prior = np.full(len(bank.labels), 1 / len(bank.labels))
    for j in [j for j in range(len(banks)) if j != own] or [own]:
        values, truth = cosine(seen[j]), banks[j].label_index
        mine = _same_text(seen[j].texts, bank.texts)
        for b, width in enumerate(BANDWIDTHS):
            p = soft_posterior(values, bank.label_index, prior, width, mine)[np.arange(len(truth)), truth]
            loss[b] -= np.log(np.maximum(p, LOSS_FLOOR)).mean()
    return BANDWIDTHS[int(loss.argmin())]


def _same_text(texts: Sequence[str], bank_texts: Sequence[str]) -> Mask:
    """(N, n) true where a case's text is the bank row's own text."""
    case, row = np.array(texts, dtype=object), np.array(bank_texts, dtype=object)
    return np.asarray(case[:, None] == row[None, :], dtype=bool)


# --------------------------------------------------------------------------- the alarm

CONFIDENT = 0.8  # an answer with this probability on one label counts as confident
RATE = 0.1  # false alarms among correct answers of the same confidence
FLOOR = 1e-4  # least probability of a view: limits the weight of one view against a label
KNOTS = 41  # stored quantiles of a null distribution: steps of 2.5 %, finer than the rate
LEAST_NULL = 30  # simulated answers that a band of confidence needs


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Null:
    """Scores of correct simulated answers from `confidence` up to the next band: quantiles at KNOTS even
    levels, and their number. A policy file holds it as it is."""

    confidence: Annotated[float, Field(ge=0, le=1)]
    quantiles: tuple[FiniteFloat, ...]
    n: PositiveInt
    threshold: FiniteFloat

    @classmethod
    def of(cls, scores: Float, confidence: float = 0.0) -> Null:
        n = len(scores)
        rank = min(n, int(np.ceil((n + 1) * (1 - RATE))))  # counts the new score itself among n + 1
        knots = tuple(round(q, 4) for q in np.quantile(scores, np.linspace(0, 1, KNOTS)).tolist())
        return cls(confidence, knots, n, round(float(np.sort(scores)[rank - 1]), 4))

    def p_value(self, score: Float) -> Float:
        """Share of correct simulated answers with at least this score, between knots by interpolation."""
        below = np.interp(score, self.quantiles, np.linspace(0, 1, len(self.quantiles)))
        return (1 + (1 - below) * self.n) / (1 + self.n)


@dataclass(frozen=True, slots=True)
class Alarms:
    score: Float
    p_value: Float
    flag: Mask


@dataclass(frozen=True, slots=True)
class Alarm:
    """Views with the null distributions of their disagreement, by rising confidence."""

    views: tuple[View, ...]
    nulls: tuple[Null, ...]
    own: bool = True  # does the score include the answer's log odds? Not without held-out answers

    def judge(self, seen: Observations, posterior: Float, prior: Float) -> tuple[Alarms, Float]:
        """The alarm on each answer (N, K), and the views' posteriors (V, N, K)."""
        opinions = view_posteriors(self.views, seen, prior)
        claimed, confidence = posterior.argmax(axis=1), posterior.max(axis=1)
        score = disagreement(opinions, claimed, prior)
        if self.own:
            score = score + disagreement(posterior[None], claimed, prior)
        edges = np.array([null.confidence for null in self.nulls[1:]])
        band = np.searchsorted(edges, confidence, side="right")
        p = np.choose(band, [null.p_value(score) for null in self.nulls])
        bar = np.array([null.threshold for null in self.nulls])[band]
        return Alarms(score, p, score > bar), opinions


def view_posteriors(
    views: Sequence[View], seen: Observations, prior: Float, *, leave_out: bool = False
) -> Float:
    """(V, N, K)."""
    return np.stack([view.posterior(seen, prior, leave_out=leave_out) for view in views])


def disagreement(opinions: Float, claimed: Int, prior: Float) -> Float:
    """(N,) log odds of the best other label against the claimed one, in the views' geometric mean."""
    pooled = np.log(np.maximum(opinions, FLOOR)).mean(axis=0)
    pooled = np.where(prior > 0, pooled, -np.inf)
    rows = np.arange(len(claimed))
    own = pooled[rows, claimed]
    pooled[rows, claimed] = -np.inf
    other = pooled.max(axis=1)
    lowest = np.log(FLOOR)  # with one possible label no view can disagree
    return np.where(np.isfinite(other), other - np.maximum(own, lowest), lowest)


def outvoted(voices: Mapping[str, Float], claimed: Int) -> Mask:
    """(N,) do most voices of a pool prefer another label than the one claimed?"""
    others = np.stack([p.argmax(axis=1) != claimed for p in voices.values()])
    return others.sum(axis=0) > len(voices) / 2


def fit_alarm(views: Sequence[View], seen: Observations, truth: Int, posterior: Float | None) -> Alarm:
    """Null distributions from simulated texts.

    `posterior` (N, K) is the main method's answer to each of them by a fit that did not hold it. Without it
    (or with hardly any that is right) the views alone make the score and all texts its null.
    """
    n_labels = len(views[0].bank.labels)
    prior = np.full(n_labels, 1 / n_labels)
    score = disagreement(view_posteriors(views, seen, prior, leave_out=True), truth, prior)
    if posterior is None or (right := posterior.argmax(axis=1) == truth).sum() < LEAST_NULL:
        return Alarm(tuple(views), (Null.of(score),), own=False)
    score = score + disagreement(posterior[None], truth, prior)
    return Alarm(tuple(views), banded_nulls(score[right], posterior[right].max(axis=1)))


def banded_nulls(score: Float, confidence: Float) -> tuple[Null, ...]:
    """Null distributions for uncertain and for confident answers; one for all if either has too few."""
    sure = confidence >= CONFIDENT
    if min(sure.sum(), (~sure).sum()) < LEAST_NULL:
        return (Null.of(score),)
    return Null.of(score[~sure]), Null.of(score[sure], CONFIDENT)


def alarm_performance(posterior: Float, truth: Int, flag: Mask) -> dict[str, float | None]:
    """The alarm's results on labelled cases, for reports only: among answers with at least CONFIDENT on one
    label, the errors flagged and the correct answers flagged."""
    sure = posterior.max(axis=1) >= CONFIDENT
    wrong = posterior.argmax(axis=1) != truth
    errors, correct = sure & wrong, sure & ~wrong
    return {
        "n_confident_errors": int(errors.sum()),
        "n_confident_correct": int(correct.sum()),
        "recall": float(flag[errors].mean()) if errors.any() else None,
        "false_alarm": float(flag[correct].mean()) if correct.any() else None,
    }
