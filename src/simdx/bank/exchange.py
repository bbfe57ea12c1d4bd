"""Operations on finished banks: export to one file, import of other files, merging, statistics."""

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank import files
from simdx.datasets import Columns, read_cases
from simdx.disk import make_folder, refuse_occupied, replacing, write_atomically
from simdx.embedders import embed_cached, get_embedder
from simdx.errors import BadInput, MissingExtra
from simdx.panels import PACKAGED, load_panel
from simdx.rows import jsonl_rows, read_rows
from simdx.types import Bank, Float, Panel

_COLUMNS = ("label", "condition", "text", "extra")


def export_bank(folder: Path, to: Path) -> int:
    """Write a verified bank folder as one file, background rows marked; the number of rows.

    Every row has `label` (null for the background), `condition` (null for a label) and `text`; what else
    is known of a row goes along as JSON in `extra`.
    """
    if not folder.is_dir():
        raise BadInput(f"no bank folder at '{folder}'")
    files.refuse_damaged(folder)
    if to.suffix not in (".jsonl", ".parquet"):
        raise BadInput(f"'{to.name}' must end in .jsonl or .parquet")
    if to.exists():
        raise BadInput(f"'{to}' exists already: nothing was written; choose a new file")
    listed = files.read_manifest(folder)["files"]  # a file it does not list is not of this bank
    places = [folder / name for name in (files.BANK_FILE, files.BACKGROUND_FILE) if name in listed]
    rows = [_exported(row) for place in places for _, row in jsonl_rows(place)]
    make_folder(to.parent)
    if to.suffix == ".jsonl":
        files.write_jsonl(to, ({k: v for k, v in row.items() if v is not None} for row in rows))
    else:
        _write_parquet(to, rows)
    return len(rows)


def _exported(row: dict[str, Any]) -> dict[str, Any]:
    extra = {k: v for k, v in row.items() if k not in _COLUMNS[:3]}
    label, condition = row.get("label"), row.get("condition")
    return {
        "label": label if condition is None else None,
        "condition": "unnamed" if label is None and condition is None else condition,
        "text": row["text"],
        "extra": json.dumps(extra, ensure_ascii=False, sort_keys=True) if extra else None,
    }


def _write_parquet(to: Path, rows: list[dict[str, Any]]) -> None:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtra("writing Parquet", "eval") from None
    schema = arrow.schema([(name, arrow.string()) for name in _COLUMNS])
    with replacing(to) as file:
        parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), file)


def merge_banks(sources: Sequence[Path], panel: Panel, out: Path) -> dict[str, Any]:
    """Write the union of the banks to a new folder; the manifest, which names what was merged."""
    if len(sources) < 2:
        raise BadInput("merging takes at least two banks")
    refuse_occupied(out)
    banks = [files.read_bank(source, panel) for source in sources]
    pairs = ((b.label_index.tolist(), b.texts) for b in banks)
    rows = dict.fromkeys(row for index, texts in pairs for row in zip(index, texts, strict=True))
    rejected = sum((Counter(bank.rejected) for bank in banks), Counter[str]())
    if copies := sum(len(bank.texts) for bank in banks) - len(rows):
        rejected["same text in two banks"] += copies
    merged = replace(
        banks[0],
        texts=tuple(text for _, text in rows),
        label_index=np.array([i for i, _ in rows], dtype=np.int64),
        background=tuple(dict.fromkeys(t for bank in banks for t in bank.background)),
        rejected=rejected,
    )
    return files.write_bank(out, merged, panel, {"merged": [{"name": b.name, "hash": b.hash} for b in banks]})


def read_descriptions(source: Path, panel: Panel, columns: Columns, background: Path | None = None) -> Bank:
    """A user's bank: a table is read as cases are, any other file as a bank."""

    def is_table(path: Path) -> bool:
        return path.suffix.lower() == ".csv" or (columns.text, columns.label) != ("text", "label")

    if not os.path.exists(source):
        raise BadInput(
            f"no file at '{str(source)[:200]}': give a JSONL, CSV or Parquet file of label and text"
        )
    shards = sorted(source.rglob("*.parquet")) if os.path.isdir(source) else []
    if shards or (source.suffix.lower() == ".parquet" and is_table(source)):
        bank = _generated(shards or [source], panel, columns, source.stem)
    elif is_table(source):
        cases = read_cases(source, columns=columns, labels=panel.names).cases
        bank = files.assemble(panel, [(str(case.label), case.text) for case in cases], (), source.stem)
    else:
        bank = files.read_bank(source, panel)
    if background is None:
        return bank
    if is_table(background):
        return replace(bank, background=tuple(read_cases(background, columns=columns, labelled=False).texts))
    return replace(bank, background=files.background_texts(background))


def _generated(shards: Sequence[Path], panel: Panel, columns: Columns, name: str) -> Bank:
    """Parquet files of a generator (distilabel, curator) or a data set; rows without text are left out."""
    rows, failed = [], 0
    for path in shards:
        for number, row in read_rows(path):
            text, label = row.get(columns.text), row.get(columns.label)
            if isinstance(label, str) and label in panel.names and not str(text or "").strip():
                failed += 1  # a generation that failed
            elif not isinstance(text, str) or label not in panel.names:
                raise BadInput(
                    f"{path.name} row {number}: no text in '{columns.text}', or no label of panel "
                    f"'{panel.name}' in '{columns.label}'"
                )
            else:
                rows.append((str(label), text))
    if not rows:
        raise BadInput(f"'{name}' has no text in '{columns.text}': say which column with --text-column")
    bank = files.assemble(panel, rows, (), name)
    return replace(bank, rejected={"no text": failed}) if failed else bank


# --------------------------------------------------------------------------- what a bank is like


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
    """For each label's texts, the share whose nearest neighbours vote for each label. Ties are shared, so
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
    bank = files.read_bank(folder, chosen)
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
