"""`simdx audit export|verify|purge|rotate-key`: reading the service's log, checking it, looking after it."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from simdx.cli import options
from simdx.cli.output import print_json, tell
from simdx.errors import BadInput, RunFailed

if TYPE_CHECKING:
    from simdx.service.audit import AuditRecord, AuditStore, KeyRing, Verdict

app = Typer(help="The service's audit log.", no_args_is_help=True)

Url = Annotated[str | None, Option("--url", help="sqlite:///FILE or postgresql://…; default: the service's.")]
Key = Annotated[Path | None, Option("--key", help="The log's key file; default: the service's.")]
Checkpoints = Annotated[
    list[Path] | None,
    Option("--checkpoints", help="The log's checkpoint file; one for each machine. Default: the service's."),
]


@app.command("export")
def export(
    out: Annotated[Path | None, Option(help="JSONL file to write; default: standard output.")] = None,
    with_text: Annotated[bool, Option("--with-text", help="Add kept texts, decrypted.")] = False,
    patient: Annotated[
        str | None, Option(help="Only records about this patient, by the id the record system sent.")
    ] = None,
    user: Annotated[str | None, Option(help="Only records of this user of the record system.")] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Every record as a JSON line, in order, with its place in the chain."""
    store, ring = _open(url, key)
    if json and out is None:
        raise BadInput("--json reports on a file: give --out F.jsonl")
    lines = _lines(store, with_text, _wanted(ring, patient, user))
    if out is None:
        for line in lines:
            sys.stdout.write(line)
        return
    from simdx.disk import replacing

    if not out.parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist")
    count = 0
    with replacing(out, 0o600) as file:  # for the owner's eyes only, and never half a file under that name
        for line in lines:
            file.write(line.encode("utf-8"))
            count += 1
    head = store.head()[1]
    done = {"records": count, "head": head, "out": str(out)}
    tell(json, done, f"wrote {count} records to {out}; head {head}")


@app.command("verify")
def verify(
    source: Annotated[Path | None, Option("--from", help="An exported JSONL instead of the log.")] = None,
    head: Annotated[str | None, Option(help="The head noted earlier; it must still be in the chain.")] = None,
    checkpoints: Checkpoints = None,
    without: Annotated[
        list[str] | None, Option(metavar="ID", help="A checkpoint file that is lost for good; repeatable.")
    ] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Walk the hash chain from the first record, past every checkpoint; exit 1 when it does not hold."""
    if source is not None:
        verdict, problem = _verify_export(source, _ring(key), checkpoints or [], head)
    else:
        store, _ = _open(url, key)
        files = checkpoints or [_checkpoint_file(url, key)]
        verdict = store.verify(files=files, without=without or (), noted=head)
        problem = verdict.problem or store.damage()
        if problem is None and verdict.unseen:
            away = verdict.unseen[0]
            problem = (
                f"its checkpoint file {away} is not here: give every machine's with --checkpoints FILE, or "
                f"--without {away} if it is lost for good"
            )
    if json:
        print_json(
            {
                "ok": problem is None, "records": verdict.records, "head": verdict.head, "problem": problem,
                "checkpoints": verdict.checkpoints, "unseen": list(verdict.unseen),
            }
        )  # fmt: skip
    if problem is not None:
        raise RunFailed(f"the audit log does not hold: {problem}")
    if not json:
        seen = f"{verdict.checkpoints} checkpoints agree" if verdict.checkpoints else "no checkpoint was seen"
        print(f"{verdict.records} records hold; {seen}; head {verdict.head}")


@app.command("purge")
def purge(url: Url = None, key: Key = None, json: options.AsJson = False) -> None:
    """Delete the kept texts whose time is over. A running service does so by itself every minute."""
    store, _ = _open(url, key)
    gone = store.purge()
    store.close()
    tell(json, {"purged": gone}, f"deleted {gone} kept texts whose time was over")


@app.command("rotate-key")
def rotate_key(
    prepare: Annotated[
        bool, Option("--prepare", help="Only put the next key into the file, to copy it to others first.")
    ] = False,
    checkpoints: Annotated[
        Path | None, Option(help="The log's checkpoint file; default: the service's.")
    ] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Go on with a new key. The old one stays in the key file: it verifies what it wrote."""
    from simdx.service.audit import store as log

    path = key or _key_file()
    store, _ = _open(url, path, checkpoints or _checkpoint_file(url, path))
    if prepare:
        waiting = log.prepare(store, path)
        copied = f"key {waiting} is in {path} and not in use: copy the file to every service, then rotate"
        tell(json, {"key": store.key_in_use().id, "next": waiting}, copied)
        return
    done = log.rotate(store, path)
    store.close()
    sealed = f"the log goes on with key {done.key}; {done.texts} kept texts are sealed with it"
    tell(json, {"key": done.key, "texts": done.texts, "unopened": done.stuck}, sealed)
    if done.stuck:
        raise RunFailed(f"{done.stuck} kept texts did not open with their key and were left as they are")


def _verify_export(
    source: Path, ring: KeyRing, files: list[Path], noted: str | None
) -> tuple[Verdict, str | None]:
    """An export may be older than the log's checkpoints: only those of files that are named are asked for."""
    from simdx.service.audit import verify as walk
    from simdx.service.audit.checkpoints import CheckpointFile

    for file in files:
        if not file.exists():
            raise BadInput(f"no checkpoint file at {file}")
    verdict = walk(
        _exported(source), ring, checkpoints=[CheckpointFile(file).read(ring) for file in files], noted=noted
    )
    return verdict, verdict.problem


def _key_file() -> Path:
    from simdx.service.config import service_home

    return service_home() / "audit.key"


def _ring(path: Path | None) -> KeyRing:
    from simdx.service.audit import KeyRing

    return KeyRing.from_file(path or _key_file())


def _checkpoint_file(url: str | None, key: Path | None) -> Path:
    from simdx.service.config import checkpoint_file, default_audit_url

    return checkpoint_file(url or default_audit_url(), key or _key_file())


def _open(url: str | None, key: Path | None, checkpoints: Path | None = None) -> tuple[AuditStore, KeyRing]:
    from simdx.service.audit import open_store
    from simdx.service.config import default_audit_url

    ring = _ring(key)
    store = open_store(url or default_audit_url(), ring, checkpoints=checkpoints, must_exist=True)
    return store, ring


def _wanted(ring: KeyRing, patient: str | None, user: str | None) -> Callable[[AuditRecord], bool]:
    """Whether a record is asked for. A patient is looked up by keyed hash, under every key of the log."""
    from simdx.service.audit.record import patient_reference

    hashes = None if patient is None else ring.all_hashes("patient", patient_reference(patient))

    def asked(record: AuditRecord) -> bool:
        if hashes is None and user is None:
            return True
        context = json_format.loads(record.context or "{}")
        about = hashes is None or context.get("patient_hash") in hashes
        return about and (user is None or context.get("user") == user)

    return asked


def _lines(store: AuditStore, with_text: bool, asked: Callable[[AuditRecord], bool]) -> Iterator[str]:
    from dataclasses import asdict

    for record in filter(asked, store.records()):
        row: dict[str, Any] = asdict(record)
        if with_text:
            row["text"] = store.text_of(record.id)
        yield json_format.dumps(row, ensure_ascii=False) + "\n"


def _exported(path: Path) -> Iterator[AuditRecord]:
    from simdx.service.audit import AuditRecord

    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = json_format.loads(line)
                    row.pop("text", None)
                    yield AuditRecord(**{"context": None, **row})  # an export may be older than `context`
                except (ValueError, TypeError, AttributeError):
                    raise BadInput(f"{path.name} line {number} is not a record of an export") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
