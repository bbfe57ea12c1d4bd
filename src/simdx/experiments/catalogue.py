"""The experiments that ship: every module in `artefacts` is one, found by looking.

A module has a docstring whose first line says what it shows, and `config(scale) -> ExperimentConfig`; the
experiment's name is the module's, with hyphens. Adding an experiment is adding a file.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from simdx.errors import BadInput
from simdx.experiments import artefacts
from simdx.experiments.config import ExperimentConfig, Scale, read_config

SCALES = ("smoke", "full")


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    title: str
    config: Callable[[Scale], ExperimentConfig]


def catalogue() -> dict[str, Experiment]:
    found = {}
    for module in sorted(pkgutil.iter_modules(artefacts.__path__), key=lambda m: m.name):
        loaded = import_module(f"{artefacts.__name__}.{module.name}")
        if not hasattr(loaded, "config"):
            continue  # shared by artefacts, none itself
        name = module.name.replace("_", "-")
        found[name] = Experiment(name, (loaded.__doc__ or name).strip().splitlines()[0], loaded.config)
    return found


def find(name_or_file: str, scale: Scale) -> tuple[ExperimentConfig, Path]:
    """A shipped experiment's config, or a YAML file's; and the folder its relative paths start from."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return read_config(path), path.resolve().parent
    known = catalogue()
    if name_or_file not in known:
        raise BadInput(f"unknown experiment '{name_or_file}': choose {', '.join(known)}, or give a YAML file")
    return known[name_or_file].config(scale), Path.cwd()
