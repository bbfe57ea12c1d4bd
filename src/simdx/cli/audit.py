"""`simdx audit export|verify`: the service's log; `simdx token new|list|revoke`: who may call the service."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, print_json, say, write_line
from simdx.errors import BadInput, RunFailed

if TYPE_CHECKING:
    from simdx.service.audit import AuditKey, AuditRecord, AuditStore
    from simdx.service.auth import Token, TokenFile

app = Typer(help="The service's audit log.", no_args_is_help=True)

Url = Annotated[str | None, Option("--url", help="sqlite:///FILE or postgresql://…; default: the service's.")]
Key = Annotated[Path | None, Option("--key", help="The log's key file; default: the service's.")]


@app.command("export")
def export(
    out: Annotated[Path | None, Option(help="JSONL file to write; default: standard output.")] = None,
    patient: Annotated[
        str | None, Option(help="Only of this patient, by the id the record system sent.")
    ] = None,
    user: Annotated[str | None, Option(help="Only records of this user of the record system.")] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Every record as a JSON line, in order, with its place in the chain."""
    from simdx.disk import replacing
    from simdx.service.config import default_audit_url

    if json and out is None:
        raise BadInput("--json reports on a file: give --out F.jsonl")
    _, secret = _key(key)
    store = _open(url or default_audit_url(), secret)
    lines = _lines(store, secret, patient, user)
    if out is None:
        sys.stdout.writelines(lines)
        return
    if not out.parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist")
    count = 0
    with replacing(out, 0o600) as file:  # for the owner's eyes only, and never half a file under that name
        for line in lines:
            file.write(line.encode("utf-8"))
            count += 1
    head = store.head()[1]
    note(f"wrote {count} records to {out}; head {head}")
    say(json, {"records": count, "head": head, "out": str(out)})


@app.command("verify")
def verify(
    source: Annotated[Path | None, Option("--from", help="An exported JSONL instead of the log.")] = None,
    head: Annotated[str | None, Option(help="The head noted earlier; it must still be in the chain.")] = None,
    checkpoints: Annotated[
        list[Path] | None,
        Option(help="The log's checkpoint file; one for each machine. Default: the service's."),
    ] = None,
    url: Url = None,
    key: Key = None,
    json: options.AsJson = False,
) -> None:
    """Walk the hash chain from the first record, past every checkpoint; exit 1 when it does not hold."""
    from simdx.service.audit_chain import read_checkpoints
    from simdx.service.audit_chain import verify as walk
    from simdx.service.config import checkpoint_file, default_audit_url

    for file in checkpoints or ():
        if not file.exists():
            raise BadInput(f"no checkpoint file at {file}")
    key_file, secret = _key(key)
    if source is not None:
        # An export may be older than the log's checkpoints: only files that are named are looked at.
        noted = [read_checkpoints(file) for file in checkpoints or ()]
        verdict = walk(_exported(source), secret, None, noted, head)
    else:
        url = url or default_audit_url()
        verdict = _open(url, secret).verify(files=checkpoints or [checkpoint_file(url, key_file)], noted=head)
    if json:
        keys = ("ok", "records", "head", "problem", "checkpoints")
        print_json({key: getattr(verdict, key) for key in keys})
    if not verdict.ok:
        raise RunFailed(f"the audit log failed verification: {verdict.problem}")
    if not json:
        n = verdict.checkpoints
        seen = f"{n} checkpoints agree" if n else "no checkpoint file was found"
        write_line(f"{verdict.records} records verified; {seen}; head {verdict.head}")


def _key(path: Path | None) -> tuple[Path, AuditKey]:
    from simdx.service.audit import AuditKey
    from simdx.service.config import service_home

    path = path or service_home() / "audit.key"
    return path, AuditKey.from_file(path)


def _open(url: str, key: AuditKey) -> AuditStore:
    from simdx.service.audit import AuditStore

    return AuditStore(url, key, must_exist=True)


def _lines(store: AuditStore, key: AuditKey, patient: str | None, user: str | None) -> Iterator[str]:
    """The records asked for. The log has no patient's id, only its keyed hash."""
    from dataclasses import asdict

    from simdx.service.audit_chain import patient_reference

    hashed = None if patient is None else key.person_hash("patient", patient_reference(patient))
    wanted = {name: value for name, value in (("patient_hash", hashed), ("user", user)) if value is not None}
    for record in store.records():
        context = json_format.loads(record.context or "{}") if wanted else {}
        if all(context.get(name) == value for name, value in wanted.items()):
            yield json_format.dumps(asdict(record)) + "\n"


def _exported(path: Path) -> Iterator[AuditRecord]:
    from simdx.rows import jsonl_rows
    from simdx.service.audit import AuditRecord

    for number, row in jsonl_rows(path):
        try:
            yield AuditRecord(**row)
        except TypeError:
            raise BadInput(f"{path.name} line {number} is not a record of an export") from None


# --------------------------------------------------------------------------- simdx token

tokens = Typer(help="Tokens of the service, hashed at rest.", no_args_is_help=True)

File = Annotated[Path | None, Option("--token-file", help="Default: the service's own, in its data folder.")]


@tokens.command("new")
def new(
    name: Annotated[str, Argument(help="Who or what the token is for; it stands in the audit log.")],
    scope: Annotated[
        list[str] | None,
        Option(help="classify, metrics or admin (which includes metrics); repeatable. Default: classify."),
    ] = None,
    panel: Annotated[
        list[str] | None, Option(help="A panel it may ask; repeatable. Default: every one.")
    ] = None,
    days: Annotated[float | None, Option(help="Days it is valid; default: until revoked.")] = None,
    token_file: File = None,
    json: options.AsJson = False,
) -> None:
    """Make a token and show it once."""
    scopes, panels = tuple(dict.fromkeys(scope or ["classify"])), tuple(dict.fromkeys(panel or ()))
    text, token = _tokens(token_file).new(name, scopes, days, panels or None)
    if not json:
        note("This is the only time the token is shown:")
    say(json, {"token": text, **_shown(token)}, text)


@tokens.command("list")
def list_(token_file: File = None, json: options.AsJson = False) -> None:
    """The tokens that were made, without the tokens."""
    found, lines = _tokens(token_file).list(), []
    for t in found:
        state = f"revoked {t.revoked}" if t.revoked else f"until {t.expires}" if t.expires else "active"
        panels = "" if t.panels is None else f"  {','.join(t.panels)}"
        lines.append(f"{t.id}  {t.name:24}  {','.join(t.scopes):16}  {state}{panels}")
    say(json, {"tokens": [_shown(t) for t in found]}, *lines)


@tokens.command("revoke")
def revoke(
    name: Annotated[str, Argument(metavar="NAME|ID")], token_file: File = None, json: options.AsJson = False
) -> None:
    """End a token's life; a running service notices at once."""
    token = _tokens(token_file).revoke(name)
    note(f"revoked {token.name} ({token.id})")
    say(json, _shown(token))


def _tokens(path: Path | None) -> TokenFile:
    from simdx.service.auth import TokenFile
    from simdx.service.config import service_home

    return TokenFile(path or service_home() / "tokens.json")


def _shown(token: Token) -> dict[str, object]:
    return {
        "id": token.id, "name": token.name, "scopes": list(token.scopes), "created": token.created,
        "expires": token.expires, "revoked": token.revoked,
        "panels": None if token.panels is None else list(token.panels),
    }  # fmt: skip
