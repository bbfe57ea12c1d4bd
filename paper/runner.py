"""The artefacts in turn, each through the one runner: a record of figures, failures included."""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from paper import artefacts as _artefacts
from paper import engine
from paper.context import Context
from paper.spec import Artefact
from paper.world import REFERENCE
from simdx.errors import BadInput
from simdx.runs import Record, Result, Spec, Store, fail, run


@lru_cache(maxsize=1)
def artefact_list() -> dict[str, Artefact]:
    """Every spec in `paper/artefacts`, in the report's order; its name is the file's, with hyphens."""
    found = []
    for module in pkgutil.iter_modules(_artefacts.__path__):
        spec = import_module(f"{_artefacts.__name__}.{module.name}").ARTEFACT
        found.append(replace(spec, name=module.name.replace("_", "-")))
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


def run_artefacts(
    artefacts: Sequence[Artefact], context: Context, say: Callable[[str], None] = lambda _: None
) -> tuple[Record, ...]:
    """Every artefact's record, in order; one that stands is not measured again."""
    if context.out.exists() and not context.out.is_dir():
        raise BadInput(f"{context.out} is a file: --out needs a folder")
    for reason in context.skipped.values():
        say(reason)
    return tuple(_run(artefact, context, say) for artefact in artefacts)


def _run(artefact: Artefact, context: Context, say: Callable[[str], None]) -> Record:
    spec: Spec[Context] = Spec(
        "paper", artefact.name, {"config": _config(context)}, lambda own: _measured(artefact, own)
    )
    stood = context.store.holds(spec.name, spec.identity(context))
    try:
        record = run(spec, context, context.store)
    except Exception as problem:  # a failed artefact is a result of the run and must not end the others
        record = fail(spec, problem, context.store)
    reason = f": {record.error}" if record.error else ""
    say(f"{artefact.name}: {'on record already' if stood else record.status}{reason}")
    return record


def _measured(artefact: Artefact, context: Context) -> Result:
    finding = artefact.measure(context).to_json()
    left_out = [f"Left out: {reason}." for reason in context.skipped.values()]
    return Result({"finding": {**finding, "notes": [*left_out, *finding["notes"]]}})


def read_artefacts(folder: Path) -> list[Record]:
    """Every readable record of an artefact that there is, in the report's order."""
    found = {record.name: record for record in Store(folder, "artefacts").records()}
    return [found[name] for name in artefact_list() if name in found]


def _config(context: Context) -> dict[str, Any]:
    return {
        "scale": context.scale,
        "recipe": engine.RECIPE_VERSION,
        "seed": context.seed,
        "size": asdict(context.size),
        "panels": list(context.panels),
        "skipped": dict(context.skipped),
        "banks": {panel: [REFERENCE, *context.banks(panel)] for panel in context.panels},
    }
