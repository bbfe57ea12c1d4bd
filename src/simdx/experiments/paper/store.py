"""Answers kept on disk under the hash of everything that decides them, so that a stopped run goes on.

Probabilities and counts only: no text, no embedding of a case.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import simdx
from simdx.disk import load_arrays, make_folder, save_arrays
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
    """One sealed file per set of answers; a damaged one counts as absent and is made again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Answers | None:
        arrays = load_arrays(self._path(key))
        return None if arrays is None else Answers.from_arrays(arrays)

    def keep(self, key: str, answers: Answers) -> None:
        make_folder(self._folder)
        save_arrays(self._path(key), answers.arrays())

    def _path(self, key: str) -> Path:
        return self._folder / f"{key[:32]}.safetensors"
