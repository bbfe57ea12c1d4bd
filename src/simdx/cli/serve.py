"""`simdx serve`: the HTTP service and its page; `simdx mcp`: a Model Context Protocol server over stdio.

The tools of `mcp` read and answer; none writes. A tool's caller is a program: it names panels that were given
at the start, never a path. Messages of unforeseen failures, which might quote a case, go nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, asdict, dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

from typer import Option

from simdx.cli import options
from simdx.cli.options import File, Many
from simdx.cli.output import note
from simdx.errors import BadInput, MissingExtra, SimdxError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from simdx.classifier import Classifier

MOST_FOUND = 50
Asked = ParamSpec("Asked")
Embedder = Annotated[str | None, Option(help="NAME or NAME+NAME; default: each panel's own.")]


@dataclass(frozen=True)
class ServeOptions:
    """What is passed on to `ServiceConfig`, under its names there."""

    host: Annotated[str, Option(help="Address to bind; all but loopback need tokens.")] = "127.0.0.1"
    port: Annotated[int, Option(help="Port to bind; 0 takes a free one.")] = 8_000
    embedder: Embedder = None
    fast: InitVar[options.Fast] = False
    allow_remote: options.AllowRemote = False
    require_token: Annotated[bool, Option("--require-token", help="Ask for tokens on loopback too.")] = False
    token_file: Annotated[File, Option(help="Where 'simdx token' keeps tokens.")] = None
    audit_url: Annotated[
        str | None,
        Option("--audit", metavar="URL|none", help="sqlite:///FILE or postgresql://…; default: a data file."),
    ] = None
    audit_key: Annotated[File, Option(help="Key file of the audit log; made when absent.")] = None
    audit_checkpoints: Annotated[
        File, Option(help="File for the heads of the audit log; default: beside the log or the key.")
    ] = None
    allowed_hosts: Annotated[Many, Option("--allowed-host", help="A further host name; needs tokens.")] = None
    cors_origins: Annotated[
        Many, Option("--cors-origin", help="A web origin that may call; needs tokens.")
    ] = None
    public_url: Annotated[str | None, Option(help="Its address, for links in cards; needs tokens.")] = None
    fhir_servers: Annotated[
        Many, Option("--fhir-server", metavar="URL", help="A FHIR server to fetch attachments from.")
    ] = None
    upstream: Annotated[
        str | None, Option(metavar="[MODEL@]URL", help="A server of typed decisions to calibrate.")
    ] = None
    upstream_cases: Annotated[File, Option(help="Labelled cases that calibrate it; with one --panel.")] = None

    def __post_init__(self, fast: bool) -> None:
        from simdx.service import limit_threads

        limit_threads()  # before numpy is loaded
        options.go_fast(fast)


@options.spread
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
        Many, Option(metavar="ISSUER=PANEL", help="A panel it may ask; default: all.")
    ] = None,
    access_log: Annotated[bool, Option("--access-log", help="Log id, route, status and time.")] = False,
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
        given["panels"] = dict(_panel_and_bank(item) for item in panel)
    panels = [_issuer_and(item, "--cds-client-panel", "PANEL") for item in cds_client_panel or ()]
    clients = [_issuer_and(item, "--cds-client", "KEYS") for item in cds_client or ()]
    if not {issuer for issuer, _ in panels} <= {issuer for issuer, _ in clients}:
        raise BadInput("--cds-client-panel names an issuer without a --cds-client")
    cds_clients = tuple(
        CdsClient(issuer, keys, tuple(name for other, name in panels if other == issuer) or None)
        for issuer, keys in clients
    )
    run(ServiceConfig(**given, cds_clients=cds_clients), note, access_log)


def _panel_and_bank(item: str) -> tuple[str, str | None]:
    panel, separator, bank = item.partition("=")
    if not panel or (separator and not bank):
        raise BadInput(f"--panel '{item[:80]}' is not NAME or NAME=BANK")
    return panel, bank or None


def _issuer_and(item: str, option: str, what: str) -> tuple[str, str]:
    issuer, _, value = item.partition("=")
    if not issuer or not value:
        raise BadInput(f"{option} is ISSUER={what}, such as {option} https://ehr.example={what}")
    return issuer, value


# --------------------------------------------------------------------------- simdx mcp


def mcp(
    panel: Annotated[
        Many,
        Option(metavar="NAME|FILE", help="A panel; repeatable. Default: all packaged."),
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

    for source in panels.values():  # refused now, not in the middle of a conversation
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
        return {
            "conditions": [
                {
                    "name": m.condition.name, "icd10": m.condition.icd10, "emergency": m.condition.emergency,
                    "found_by": m.how, "score": m.score,
                }
                for m in library.find(query, most)
            ]
        }  # fmt: skip

    return served
