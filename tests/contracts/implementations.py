"""The classes that implement a protocol, found in the source: a new one must join its contract."""

import ast

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "simdx"


def modules() -> dict[str, ast.Module]:
    """Path -> tree of every module of the package."""
    found = sorted(SOURCE.rglob("*.py"))
    return {f.relative_to(SOURCE).as_posix(): ast.parse(f.read_text(encoding="utf-8")) for f in found}


def classes_with(method: str) -> dict[str, ast.ClassDef]:
    """Name -> every class that has the method, but for protocols."""
    return {
        node.name: node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and method in {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        and "Protocol" not in {getattr(base, "id", "") for base in node.bases}
    }
