"""Answers kept on disk under the hash of everything that decides them, so that a stopped run goes on.

Probabilities and counts only: no text, no embedding of a case.
"""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import simdx
from simdx.experiments.paper.spec import Answers
from simdx.types import content_hash

# The rooms whose code decides what a method answers.
_DECIDING = ("abc", "amortised", "bank", "baselines", "embedders", "methods", "chunks.py", "types.py")


@lru_cache(maxsize=32)
def code_hash(*places: str) -> str:
    """Identity of the source in these places of the package: finer than a version, steadier than a commit."""
    root = Path(simdx.__file__).parent
    files: list[Path] = []
    for place in places:
        path = root / place
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return content_hash(
        *(part for f in files for part in (f.relative_to(root).as_posix(), f.read_text("utf-8")))
    )


def deciding_code() -> str:
    return code_hash(*_DECIDING)


class AnswerStore:
    """One safetensors file per set of answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Answers | None:
        path = self._path(key)
        if not path.is_file():
            return None
        try:
            return Answers.from_arrays(dict(load_file(path)))
        except Exception:  # damaged or of another layout: it can be made again
            return None

    def keep(self, key: str, answers: Answers) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
        try:
            arrays = {name: np.asarray(value, dtype=np.float64) for name, value in answers.arrays().items()}
            save_file(arrays, scratch)
            os.replace(scratch, path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self._folder / f"{key[:32]}.safetensors"
