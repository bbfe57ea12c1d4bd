"""Which room imports which: the table in docs/architecture.md and the code say the same."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "simdx"
FREE = {"types", "errors"}  # every room may use them
_ROW = re.compile(r"^\| (`[^|]+`) \|.*\| ([^|]*) \|$", re.M)


def told() -> dict[str, set[str]]:
    """Room -> the rooms its row of the table lets it import."""
    out: dict[str, set[str]] = {}
    for names, allowed in _ROW.findall((ROOT / "docs/architecture.md").read_text(encoding="utf-8")):
        others = {part.strip() for part in allowed.split(",")} - {"–"}
        for name in re.findall(r"`([\w.]+)/?`", names):
            out[name.removesuffix(".py")] = others
    return out


def done() -> dict[str, set[str]]:
    """Room -> the rooms its modules import anywhere, type checking and lazy imports included."""
    out: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        imports = out.setdefault(room, set())
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "simdx":
                parts = node.module.split(".")
                imports |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                found = (alias.name.split(".") for alias in node.names)
                imports |= {parts[1] for parts in found if parts[0] == "simdx" and len(parts) > 1}
        imports -= {room, "__version__"} | FREE
    return {room: imports for room, imports in out.items() if not room.startswith("__")}


TOLD, DONE = told(), done()


def test_every_room_has_a_row() -> None:
    assert set(DONE) == set(TOLD)


@pytest.mark.parametrize("room", sorted(DONE))
def test_imports_are_those_of_the_table(room: str) -> None:
    if TOLD[room] == {"everything"}:
        return
    together = {name for name in TOLD if TOLD[name] is TOLD[room]}  # rooms that share a row
    used = set().union(*(DONE[name] for name in together)) - together
    assert used == TOLD[room], "docs/architecture.md and the code differ"


def test_the_numerics_stand_alone() -> None:
    for room in ("abc", "metrics"):
        assert not DONE[room]
    assert DONE["models"] == {"disk"}
