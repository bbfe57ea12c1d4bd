"""Which sentences of the case matter: the posterior of the leading label with each left out in turn.

A positive effect is support (without the sentence the label loses that much probability), a negative one is
evidence against. All shortened cases go through the method in one call. A long case is cut into at most
`MOST_PARTS` runs of consecutive sentences of about equal length, so that a case report costs no more than a
dozen answers; each run is then reported as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from simdx.types import Float

MOST_PARTS = 12
_END = re.compile(r"(?<=[.!?;])[\"')\]]*\s+(?=\S)|\n+")
_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class SentenceEffect:
    """A part of the case and what the leading label's probability owes to it."""

    text: str
    effect: float


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


def parts_of(text: str, most: int = MOST_PARTS) -> list[str]:
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
        return (SentenceEffect(parts[0], float(posterior[label] - prior[label])),)
    effects = [
        SentenceEffect(part, float(posterior[label] - p))
        for part, p in zip(parts, rest[:, label], strict=True)
    ]
    return tuple(sorted(effects, key=lambda e: -abs(e.effect)))
