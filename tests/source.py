"""Our own source, parsed once a process: what it imports, and which classes implement a protocol."""

import ast
from collections.abc import Collection
from functools import cache

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "simdx"
FILES = sorted(file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py"))


@cache
def trees() -> dict[str, ast.Module]:
    """Path -> tree of every module of the package."""
    return {name: ast.parse((SOURCE / name).read_text(encoding="utf-8")) for name in FILES}


def imported(tree: ast.AST, known: Collection[str] = ()) -> set[str]:
    """Every module that an import names, lazy ones included: of `from a import b`, `a.b` where known."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return found


def packages(tree: ast.AST) -> set[str]:
    return {name.split(".")[0] for name in imported(tree)}


def classes_with(method: str) -> set[str]:
    """Every class that has the method, but for protocols: a new one must join the contract."""
    return {
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and method in {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        and "Protocol" not in {getattr(base, "id", "") for base in node.bases}
    }
