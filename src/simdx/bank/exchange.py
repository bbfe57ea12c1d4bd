"""Banks as single files, in and out, and several banks made one."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bank import files
from simdx.datasets import Columns, read_cases
from simdx.disk import make_folder, refuse_occupied, replacing
from simdx.errors import BadInput, MissingExtra
from simdx.rows import jsonl_rows, read_rows
from simdx.types import Bank, Panel

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
    """A bank of somebody's own: a table through the reader of cases, anything else as a bank is written."""

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
    """Parquet files of a generator (distilabel, curator) or a data set: rows it gave no text are left out."""
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
