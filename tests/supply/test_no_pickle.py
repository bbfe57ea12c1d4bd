"""The source reads and writes no pickle."""

import ast

import pytest

from tests.conftest import ROOT
from tests.source import packages, trees

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
CALLS = {"read_pickle", "to_pickle"}


def faults(tree: ast.AST) -> list[str]:
    """What in a module could read or write a pickle."""
    found = [f"imports {name}" for name in packages(tree) & MODULES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = getattr(node.func.value, "id", "")
            options = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
            if node.func.attr in CALLS or (owner == "torch" and node.func.attr == "save"):
                found.append(f"calls {node.func.attr}")
            if owner == "torch" and node.func.attr == "load" and options.get("weights_only") is not True:
                found.append("calls torch.load without weights_only=True")
            if options.get("allow_pickle") is True:
                found.append("allows pickle")
    return found


def test_the_source_knows_no_pickle() -> None:
    assert len(trees()) > 100
    contrib = {p.name: ast.parse(p.read_text("utf-8")) for p in (ROOT / "src/simdx_contrib").rglob("*.py")}
    assert contrib
    assert {name: f for name, tree in {**trees(), **contrib}.items() if (f := faults(tree))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('x')",
        "torch.save(m, 'x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "frame.to_pickle('x')",
    ],
)
def test_the_check_sees(source: str) -> None:
    assert faults(ast.parse(source))
