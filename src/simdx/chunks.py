"""Arrays computed chunk by chunk, kept on disk so that a killed run goes on where it stopped.

A chunk is one safetensors file, written whole or not at all and sealed, so that a damaged one is computed
again. The folder's name is a hash of everything that decides the numbers (panel, bank, embedder, settings,
prior, cases), so a chunk can never be mistaken for another run's. Only numbers are stored, never a text.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from simdx.disk import load_arrays, make_folder, save_arrays
from simdx.types import Float

Arrays = dict[str, Float]
Compute = Callable[[Sequence[str]], Arrays]
Progress = Callable[[int, int], None]

PARTS = ".parts"
CHUNK = 500  # cases: what a kill may cost


def in_chunks(
    texts: Sequence[str],
    compute: Compute,
    *,
    folder: Path | None,
    resume: bool = True,
    size: int = CHUNK,
    progress: Progress | None = None,
) -> Arrays:
    """`compute` over all texts, `size` at a time; whole chunks found in `folder` are not computed again."""
    if folder is not None:
        make_folder(folder)
    found: list[Arrays] = []
    for start in range(0, len(texts), size):
        part = texts[start : start + size]
        path = None if folder is None else folder / f"{start:09d}.safetensors"
        arrays = _read(path, len(part)) if path is not None and resume else None
        if arrays is None:
            arrays = compute(part)
            if path is not None:
                save_arrays(path, arrays)
        found.append(arrays)
        if progress is not None:
            progress(start + len(part), len(texts))
    return {name: np.concatenate([a[name] for a in found]) for name in (found[0] if found else {})}


def forget_other_runs(parent: Path, keep: set[str]) -> None:
    """Remove the chunks of finished or abandoned runs with another configuration."""
    if parent.is_dir():
        for folder in parent.iterdir():
            if folder.is_dir() and folder.name not in keep:
                shutil.rmtree(folder)


def _read(path: Path, rows: int) -> Arrays | None:
    """The chunk, or None when it is absent, damaged or of another length: it is then computed again."""
    arrays = load_arrays(path)
    return arrays if arrays and all(len(a) == rows for a in arrays.values()) else None
