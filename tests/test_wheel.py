"""The wheel, installed in a clean environment away from the checkout, does the main job."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_wheel_classifies(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT, cwd=tmp_path)
    wheel = next((tmp_path / "dist").glob("*.whl"))
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    constraints = ROOT / "requirements" / "constraints.txt"
    run(python, "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=tmp_path)
    simdx = tmp_path / "env" / "bin" / "simdx"
    panels = json.loads(run(simdx, "panel", "list", "--json", cwd=tmp_path))["panels"]
    assert {p["name"] for p in panels} == {"oral-lesions", "symptom-to-diagnosis", "case-reports"}
    for name in (p["name"] for p in panels):
        case = "Fever for three days with pain behind the eyes and a rash."
        answer = json.loads(run(simdx, "classify", case, "--panel", name, "--json", cwd=tmp_path))
        assert sum(answer["posterior"].values()) == pytest.approx(1)
    run(simdx, "classify", "A bluish lip.", "--panel", "oral-lesions", "--html", "a.html", cwd=tmp_path)
    run(simdx, "review", "make", "--data", "oral-lesions", "--out", "forms", "--sample", "5", cwd=tmp_path)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "class='bars'" in page
    assert "simdx[report]" in page  # in the place of the one drawing that needs matplotlib
    packages = run(python, "-m", "pip", "list", cwd=tmp_path).lower()
    assert "jinja2" in packages
    assert "matplotlib" not in packages
    # the core install: torch is asked for by name only, and its absence is one clear line
    asked = [simdx, "classify", "x", "--panel", "oral-lesions", "--embedder", "mpnet"]
    lacking = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lacking.returncode == 2
    assert "simdx[sentence]" in lacking.stderr
