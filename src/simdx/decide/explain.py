"""Why an answer is what it is.

evidence          the simulated descriptions that carried it, for the leading label and its competitors
sentences         the leading label's probability with each part of the case left out in turn: a positive
                  effect is support, a negative one evidence against. A long case is cut into at most
                  `MOST_PARTS` runs of sentences, so that a case report costs no more than a dozen answers
flip              the prior that would change the answer. Only the leading label's prior is moved. Where the
                  posterior is prior times likelihood its odds give the likelihoods; elsewhere the method
                  is asked on the way down from the present prior, and the first crossing bisected
missing finding   which topic, once known, would settle the case most. For each topic of the panel's facets,
                  the simulated sentences of every label that speak of it stand for the reply; the topic of
                  least expected entropy is worth asking. It costs some hundred answers
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simdx.answer import MissingFinding, SentenceEffect
from simdx.types import Bank, Float, Int, entropy_bits

# --------------------------------------------------------------------------- evidence

LEADING = 3  # descriptions of the leading label
RIVALS = 1  # of every label that competes with it
COMPETES = 0.1  # with at least this probability; the runner-up is always shown for contrast
MOST_LABELS = 3  # with evidence: the leading one and two competitors


def choose_rows(label_index: Int, posterior: Float, score: Float) -> list[int]:
    """Bank rows to show: the highest scores of the leading labels, label by label."""
    order = np.argsort(-posterior, kind="stable")[:MOST_LABELS]
    chosen: list[int] = []
    for rank, label in enumerate(order):
        if rank > 1 and posterior[label] < COMPETES:
            break
        rows = np.flatnonzero(label_index == label)
        best = rows[np.argsort(-score[rows], kind="stable")[: LEADING if rank == 0 else RIVALS]]
        chosen += [int(row) for row in best]
    return chosen


# --------------------------------------------------------------------------- sentences

MOST_PARTS = 12  # answers that an explanation may cost
_END = re.compile(r"(?<=[.!?;])[\"')\]]*\s+(?=\S)|\n+")
_FEWEST_WORDS = 3


def split_sentences(text: str) -> list[str]:
    """Sentences in order; a fragment of one or two words stays with the sentence before it."""
    out: list[str] = []
    for piece in _END.split(text):
        piece = piece.strip()
        if not piece:
            continue
        if out and len(piece.split()) < _FEWEST_WORDS:
            out[-1] += " " + piece
        else:
            out.append(piece)
    return out


def runs_of_sentences(text: str, most: int = MOST_PARTS) -> list[str]:
    """At most `most` runs of whole consecutive sentences, as equal in length as they allow."""
    sentences = split_sentences(text)
    if len(sentences) <= most:
        return sentences
    total = sum(len(s) for s in sentences)
    parts: list[list[str]] = [[]]
    done = 0
    for i, sentence in enumerate(sentences):
        left = len(sentences) - i
        full = done >= total * len(parts) / most
        if parts[-1] and len(parts) < most and (full or left <= most - len(parts)):
            parts.append([])
        parts[-1].append(sentence)
        done += len(sentence)
    return [" ".join(part) for part in parts]


def without_each(parts: Sequence[str]) -> list[str]:
    """The case with each part left out."""
    return [" ".join(p for j, p in enumerate(parts) if j != i) for i in range(len(parts))]


def sentence_effects(
    parts: Sequence[str], label: int, posterior: Float, prior: Float, rest: Float
) -> tuple[SentenceEffect, ...]:
    """Effects on the leading label, strongest first.

    `rest` holds the posteriors (P, K) of the case without each of its P parts. The only part of a case is
    compared with the prior, which is the answer to an empty text.
    """
    if not parts:
        return ()
    if len(parts) == 1:
        return (SentenceEffect(text=parts[0], effect=float(posterior[label] - prior[label])),)
    effects = [
        SentenceEffect(text=part, effect=float(posterior[label] - p))
        for part, p in zip(parts, rest[:, label], strict=True)
    ]
    return tuple(sorted(effects, key=lambda e: -abs(e.effect)))


# --------------------------------------------------------------------------- flip

FAR = 40.0  # log odds beyond which a prior is certainty
EXACT = (60, 40)  # points scanned and halvings, where an answer is a handful of multiplications
ASKED = (10, 12)  # the same where the method itself must answer


def find_flip(
    posterior_in_class: Float,
    out_of_class: float,
    prior: Float,
    leading: int,
    answer: Callable[[Float], Float] | None = None,
) -> tuple[int, float] | None:
    """(label, prior): at that prior of the present leading label the answer becomes `label`.

    None when no other label is possible.

    `answer(prior)` is the posterior (K,) the decision uses under another prior; it is left out where the
    method is known to be prior times likelihood.
    """
    others = np.where(np.arange(len(prior)) == leading, 0.0, prior)
    if others.sum() <= 0 or prior[leading] <= 0:
        return None
    likelihood = np.divide(posterior_in_class, prior, out=np.zeros(len(prior)), where=prior > 0)

    # Some forty times a case, on a handful of numbers: plain floats are several times faster than arrays.
    weights, fixed = likelihood.tolist(), (others / others.sum()).tolist()

    def closed(share: float) -> int:
        pi = [(1 - share) * f for f in fixed]
        pi[leading] = share
        inside = [p * w for p, w in zip(pi, weights, strict=True)]
        total = math.fsum(inside)
        if total > 0:
            inside = [v / total for v in inside]
        else:
            inside = pi
        mixed = [(1 - out_of_class) * v + out_of_class * p for v, p in zip(inside, pi, strict=True)]
        return mixed.index(max(mixed))

    def at(share: float) -> Float:
        moved = others / others.sum() * (1 - share)
        moved[leading] = share
        return moved

    now = math.log(prior[leading]) - math.log(others.sum())
    if answer is None:
        return _nearest(closed, leading, now, *EXACT)
    return _nearest(lambda share: int(answer(at(share)).argmax()), leading, now, *ASKED)


def _nearest(
    winner: Callable[[float], int], leading: int, now: float, points: int, halvings: int
) -> tuple[int, float] | None:
    """The share below the present one at which the leading label first stops leading, in its log odds.

    A hard tolerance can let the label lead again further down, so the way down is scanned before the
    crossing is bisected; the scan is finest near the present prior.
    """
    high = low = now
    for step in np.geomspace(0.02, FAR + max(now, 0.0), points).tolist():
        low = now - step
        if winner(_share(low)) != leading:
            break
        high = low
    else:
        return None
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if winner(_share(middle)) == leading else (middle, high)
    return winner(_share(low)), _share(high)


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


# --------------------------------------------------------------------------- missing finding

PER_LABEL = 2  # replies per label and topic: an expectation over several costs an answer each
LEAST_MASS = 0.02  # labels below it are not worth asking about
_WORD = re.compile(r"[^\W\d_]{4,}")
_TOPICAL = ("finding", "findings", "focus")
_NOT_ASKED = ("who", "setting", "style")  # of the writing, or on the record already


@dataclass(frozen=True, slots=True)
class Sayings:
    """The bank's sentences, embedded, with the label each comes from."""

    sentences: tuple[str, ...]
    label_index: Int
    vectors: Float

    @classmethod
    def of(cls, bank: Bank, embed: Callable[[Sequence[str]], Float]) -> Sayings:
        sentences, labels = [], []
        for text, label in zip(bank.texts, bank.label_index.tolist(), strict=True):
            for sentence in split_sentences(text):
                sentences.append(sentence)
                labels.append(label)
        return cls(tuple(sentences), np.array(labels), embed(sentences))

    def about(self, topic: Float, label: int, count: int) -> list[str]:
        """The label's sentences nearest to a topic's embedding."""
        rows = np.flatnonzero(self.label_index == label)
        nearest = rows[np.argsort(-(self.vectors[rows] @ topic), kind="stable")[:count]]
        return [self.sentences[i] for i in nearest]


def topics_of(facets: Mapping[str, Sequence[str]], text: str) -> list[tuple[str, str]]:
    """(facet, what to ask) pairs the case does not speak of yet.

    The values of most facets are alternatives (a site is one of several): the facet is one question, settled
    when the case names any of them. The values of a facet of findings are questions of their own.
    """
    said = set(_WORD.findall(text.lower()))

    def named(value: str) -> bool:
        words = set(_WORD.findall(value.lower()))
        return bool(words) and len(words & said) >= len(words) / 2

    out = []
    for facet, values in facets.items():
        if facet in _TOPICAL:
            out += [(facet, value) for value in dict.fromkeys(values) if not named(value)]
        elif facet not in _NOT_ASKED and not any(named(value) for value in values):
            out.append((facet, ", ".join(dict.fromkeys(values))))
    return out


def missing_finding(
    text: str,
    posterior: Float,
    topics: Sequence[tuple[str, str]],
    sayings: Sayings,
    embed: Callable[[Sequence[str]], Float],
    answer: Callable[[list[str]], Float],
) -> MissingFinding | None:
    """The topic of least expected entropy; None when none is expected to lower it."""
    labels = [int(k) for k in np.flatnonzero(posterior >= LEAST_MASS)]
    if not topics or not labels:
        return None
    variants: list[str] = []
    weight: list[float] = []
    owner: list[int] = []
    vectors = embed([f"{facet}: {value}" for facet, value in topics])
    for t, topic in enumerate(vectors):
        for k in labels:
            said = sayings.about(topic, k, PER_LABEL)
            for sentence in said:
                variants.append(f"{text} {sentence}")
                weight.append(float(posterior[k]) / len(said))
                owner.append(t)
    bits = entropy_bits(answer(variants))
    w = np.array(weight)
    total = np.bincount(owner, weights=w, minlength=len(topics))
    expected = np.bincount(owner, weights=w * bits, minlength=len(topics)) / np.maximum(total, 1e-12)
    best = int(expected.argmin())
    now = float(entropy_bits(posterior))
    if expected[best] >= now:
        return None
    facet, finding = topics[best]
    return MissingFinding(facet=facet, finding=finding, entropy_bits=now, expected_bits=float(expected[best]))
