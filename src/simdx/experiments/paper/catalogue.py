"""The artefacts that there are: every module in `artefacts` with a `run`, found by looking."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from simdx.errors import BadInput
from simdx.experiments.paper import artefacts
from simdx.experiments.paper.artefact import Finding
from simdx.experiments.paper.context import Context


@dataclass(frozen=True, slots=True)
class Artefact:
    """One table or figure: its name (the module's, with hyphens), its title, and how to make it.

    `order` is where the report shows it: the module's `ORDER`, after those of the paper's main text.
    """

    name: str
    title: str
    module: str
    order: int
    run: Callable[[Context], Finding]


def artefact_list() -> dict[str, Artefact]:
    found = []
    for module in pkgutil.iter_modules(artefacts.__path__):
        loaded = import_module(f"{artefacts.__name__}.{module.name}")
        if not hasattr(loaded, "run"):
            continue  # shared by artefacts, none itself
        title = (loaded.__doc__ or module.name).strip().splitlines()[0].rstrip(".")
        order = int(getattr(loaded, "ORDER", 500))
        found.append(Artefact(module.name.replace("_", "-"), title, loaded.__name__, order, loaded.run))
    return {one.name: one for one in sorted(found, key=lambda one: (one.order, one.name))}


def chosen(only: str | None) -> tuple[Artefact, ...]:
    """All artefacts, or those named in a comma-separated list."""
    known = artefact_list()
    if only is None:
        return tuple(known.values())
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise BadInput(f"there is no artefact '{name[:60]}': choose among {', '.join(known)}")
    if not wanted:
        raise BadInput("--only names no artefact: give names separated by commas")
    return tuple(one for one in known.values() if one.name in wanted)
