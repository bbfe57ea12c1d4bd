"""The artefacts in turn, each through the one runner: a record of figures, failures included."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paper import engine
from paper.artefacts import ARTEFACTS, Artefact
from paper.context import Context
from paper.world import REFERENCE
from simdx.errors import BadInput
from simdx.runs import Record, Result, Spec, Store, fail, run


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
    config = _config(context) | ({"edition": artefact.edition} if artefact.edition > 1 else {})
    spec: Spec[Context] = Spec("paper", artefact.name, {"config": config}, lambda own: _measured(artefact, own))
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
    """Every readable record of an artefact's present edition, in the report's order."""
    found = {(r.name, r["config"].get("edition", 1)): r for r in Store(folder, "artefacts").records()}
    return [found[one.name, one.edition] for one in ARTEFACTS if (one.name, one.edition) in found]


def _config(context: Context) -> dict[str, Any]:
    return {
        "scale": context.scale,
        "recipe": engine.RECIPE_VERSION,
        "seed": context.seed,
        "size": asdict(context.size),
        "panels": list(context.panels),
        "skipped": dict(context.skipped),
        "banks": {panel: [REFERENCE, *context.banks(panel)] for panel in context.panels},
    } | ({"embedder": context.embedder} if context.embedder else {})
