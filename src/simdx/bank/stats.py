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

    `vectors` are the texts' unit vectors. Confusion: of each label's texts, the share whose nearest
    neighbours (the text itself left out) mostly belong to each label; a bank whose labels run into each
    other cannot tell them apart.
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
    centred = vectors - vectors.mean(axis=0)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = centred / np.where(norms > 1e-12, norms, 1.0)
    votes = np.zeros((len(centred), len(bank.labels)))
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
