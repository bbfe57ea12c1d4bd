"""What a bank is like: lengths, diversity, and which labels its own texts are close to."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from simdx.types import Bank, Float

NEIGHBOURS = 5


def describe_bank(bank: Bank, vectors: Float) -> dict[str, Any]:
    """Length and diversity per label, and nearest-label confusions inside the bank.

    `vectors` are the texts' unit vectors. Confusion: of each label's texts, the share whose nearest
    neighbours (the text itself left out) mostly belong to each label; a bank whose labels run into each
    other cannot tell them apart.
    """
    centred = _centred(vectors)
    labels = {}
    for k, name in enumerate(bank.labels):
        mine = np.flatnonzero(bank.label_index == k)
        texts = [bank.texts[i] for i in mine]
        words = np.array([len(t.split()) for t in texts])
        labels[name] = {
            "n": len(texts),
            "words": {
                "mean": float(words.mean()),
                "min": int(words.min()),
                "median": float(np.median(words)),
                "max": int(words.max()),
            },
            "distinct_bigrams": _distinct_bigrams(texts),
            "mean_cosine": _mean_cosine(vectors[mine]),
        }
    return {"labels": labels, "confusion": _confusion(centred, bank)}


def _centred(vectors: Float) -> Float:
    centred = vectors - vectors.mean(axis=0)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return centred / np.where(norms > 1e-12, norms, 1.0)


def _distinct_bigrams(texts: list[str]) -> float | None:
    """Different word pairs over all word pairs: 1 when none occurs twice."""
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        pairs.update(pairwise(text.lower().split()))
    return len(pairs) / sum(pairs.values()) if pairs else None


def _mean_cosine(vectors: Float) -> float | None:
    """Mean cosine of two different texts: 1 is no diversity at all."""
    n = len(vectors)
    if n < 2:
        return None
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((np.square(np.linalg.norm(unit.sum(axis=0))) - n) / (n * (n - 1)))


def _confusion(centred: Float, bank: Bank) -> dict[str, dict[str, float]]:
    k = len(bank.labels)
    votes = np.zeros((len(centred), k))
    reach = min(NEIGHBOURS, len(centred) - 1)
    for start in range(0, len(centred), 1024):  # blocks, so that a large bank needs no n × n matrix
        near = centred[start : start + 1024] @ centred.T
        near[np.arange(len(near)), np.arange(start, start + len(near))] = -np.inf
        for i, row in enumerate(np.argpartition(-near, reach - 1, axis=1)[:, :reach] if reach else []):
            np.add.at(votes[start + i], bank.label_index[row], 1.0)
    # Equal votes are shared, so that no label wins by its position.
    winners = (votes == votes.max(axis=1, keepdims=True)).astype(float)
    winners /= winners.sum(axis=1, keepdims=True)
    table = {}
    for i, name in enumerate(bank.labels):
        shares = winners[bank.label_index == i].mean(axis=0)
        table[name] = {other: round(float(s), 4) for other, s in zip(bank.labels, shares, strict=True)}
    return table
