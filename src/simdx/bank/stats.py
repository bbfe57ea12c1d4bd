"""What a bank is like: lengths, diversity, and which labels its own texts are close to."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank.files import read_bank
from simdx.disk import write_atomically
from simdx.embedders import embed_cached, get_embedder
from simdx.errors import BadInput
from simdx.panels import PACKAGED, load_panel
from simdx.types import Bank, Float

NEIGHBOURS = 5  # odd, so that a vote of two labels is decided


def describe_bank(bank: Bank, vectors: Float) -> dict[str, Any]:
    """Length and diversity per label, and nearest-label confusions inside the bank.

    `vectors` are the texts' unit vectors. A bank whose labels run into each other cannot tell them apart.
    """
    labels = {}
    for k, name in enumerate(bank.labels):
        mine = np.flatnonzero(bank.label_index == k)
        texts = [bank.texts[i] for i in mine]
        words = np.array([len(t.split()) for t in texts])
        pairs = [pair for text in texts for pair in pairwise(text.lower().split())]
        labels[name] = {
            "n": len(texts),
            "words": {
                "mean": float(words.mean()),
                "min": int(words.min()),
                "median": float(np.median(words)),
                "max": int(words.max()),
            },
            # Different word pairs over all word pairs: 1 when none occurs twice.
            "distinct_bigrams": len(set(pairs)) / len(pairs) if pairs else None,
            "mean_cosine": _mean_cosine(vectors[mine]),
        }
    return {"labels": labels, "confusion": _confusion(vectors, bank)}


def _mean_cosine(vectors: Float) -> float | None:
    """Mean cosine of two different texts: 1 is no diversity at all."""
    n = len(vectors)
    if n < 2:
        return None
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float((np.square(np.linalg.norm(unit.sum(axis=0))) - n) / (n * (n - 1)))


def _confusion(vectors: Float, bank: Bank) -> dict[str, dict[str, float]]:
    """Of each label's texts, the share whose nearest others vote for each label. Equal votes are shared, so
    that no label wins by its position."""
    from sklearn.neighbors import NearestNeighbors

    known = NearestNeighbors(metric="cosine").fit(vectors - vectors.mean(axis=0))
    near = known.kneighbors(n_neighbors=min(NEIGHBOURS, len(vectors) - 1), return_distance=False)
    votes = np.eye(len(bank.labels))[bank.label_index[near]].sum(axis=1)
    winners = votes == votes.max(axis=1, keepdims=True)
    shares = winners / winners.sum(axis=1, keepdims=True)
    table = {}
    for i, name in enumerate(bank.labels):
        mean = shares[bank.label_index == i].mean(axis=0)
        table[name] = {other: round(float(s), 4) for other, s in zip(bank.labels, mean, strict=True)}
    return table


def folder_statistics(
    folder: Path,
    manifest: dict[str, Any],
    panel: str | None,
    picture: Path | None,
    draw: Callable[[Bank, Float], str],
    allow_remote: bool = False,
) -> dict[str, Any] | None:
    """Statistics of a bank folder, and its map where one is wanted; None where the panel is not known."""
    name = panel or (manifest["panel"] if manifest["panel"] in PACKAGED else None)
    if name is None:
        if picture is not None:
            raise BadInput(f"give --panel: '{manifest['panel']}' is not a packaged panel")
        return None
    chosen = load_panel(name)
    if chosen.hash != manifest["panel_hash"]:
        raise BadInput(f"bank '{folder.name}' was made for another panel than '{name}'")
    bank = read_bank(folder, chosen)
    embedder = get_embedder(chosen.embedder, allow_remote=allow_remote)
    vectors = embed_cached(embedder, bank.texts)
    if picture is not None:
        if picture.suffix.lower() != ".svg":
            raise BadInput(f"'{picture.name}' does not end in .svg")
        others = embed_cached(embedder, bank.background) if bank.background else vectors[:0]
        write_atomically(picture, draw(bank, np.concatenate([vectors, others])))
    return describe_bank(bank, vectors)


def statistics_in_words(stats: dict[str, Any]) -> str:
    lines = [
        "  words (median), distinct word pairs, mean cosine inside, and texts nearest to their own label:"
    ]
    for label, s in stats["labels"].items():
        own = stats["confusion"][label][label]
        measures = (s["distinct_bigrams"], s["mean_cosine"])
        pairs, cosine = ("–" if value is None else f"{value:.2f}" for value in measures)
        rest = {k: v for k, v in stats["confusion"][label].items() if k != label}
        worst = max(rest, key=lambda k: rest[k])
        near = f"; {rest[worst]:.0%} nearest to '{worst}'" if rest[worst] > 0 else ""
        lines.append(f"  {s['words']['median']:6.0f}  {pairs}  {cosine}  {own:5.0%}  {label}{near}")
    return "\n".join(lines)
