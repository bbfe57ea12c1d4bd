"""Records on disk: one JSON file per cell, written whole, and what a summary reads from them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from simdx import __version__
from simdx.bank.files import write_atomically

FORMAT = 1
CELLS = "cells"
_PACKAGES = ("numpy", "scipy", "wordllama", "xllamacpp", "sentence-transformers", "torch", "openai")

Record = dict[str, Any]


def write_record(folder: Path, slug: str, record: Record) -> None:
    path = folder / CELLS / f"{slug}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dumps(record))


def read_record(folder: Path, slug: str) -> Record | None:
    """A cell's record, or None where there is none that can be read."""
    try:
        record = json.loads((folder / CELLS / f"{slug}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None


def read_records(folder: Path) -> list[Record]:
    found = (read_record(folder, path.stem) for path in sorted((folder / CELLS).glob("*.json")))
    return [record for record in found if record is not None]


def dumps(record: Record) -> str:
    """Readable at the top, compact in the per-case rows."""
    rows = record.get("rows")
    if rows is None:
        return json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    head = json.dumps({**record, "rows": "@rows"}, ensure_ascii=False, indent=1, allow_nan=False)
    lines = ",\n".join(
        f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(column, ensure_ascii=False, allow_nan=False)}"
        for name, column in rows.items()
    )
    return head.replace('"@rows"', "{\n" + lines + "\n }") + "\n"


@lru_cache(maxsize=1)
def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {
        "simdx": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "commit": _commit(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the checkout this package runs from; images without one name it in SIMDX_COMMIT."""
    if named := os.environ.get("SIMDX_COMMIT"):
        return named[:12]
    here = Path(__file__).resolve().parent
    try:
        asked = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip()[:12] if asked.returncode == 0 else None
