"""`simdx mcp`, asked by the package's own client over a real pipe."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters  # here: it keeps the sys.stderr of its import

from simdx.cli.serve import server
from simdx.errors import NotAllowed

TEXT = "A soft, bluish, painless swelling of the lower lip that came two weeks after a bite."


def call(where: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def ask() -> list[Any]:
        async with Client(where) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return [names, *[await client.call_tool(name, given) for name, given in calls]]

    return asyncio.run(ask())


def test_a_client_lists_and_asks_over_standard_input_and_output() -> None:
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "simdx", "mcp", "--panel", "oral-lesions"],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OPENBLAS_NUM_THREADS": "1"},
    )
    names, panels, answer, found = call(
        started,
        ("panels", {}),
        ("classify", {"panel": "oral-lesions", "text": TEXT}),
        ("library_search", {"query": "J45"}),
    )
    assert names == ["classify", "panels", "library_search"]
    assert [p["name"] for p in panels.structured_content["panels"]] == ["oral-lesions"]
    told = answer.structured_content
    assert told["label"] == "oral mucocele"
    assert told["decision"]["action"]
    assert told["disclaimer"]
    assert "bronchial asthma" in [c["name"] for c in found.structured_content["conditions"]]


def test_bad_input_is_said_and_a_path_is_no_panel(tmp_path: Path) -> None:
    _, path, empty, many = call(
        server({"oral-lesions": "oral-lesions"}),
        ("classify", {"panel": str(tmp_path), "text": TEXT}),
        ("classify", {"panel": "oral-lesions", "text": " "}),
        ("library_search", {"query": "asthma", "most": 1_000}),
    )
    said = [reply.content[0].text for reply in (path, empty, many)]
    assert all(reply.is_error for reply in (path, empty, many))
    assert "choose a panel of oral-lesions" in said[0]
    assert "empty" in said[1]
    assert "from 1 to 50" in said[2]


def test_an_unforeseen_failure_does_not_quote_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError(TEXT)

    monkeypatch.setattr("simdx.classifier.Classifier.infer", fails)
    _, reply = call(
        server({"oral-lesions": "oral-lesions"}), ("classify", {"panel": "oral-lesions", "text": TEXT})
    )
    assert reply.is_error
    assert TEXT not in reply.content[0].text


def test_an_embedder_elsewhere_needs_permission() -> None:
    with pytest.raises(NotAllowed):
        server({"oral-lesions": "oral-lesions"}, embedder="openai:m@https://api.example.org/v1")
