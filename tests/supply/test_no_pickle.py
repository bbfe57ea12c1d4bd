"""No pickle is read or written: not in the source, and not while the main jobs run."""

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
CALLS = {"read_pickle", "to_pickle"}
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def faults(source: str) -> list[str]:
    """What in a module could read or write a pickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"imports {name}" for name in names if name.split(".")[0] in MODULES]
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
    assert len(SOURCES) > 150
    assert {path.name: f for path in SOURCES if (f := faults(path.read_text("utf-8")))} == {}


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
    assert faults(source)


def watched(folder: Path, *options: str) -> dict:
    environment = {**os.environ, "SIMDX_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("pickle_watch.py")), str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_nothing_is_pickled_while_the_main_jobs_run(tmp_path: Path) -> None:
    seen = watched(tmp_path)
    assert set(seen["codes"].values()) == {0}, seen["codes"]
    assert seen["found"] == []
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        start = path.read_bytes()[:2]
        assert not (start[:1] == b"\x80" and start[1:] <= b"\x05"), path.name
        assert not zipfile.is_zipfile(path), path.name


@pytest.mark.slow
def test_the_watch_sees(tmp_path: Path) -> None:
    found = watched(tmp_path, "--plant")["found"]
    assert any(line.startswith("unpickled") for line in found)
    assert any(line.startswith("pickle.dumps") for line in found)
