"""Running the artefacts in turn: a record each, failures included; what stands is not run again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from simdx.disk import make_folder, seal_holds, sealed, write_atomically
from simdx.errors import BadInput, SimdxError
from simdx.experiments.paper.artefact import NotRun
from simdx.experiments.paper.catalogue import Artefact
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.store import code_hash
from simdx.experiments.records import Record, versions
from simdx.types import content_hash

FORMAT = 1
FOLDER = "artefacts"
_SHARED_CODE = ("abc", "amortised", "bank", "baselines", "embedders", "methods", "metrics", "report")
_PAPER = "experiments/paper"

Say = Callable[[str], None]


def run_artefacts(
    artefacts: Sequence[Artefact], context: Context, say: Say = lambda _: None
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
        if standing is not None and standing.get("identity") == identity and standing["status"] != "failed":
            say(f"{artefact.name}: on record already")
            records.append(standing)
            continue
        record = _run(artefact, context, identity)
        text = json.dumps(sealed(record), ensure_ascii=False, indent=1, allow_nan=False)
        write_atomically(context.out / FOLDER / f"{artefact.name}.json", text + "\n")
        reason = f": {record['error']}" if record["error"] else ""
        say(f"{artefact.name}: {record['status']} in {record['seconds']:.1f} s{reason}")
        records.append(record)
    return tuple(records)


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
        finding = artefact.run(context).to_json()
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
        "banks": {panel: ["reference", *context.banks(panel)] for panel in context.panels},
    }


def _identity(artefact: Artefact, context: Context) -> str:
    """Changes with the artefact's code, the code it rests on, the data, the banks and the records read."""
    own = artefact.module.removeprefix("simdx.").replace(".", "/") + ".py"
    shared = [f"{_PAPER}/{name}" for name in _shared_modules()]
    code = code_hash(*_SHARED_CODE, *shared, own)
    config = json.dumps(_config(context), sort_keys=True)
    hashes = json.dumps(context.hashes, sort_keys=True)
    return content_hash("artefact", artefact.name, code, config, hashes, context.asking_hash)


def _shared_modules() -> list[str]:
    here = Path(__file__).parent
    names = [path.name for path in here.glob("*.py")]
    names += [
        f"artefacts/{path.name}"
        for path in (here / "artefacts").glob("*.py")
        if "def run(" not in _text(path)
    ]
    return sorted(names)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _place(problem: Exception) -> str:
    """The kind of an unforeseen error and the line it came from."""
    trace, where = problem.__traceback__, ""
    while trace is not None:
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(problem).__name__} at {where}"
