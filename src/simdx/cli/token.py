"""`simdx token new|list|revoke`: who may call the service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from simdx.cli import options
from simdx.cli.output import note, print_json, tell, write_line

if TYPE_CHECKING:
    from simdx.service.auth import Token, TokenFile

app = Typer(help="Tokens of the service, hashed at rest.", no_args_is_help=True)

File = Annotated[Path | None, Option("--token-file", help="Default: the service's own, in its data folder.")]


@app.command("new")
def new(
    name: Annotated[str, Argument(help="Who or what the token is for; it stands in the audit log.")],
    scope: Annotated[
        list[str] | None,
        Option(help="classify, metrics or admin (which includes metrics); repeatable. Default: classify."),
    ] = None,
    panel: Annotated[
        list[str] | None, Option(help="A panel it may ask; repeatable. Default: every panel.")
    ] = None,
    days: Annotated[float | None, Option(help="Days it is valid; default: until revoked.")] = None,
    token_file: File = None,
    json: options.AsJson = False,
) -> None:
    """Make a token and show it once."""
    scopes, panels = tuple(dict.fromkeys(scope or ["classify"])), tuple(dict.fromkeys(panel or ()))
    text, token = _file(token_file).new(name, scopes, days, panels or None)
    if json:
        print_json({"token": text, **_shown(token)})
        return
    note("This is the only time the token is shown:")
    write_line(text)


@app.command("list")
def list_(token_file: File = None, json: options.AsJson = False) -> None:
    """The tokens that were made, without the tokens."""
    tokens = _file(token_file).list()
    if json:
        print_json({"tokens": [_shown(t) for t in tokens]})
        return
    for t in tokens:
        state = f"revoked {t.revoked}" if t.revoked else f"until {t.expires}" if t.expires else "active"
        panels = "" if t.panels is None else f"  {','.join(t.panels)}"
        write_line(f"{t.id}  {t.name:24}  {','.join(t.scopes):16}  {state}{panels}")


@app.command("revoke")
def revoke(
    name: Annotated[str, Argument(metavar="NAME|ID")], token_file: File = None, json: options.AsJson = False
) -> None:
    """End a token's life; a running service notices at once."""
    token = _file(token_file).revoke(name)
    tell(json, _shown(token), f"revoked {token.name} ({token.id})")


def _file(path: Path | None) -> TokenFile:
    from simdx.service.auth import TokenFile
    from simdx.service.config import service_home

    return TokenFile(path or service_home() / "tokens.json")


def _shown(token: Token) -> dict[str, object]:
    return {
        "id": token.id, "name": token.name, "scopes": list(token.scopes), "created": token.created,
        "expires": token.expires, "revoked": token.revoked,
        "panels": None if token.panels is None else list(token.panels),
    }  # fmt: skip
