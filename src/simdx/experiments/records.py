"""Records on disk: one JSON file per cell, written whole and sealed, and what a summary reads from them.

A failure never takes the place of a result: the earlier record goes to a folder of its own, and comes back
when the cell's inputs are again those it was made from.
"""

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
from simdx.disk import cannot_write, make_folder, seal_holds, sealed, write_atomically

FORMAT = 1
CELLS = "cells"
EARLIER = "earlier"
_PACKAGES = ("numpy", "scipy", "wordllama", "xllamacpp", "sentence-transformers", "torch", "openai")

Record = dict[str, Any]


def write_record(folder: Path, slug: str, record: Record) -> None:
    path = folder / CELLS / f"{slug}.json"
    make_folder(path.parent)
    if record.get("status") != "done":
        _set_aside(folder, slug)
    write_atomically(path, dumps(sealed(record)))


def read_record(folder: Path, slug: str, place: str = CELLS) -> Record | None:
    """A cell's record, or None where there is none that can be read, or it is not as it was written."""
    try:
        record = json.loads((folder / place / f"{slug}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return None
    return record if "seal" not in record or seal_holds(record) else None


def is_damaged(folder: Path, slug: str) -> bool:
    return (folder / CELLS / f"{slug}.json").is_file() and read_record(folder, slug) is None


def standing(folder: Path, slug: str, identity: str) -> str | None:
    """Where a result made from these very inputs lies: among the cells, set aside, or nowhere."""
    for place in (CELLS, EARLIER):
        record = read_record(folder, slug, place)
        if record is not None and record.get("status") == "done" and record.get("identity") == identity:
            return place
    return None


def bring_back(folder: Path, slug: str) -> None:
    """The result that was set aside stands again."""
    _move(folder, slug, EARLIER, CELLS)


def _set_aside(folder: Path, slug: str) -> None:
    record = read_record(folder, slug)
    if record is not None and record.get("status") == "done":
        make_folder(folder / EARLIER)
        _move(folder, slug, CELLS, EARLIER)


def _move(folder: Path, slug: str, source: str, target: str) -> None:
    path = folder / target / f"{slug}.json"
    try:
        os.replace(folder / source / f"{slug}.json", path)
    except OSError as error:
        raise cannot_write(path, error) from None


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
        "commit": current_commit(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def current_commit() -> str | None:
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
