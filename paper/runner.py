"""Running the artefacts in turn: a record of figures each, failures included; what stands is kept."""

from __future__ import annotations

import json
import pkgutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from paper import artefacts as _artefacts
from paper.context import RECIPE, Context, code_hash
from paper.spec import Artefact, NotRun
from paper.world import REFERENCE
from simdx.disk import make_folder, seal_holds, sealed, write_atomically
from simdx.errors import BadInput, SimdxError
from simdx.experiments.records import versions
from simdx.types import content_hash

FORMAT = 2  # of a record; 1 held finished tables and drawings beside the figures
FOLDER = "artefacts"
HERE = Path(__file__).parent
Record = dict[str, Any]


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
    """Every artefact's record, in order."""
    if context.out.exists() and not context.out.is_dir():
        raise BadInput(f"{context.out} is a file: --out needs a folder")
    make_folder(context.out / FOLDER)
    for reason in context.skipped.values():
        say(reason)
    records = []
    for artefact in artefacts:
        standing = read_artefact(context.out, artefact.name)
        identity = _identity(artefact, context)
        if standing is not None and standing["identity"] == identity and standing["status"] != "failed":
            say(f"{artefact.name}: on record already")
            records.append(standing)
            continue
        record = _run(artefact, context, identity)
        write_record(context.out, record)
        reason = f": {record['error']}" if record["error"] else ""
        say(f"{artefact.name}: {record['status']} in {record['seconds']:.1f} s{reason}")
        records.append(record)
    return tuple(records)


def write_record(folder: Path, record: Record) -> None:
    text = json.dumps(sealed(record), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(folder / FOLDER / f"{record['artefact']}.json", text + "\n")


def read_artefact(folder: Path, name: str) -> Record | None:
    """An artefact's record, or None where there is none, or it is not as it was written."""
    try:
        record = json.loads((folder / FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return None
    return record if seal_holds(record) else None


def read_artefacts(folder: Path) -> list[Record]:
    """Every readable record of a run, in the report's order."""
    found = [read_artefact(folder, path.stem) for path in (folder / FOLDER).glob("*.json")]
    records = [record for record in found if record is not None]
    return sorted(records, key=lambda record: (record["order"], record["artefact"]))


def _run(artefact: Artefact, context: Context, identity: str) -> Record:
    began = time.time()
    finding, error, status = None, None, "done"
    try:
        finding = artefact.measure(context).to_json()
        finding["notes"] = [
            *(f"Left out: {reason}." for reason in context.skipped.values()),
            *finding["notes"],
        ]
    except NotRun as reason:
        status, error = "not run", str(reason)
    except Exception as problem:  # a failed artefact is a result of the run and must not end the others
        # The message of an unforeseen error may quote what was being processed: only our own are repeated.
        known = isinstance(problem, SimdxError)
        status, error = "failed", str(problem) if known else f"failed with {_place(problem)}"
    return {
        "format": FORMAT,
        "experiment": "paper",
        "artefact": artefact.name,
        "title": artefact.title,
        "order": artefact.order,
        "status": status,
        "error": error,
        "identity": identity,
        "config": _config(context),
        "versions": versions(),
        "hashes": context.hashes,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 2),
        "finding": finding,
    }


def _config(context: Context) -> Record:
    return {
        "scale": context.scale,
        "seed": context.seed,
        "size": asdict(context.size),
        "panels": list(context.panels),
        "skipped": dict(context.skipped),
        "banks": {panel: [REFERENCE, *context.banks(panel)] for panel in context.panels},
    }


def _identity(artefact: Artefact, context: Context) -> str:
    """Changes with the code that measures, the data, the banks and the records read; not with the report."""
    shared = [
        path
        for path in sorted(HERE.glob("*.py"))
        if path.name not in ("__main__.py", "report.py", "cells.py")
    ]
    own = HERE / FOLDER / f"{artefact.name.replace('-', '_')}.py"
    places = [*shared, HERE / "measures", *([own] if own.is_file() else [])]
    config, hashes = (json.dumps(part, sort_keys=True) for part in (_config(context), context.hashes))
    return content_hash(
        "artefact",
        artefact.name,
        RECIPE,
        code_hash(*places),
        config,
        hashes,
        context.asking_hash,
    )


def _place(problem: Exception) -> str:
    """The kind of an unforeseen error and the line it came from."""
    trace, where = problem.__traceback__, ""
    while trace is not None:
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(problem).__name__} at {where}"
