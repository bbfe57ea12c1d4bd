"""`simdx audit export|verify`: reading the service's log and checking its chain."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simdx.cli import options
from simdx.cli.output import note, print_json
from simdx.errors import BadInput, RunFailed

if TYPE_CHECKING:
    from simdx.service.audit import AuditKey, AuditStore, Record

app = typer.Typer(help="The service's audit log.", no_args_is_help=True)

Url = Annotated[
    str | None, typer.Option("--url", help="sqlite:///FILE or postgresql://…; default: the service's.")
]
Key = Annotated[Path | None, typer.Option("--key", help="The log's key file; default: the service's.")]


@app.command("export")
def export(
    out: Annotated[Path | None, typer.Option(help="JSONL file to write; default: standard output.")] = None,
    with_text: Annotated[bool, typer.Option("--with-text", help="Add kept texts, decrypted.")] = False,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Every record as a JSON line, in order, with its place in the chain."""
    store, _ = _open(url, key)
    if json and out is None:
        raise BadInput("--json reports on a file: give --out F.jsonl")
    if out is None:
        for line in _lines(store, with_text):
            sys.stdout.write(line)
        return
    count = _write(out, _lines(store, with_text))
    head = store.head()
    if json:
        print_json({"records": count, "head": head[1], "out": str(out)})
    else:
        note(f"wrote {count} records to {out}; head {head[1]}")


@app.command("verify")
def verify(
    source: Annotated[
        Path | None, typer.Option("--from", help="An exported JSONL instead of the log.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="The head noted earlier; it must still be in the chain.")
    ] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Walk the hash chain from the first record; exit 1 when it does not hold."""
    from simdx.service.audit import verify as walk

    seen: set[str] = set()

    def watched(records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            if record.hash == head:
                seen.add(record.hash)
            yield record

    damage = None
    if source is not None:
        verdict = walk(watched(_exported(source)), _key(key))
    else:
        store, secret = _open(url, key)
        end = store.head()
        verdict = walk(watched(store.records()), secret, end)
        damage = store.damage()
    problem = verdict.problem or damage
    if problem is None and head is not None and not seen:
        problem = "the head noted earlier is not in the chain: records were cut off or rewritten"
    if json:
        print_json(
            {"ok": problem is None, "records": verdict.records, "head": verdict.head, "problem": problem}
        )
    if problem is not None:
        raise RunFailed(f"the audit log does not hold: {problem}")
    if not json:
        print(f"{verdict.records} records hold; head {verdict.head}")


def _key(path: Path | None) -> AuditKey:
    from simdx.service.audit import AuditKey
    from simdx.service.config import service_home

    return AuditKey.from_file(path or service_home() / "audit.key")


def _open(url: str | None, key: Path | None) -> tuple[AuditStore, AuditKey]:
    from simdx.service.audit import open_store
    from simdx.service.config import default_audit_url

    secret = _key(key)
    return open_store(url or default_audit_url(), secret, must_exist=True), secret


def _lines(store: AuditStore, with_text: bool) -> Iterator[str]:
    from dataclasses import asdict

    for record in store.records():
        row: dict[str, Any] = asdict(record)
        if with_text:
            row["text"] = store.text_of(record.id)
        yield json_format.dumps(row, ensure_ascii=False) + "\n"


def _write(out: Path, lines: Iterator[str]) -> int:
    """For the owner's eyes only, and never half a file under the name that was asked for."""
    from simdx.disk import replacing

    if not out.parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist")
    count = 0
    with replacing(out, 0o600) as file:
        for line in lines:
            file.write(line.encode("utf-8"))
            count += 1
    return count


def _exported(path: Path) -> Iterator[Record]:
    from simdx.service.audit import Record
    from simdx.service.audit.record import COLUMNS

    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json_format.loads(line)
                    yield Record(**{c: row[c] for c in COLUMNS})
                except (ValueError, KeyError, TypeError):
                    raise BadInput(f"{path.name} line {number} is not a record of an export") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
