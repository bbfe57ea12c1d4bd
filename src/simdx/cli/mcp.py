"""`simdx mcp`: one Model Context Protocol server over stdio, for assistants that call tools.

The tools read and answer; none writes. A tool's caller is a program: it names panels that were given at the
start, never a path. Messages of unforeseen failures, which might quote a case, go nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

from typer import Option

from simdx.cli import options
from simdx.errors import BadInput, MissingExtra, SimdxError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from simdx.classifier import Classifier

MOST_FOUND = 50
Asked = ParamSpec("Asked")


def mcp(
    panel: Annotated[
        list[str] | None,
        Option(metavar="NAME|FILE", help="A panel that may be asked; repeatable. Default: all packaged."),
    ] = None,
    embedder: Annotated[str | None, Option(help="NAME or NAME+NAME; default: each panel's own.")] = None,
    allow_remote: options.AllowRemote = False,
) -> None:
    """Answer tool calls on standard input and output: classify, panels, library_search."""
    from simdx.panels import PACKAGED, load_panel

    sources = panel or list(PACKAGED)
    server(
        {load_panel(source).name: source for source in sources}, embedder=embedder, allow_remote=allow_remote
    ).run()


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
