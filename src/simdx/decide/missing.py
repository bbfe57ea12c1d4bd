"""Which single missing finding would settle the case most?

For each topic of the panel's facets, the simulated sentences of every label that speak of it stand for what
an answer to the question would say if that label were right. Each is added to the case and the case
answered again; the topic whose expected entropy is least, over the present posterior, is worth asking. A
topic the case already speaks of is left out. It costs some hundred answers, so it is asked for (`--ask`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simdx.decide.sentences import split_sentences
from simdx.types import Bank, Float, Int, entropy_bits

PER_LABEL = 2
LEAST_MASS = 0.02  # labels below it are not worth asking about
_WORD = re.compile(r"[^\W\d_]{4,}")
_TOPICAL = ("finding", "findings", "focus")
_NOT_ASKED = ("who", "setting", "style")  # of the writing, or on the record already


@dataclass(frozen=True, slots=True)
class MissingFinding:
    """A topic to ask about, the entropy now, and the entropy to expect once it is known."""

    facet: str
    finding: str
    entropy_bits: float
    expected_bits: float


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
    return MissingFinding(*topics[best], now, float(expected[best]))
