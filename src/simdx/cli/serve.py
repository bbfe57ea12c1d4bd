"""`simdx serve`: the HTTP service and its page, with its tokens (`simdx token`) and its log (`simdx audit`);
`simdx mcp`: a Model Context Protocol server over stdio.

The tools of `mcp` read and answer; none writes. A tool's caller is a program: it names panels that were given
at the start, never a path. Messages of unforeseen failures, which might quote a case, go nowhere.
"""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, asdict, dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.options import File, Many, Told, verb
from simdx.cli.output import note, say
from simdx.errors import BadInput, MissingExtra, RunFailed, SimdxError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from simdx.classifier import Classifier
    from simdx.service.audit import AuditStore
    from simdx.service.audit_chain import AuditKey, AuditRecord
    from simdx.service.auth import Token, TokenFile

MOST_FOUND = 50
Asked = ParamSpec("Asked")
Embedder = Annotated[str | None, "NAME or NAME+NAME; default: each panel's own."]
Checkpoints = Annotated[File, "File for the heads of the audit log; default: beside the log or the key."]


@dataclass(frozen=True)
class ServeOptions:
    """What is passed on to `ServiceConfig`, under its names there."""

    host: Annotated[str, "Address to bind; all but loopback need tokens."] = "127.0.0.1"
    port: Annotated[int, "Port to bind; 0 takes a free one."] = 8_000
    embedder: Embedder = None
    fast: InitVar[options.Fast] = False
    allow_remote: options.AllowRemote = False
    require_token: Annotated[bool, "--require-token", "Ask for tokens on loopback too."] = False
    token_file: Annotated[File, "Where 'simdx token' keeps tokens."] = None
    audit_url: Annotated[
        str | None,
        Option("--audit", metavar="URL|none", help="sqlite:///FILE or postgresql://…; default: a data file."),
    ] = None
    audit_key: Annotated[File, "Key file of the audit log; made when absent."] = None
    audit_checkpoints: Checkpoints = None
    allowed_hosts: Annotated[Many, "--allowed-host", "A further host name; needs tokens."] = None
    cors_origins: Annotated[Many, "--cors-origin", "A web origin that may call; needs tokens."] = None
    public_url: Annotated[str | None, "The service's address, for links in cards; needs tokens."] = None
    fhir_servers: Annotated[
        Many, Option("--fhir-server", metavar="URL", help="A FHIR server to fetch attachments from.")
    ] = None
    upstream: Annotated[
        str | None, Option(metavar="[MODEL@]URL", help="A server of typed decisions to calibrate.")
    ] = None
    upstream_cases: Annotated[File, "Labelled cases to calibrate the upstream; needs one --panel."] = None

    def __post_init__(self, fast: bool) -> None:
        from simdx.service import limit_threads

        limit_threads()  # before numpy is loaded
        options.go_fast(fast)


@verb()
def serve(
    *,
    panel: Annotated[
        Many, Option(metavar="NAME|FILE[=BANK]", help="A panel; repeatable. Default: all packaged.")
    ] = None,
    chosen: ServeOptions,
    cds_client: Annotated[
        Many, Option(metavar="ISSUER=KEYS", help="A record system and its key set.")
    ] = None,
    cds_client_panel: Annotated[
        Many, Option(metavar="ISSUER=PANEL", help="A panel this issuer may ask; default: all.")
    ] = None,
    access_log: Annotated[bool, "--access-log", "Log id, route, status and time."] = False,
) -> None:
    """Answer over HTTP: the API, CDS Hooks, FHIR and a web page at /. Binds to loopback by default."""
    try:
        from simdx.service.app import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "simdx":
            raise
        raise MissingExtra("the service", "service") from None
    from simdx.service.config import CdsClient, ServiceConfig

    if chosen.public_url is not None and not chosen.public_url.startswith(("http://", "https://")):
        raise BadInput("--public-url is an address such as https://simdx.clinic.example")
    given = {name: value for name, value in asdict(chosen).items() if value is not None}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if panel:
        given["panels"] = {}
        for item in panel:
            name, separator, bank = item.partition("=")
            if not name or (separator and not bank):
                raise BadInput(f"--panel '{item[:80]}' is not NAME or NAME=BANK")
            given["panels"][name] = bank or None
    panels = [_issuer_and(item, "--cds-client-panel", "PANEL") for item in cds_client_panel or ()]
    clients = [_issuer_and(item, "--cds-client", "KEYS") for item in cds_client or ()]
    if not {issuer for issuer, _ in panels} <= {issuer for issuer, _ in clients}:
        raise BadInput("--cds-client-panel names an issuer without a --cds-client")
    cds_clients = tuple(
        CdsClient(issuer, keys, tuple(name for other, name in panels if other == issuer) or None)
        for issuer, keys in clients
    )
    run(ServiceConfig(**given, cds_clients=cds_clients), note, access_log)


def _issuer_and(item: str, option: str, what: str) -> tuple[str, str]:
    issuer, _, value = item.partition("=")
    if not issuer or not value:
        raise BadInput(f"{option} is ISSUER={what}, such as {option} https://ehr.example={what}")
    return issuer, value


# --------------------------------------------------------------------------- simdx token

token = Typer()

TokenPlace = Annotated[File, "--token-file", "Default: the service's own, in its data folder."]


@verb(token)
def new(
    name: Annotated[str, Argument(help="Who or what the token is for; recorded in the audit log.")],
    scope: Annotated[
        Many, "classify, metrics or admin (which includes metrics); repeatable. Default: classify."
    ] = None,
    panel: Annotated[Many, "A panel the token may ask; repeatable. Default: every panel."] = None,
    days: Annotated[float | None, "Days of validity; default: until revoked."] = None,
    token_file: TokenPlace = None,
    json: options.AsJson = False,
) -> None:
    """Make a token and show it once."""
    scopes, panels = tuple(dict.fromkeys(scope or ["classify"])), tuple(dict.fromkeys(panel or ()))
    text, made = _tokens(token_file).new(name, scopes, days, panels or None)
    if not json:
        note("This is the only time the token is shown:")
    say(json, {"token": text, **_shown(made)}, text)


@verb(token, "list")
def list_(token_file: TokenPlace = None) -> Told:
    """List tokens by name, scope and state; the tokens themselves are never shown again."""
    found, lines = _tokens(token_file).list(), []
    for t in found:
        state = f"revoked {t.revoked}" if t.revoked else f"until {t.expires}" if t.expires else "active"
        panels = "" if t.panels is None else f"  {','.join(t.panels)}"
        lines.append(f"{t.id}  {t.name:24}  {','.join(t.scopes):16}  {state}{panels}")
    return {"tokens": [_shown(t) for t in found]}, *lines


@verb(token)
def revoke(name: Annotated[str, Argument(metavar="NAME|ID")], token_file: TokenPlace = None) -> Told:
    """Revoke a token; a running service notices at once."""
    gone = _tokens(token_file).revoke(name)
    note(f"revoked {gone.name} ({gone.id})")
    return (_shown(gone),)


def _tokens(path: Path | None) -> TokenFile:
    from simdx.service.auth import TokenFile
    from simdx.service.config import service_home

    return TokenFile(path or service_home() / "tokens.json")


def _shown(token: Token) -> dict[str, Any]:
    return token.model_dump(mode="json", exclude={"sha256"})


# --------------------------------------------------------------------------- simdx audit

audit = Typer()

LogUrl = Annotated[str | None, "--url", "sqlite:///FILE or postgresql://…; default: the service's."]
LogKey = Annotated[File, "--key", "The log's key file; default: the service's."]


@verb(audit)
def export(
    out: Annotated[File, "JSONL file to write; default: standard output."] = None,
    patient: Annotated[str | None, "Only of this patient, by the id the record system sent."] = None,
    user: Annotated[str | None, "Only records of this user of the record system."] = None,
    url: LogUrl = None,
    key: LogKey = None,
    json: options.AsJson = False,
) -> None:
    """Write every record as a JSON line, in order, with its place in the chain."""
    from simdx.disk import replacing

    if json and out is None:
        raise BadInput("--json reports on a file: give --out F.jsonl")
    _, secret, store = _log(key, url)
    lines = _lines(store(), secret, patient, user)
    if out is None:
        sys.stdout.writelines(lines)
        return
    if not out.parent.is_dir():
        raise BadInput(f"{out} cannot be written: its folder does not exist")
    count = 0
    with replacing(out, 0o600) as file:  # readable by the owner alone, and never half written
        for line in lines:
            file.write(line.encode("utf-8"))
            count += 1
    head = store().head()[1]
    note(f"wrote {count} records to {out}; head {head}")
    say(json, {"records": count, "head": head, "out": str(out)})


@verb(audit)
def verify(
    source: Annotated[File, "--from", "An exported JSONL instead of the log."] = None,
    head: Annotated[str | None, "The head noted earlier; it must still be in the chain."] = None,
    checkpoints: Annotated[
        list[Path] | None, "The log's checkpoint file; one for each machine. Default: the service's."
    ] = None,
    url: LogUrl = None,
    key: LogKey = None,
    json: options.AsJson = False,
) -> None:
    """Walk the hash chain from the first record, past every checkpoint; exit 1 if it fails."""
    from simdx.service.audit_chain import read_checkpoints
    from simdx.service.audit_chain import verify as walk

    for file in checkpoints or ():
        if not file.exists():
            raise BadInput(f"no checkpoint file at {file}")
    beside, secret, store = _log(key, url)
    if source is not None:
        # An export may be older than the log's checkpoints: only files that are named are looked at.
        noted = [read_checkpoints(file) for file in checkpoints or ()]
        verdict = walk(_exported(source), secret, None, noted, head)
    else:
        verdict = store().verify(files=checkpoints or [beside], noted=head)
    n = verdict.checkpoints
    seen = f"{n} checkpoints agree" if n else "no checkpoint file was found"
    told = f"{verdict.records} records verified; {seen}; head {verdict.head}"
    say(json, asdict(verdict), *([told] if verdict.ok else []))
    if not verdict.ok:
        raise RunFailed(f"the audit log failed verification: {verdict.problem}")


def _log(path: Path | None, url: str | None) -> tuple[Path, AuditKey, Callable[[], AuditStore]]:
    """The log's checkpoint file, its key, and what opens it."""
    from simdx.service.audit import AuditStore
    from simdx.service.audit_chain import AuditKey
    from simdx.service.config import checkpoint_file, default_audit_url, service_home

    path, url = path or service_home() / "audit.key", url or default_audit_url()
    key = AuditKey.from_file(path)
    return checkpoint_file(url, path), key, cache(lambda: AuditStore(url, key, must_exist=True))


def _lines(store: AuditStore, key: AuditKey, patient: str | None, user: str | None) -> Iterator[str]:
    """The records asked for. The log has no patient's id, only its keyed hash."""
    from simdx.service.audit_chain import patient_reference

    hashed = None if patient is None else key.person_hash("patient", patient_reference(patient))
    wanted = {name: value for name, value in (("patient_hash", hashed), ("user", user)) if value is not None}
    for record in store.records():
        context = json_format.loads(record.context or "{}") if wanted else {}
        if all(context.get(name) == value for name, value in wanted.items()):
            yield json_format.dumps(asdict(record)) + "\n"


def _exported(path: Path) -> Iterator[AuditRecord]:
    from simdx.rows import jsonl_rows
    from simdx.service.audit_chain import AuditRecord

    for number, row in jsonl_rows(path):
        try:
            yield AuditRecord(**row)
        except TypeError:
            raise BadInput(f"{path.name} line {number} is not a record of an export") from None


# --------------------------------------------------------------------------- simdx mcp


@verb()
def mcp(
    panel: Annotated[
        Many, Option(metavar="NAME|FILE", help="A panel; repeatable. Default: all packaged.")
    ] = None,
    embedder: Embedder = None,
    allow_remote: options.AllowRemote = False,
) -> None:
    """Answer tool calls on standard input and output: classify, panels, library_search."""
    from simdx.panels import PACKAGED, load_panel

    panels = {load_panel(source).name: source for source in panel or PACKAGED}
    server(panels, embedder=embedder, allow_remote=allow_remote).run()


def server(
    panels: Mapping[str, str], *, embedder: str | None = None, allow_remote: bool = False
) -> MCPServer:
    """The server for these panels, by name with their source. A panel is read when it is first asked."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise MissingExtra("simdx mcp", "mcp") from None
    from simdx import __version__, library
    from simdx.egress import check_names
    from simdx.embedders import get_embedder, parts_of
    from simdx.panels import disclaimer, load_panel

    for source in panels.values():  # refused at the start, not in a conversation
        check_names(parts_of(embedder or load_panel(source).embedder), allow_remote)
    if embedder is not None:
        get_embedder(embedder, allow_remote=allow_remote)
    served = MCPServer("simdx", version=__version__, log_level="CRITICAL")

    @cache
    def classifier(name: str) -> Classifier:
        from simdx.classifier import Classifier

        return Classifier(panels[name], embedder=embedder, allow_remote=allow_remote)

    def tool(call: Callable[Asked, dict[str, Any]]) -> Callable[Asked, dict[str, Any]]:
        @served.tool(name=call.__name__.rstrip("_"), description=call.__doc__)
        @wraps(call)
        def guarded(*args: Asked.args, **kwargs: Asked.kwargs) -> dict[str, Any]:
            try:
                return call(*args, **kwargs)
            except SimdxError as error:
                raise ToolError(str(error)) from None
            except Exception as error:
                raise ToolError(f"failed with {type(error).__name__}") from None

        return guarded

    @tool
    def classify(panel: str, text: str, prior: dict[str, float] | None = None) -> dict[str, Any]:
        """Probabilities of a panel's labels and of none of these for one text, with decision and evidence.

        Follow decision.action: 'accept' alone may be used without a person's look; 'likely' may not. `prior`
        gives the share of labels that are more or less common than others.
        """
        if panel not in panels:
            raise BadInput(f"choose a panel of {', '.join(panels)}")
        chosen = classifier(panel)
        return chosen.infer(text, prior).to_json() | {"disclaimer": disclaimer(chosen.panel)}

    @tool
    def panels_() -> dict[str, Any]:
        """The panels that can be asked, with their labels."""
        read = {name: load_panel(source) for name, source in panels.items()}
        return {"panels": [{"name": n, "title": p.title, "labels": list(p.names)} for n, p in read.items()]}

    @tool
    def library_search(query: str, most: int = 10) -> dict[str, Any]:
        """Conditions of the library by name, alias, ICD-10 code or meaning."""
        if not 1 <= most <= MOST_FOUND:
            raise BadInput(f"most is from 1 to {MOST_FOUND}")
        kept = ("name", "icd10", "emergency")
        return {
            "conditions": [
                {key: getattr(m.condition, key) for key in kept} | {"found_by": m.how, "score": m.score}
                for m in library.find(query, most)
            ]
        }

    return served
