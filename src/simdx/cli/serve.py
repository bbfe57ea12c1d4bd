"""`simdx serve`: the HTTP service and its page."""

from pathlib import Path
from typing import Annotated

from typer import Option

from simdx.cli import options
from simdx.cli.output import note
from simdx.errors import BadInput, MissingExtra


def serve(
    host: Annotated[str, Option(help="Address to bind; anything but loopback needs tokens.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to bind; 0 takes a free one.")] = 8_000,
    panel: Annotated[
        list[str] | None,
        Option(metavar="NAME|FILE[=BANK]", help="A panel to serve; repeatable. Default: all packaged."),
    ] = None,
    embedder: Annotated[str | None, Option(help="NAME or NAME+NAME; default: each panel's own.")] = None,
    fast: options.Fast = False,
    allow_remote: options.AllowRemote = False,
    require_token: Annotated[bool, Option("--require-token", help="Ask for tokens on loopback too.")] = False,
    token_file: Annotated[Path | None, Option(help="Where 'simdx token' keeps tokens.")] = None,
    audit: Annotated[
        str | None,
        Option(
            metavar="URL|none", help="sqlite:///FILE or postgresql://…; default: a file in the data folder."
        ),
    ] = None,
    audit_key: Annotated[Path | None, Option(help="The audit log's key file; made when absent.")] = None,
    audit_checkpoints: Annotated[
        Path | None, Option(help="Where its head is noted; default: beside log or key.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, Option(help="A further Host to answer to; needs tokens.")
    ] = None,
    cors_origin: Annotated[list[str] | None, Option(help="A web origin that may call; needs tokens.")] = None,
    public_url: Annotated[
        str | None, Option(help="How others reach it, for links in cards; needs tokens.")
    ] = None,
    fhir_server: Annotated[
        list[str] | None,
        Option(
            metavar="URL", help="A FHIR server from which a hook's attachments may be fetched; repeatable."
        ),
    ] = None,
    cds_client: Annotated[
        list[str] | None,
        Option(
            metavar="ISSUER=KEYS",
            help="A record system that signs its calls, and the address or file of its key set; repeatable.",
        ),
    ] = None,
    cds_client_panel: Annotated[
        list[str] | None,
        Option(metavar="ISSUER=PANEL", help="A panel that record system may ask; repeatable. Default: all."),
    ] = None,
    upstream: Annotated[
        str | None,
        Option(
            metavar="[MODEL@]URL", help="A server of typed decisions, whose answers the panels calibrate."
        ),
    ] = None,
    upstream_cases: Annotated[
        Path | None, Option(help="Labelled cases that calibrate it; with one --panel.")
    ] = None,
    access_log: Annotated[bool, Option("--access-log", help="Log id, route, status and time.")] = False,
) -> None:
    """Answer over HTTP: the API, CDS Hooks, FHIR and a page at /. Binds to loopback unless told otherwise."""
    from simdx.service import limit_threads

    limit_threads()
    options.go_fast(fast)
    try:
        from simdx.service.app import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "simdx":
            raise
        raise MissingExtra("the service", "service") from None
    from simdx.service.config import CdsClient, ServiceConfig

    if public_url is not None and not public_url.startswith(("http://", "https://")):
        raise BadInput("--public-url is an address such as https://simdx.clinic.example")
    files = {"token_file": token_file, "audit_url": audit, "audit_key": audit_key}
    chosen: dict[str, object] = {name: value for name, value in files.items() if value is not None}
    if panel:
        chosen["panels"] = dict(_panel_and_bank(item) for item in panel)
    panels = [_issuer_and(item, "--cds-client-panel", "PANEL") for item in cds_client_panel or ()]
    clients = [_issuer_and(item, "--cds-client", "KEYS") for item in cds_client or ()]
    if not {issuer for issuer, _ in panels} <= {issuer for issuer, _ in clients}:
        raise BadInput("--cds-client-panel names an issuer without a --cds-client")
    chosen["cds_clients"] = tuple(
        CdsClient(issuer, keys, tuple(name for other, name in panels if other == issuer) or None)
        for issuer, keys in clients
    )
    config = ServiceConfig(
        host=host, port=port, embedder=embedder, require_token=require_token,
        allowed_hosts=tuple(allowed_host or ()), allow_remote=allow_remote,
        cors_origins=tuple(cors_origin or ()), public_url=public_url,
        fhir_servers=tuple(fhir_server or ()), audit_checkpoints=audit_checkpoints,
        upstream=upstream, upstream_cases=upstream_cases,
        **chosen,  # type: ignore[arg-type]
    )  # fmt: skip
    run(config, note, access_log)


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
