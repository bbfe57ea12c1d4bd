"""Whatever the source imports is declared: in the core install, or in the extra its file belongs to."""

import ast
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT

SOURCE = ROOT / "src" / "simdx"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Which extra a file needs; a file under none of these runs with the core install.
EXTRA_OF = {
    "bank_score.py": "report", "cli/serve.py": "mcp", "report/page.py": "report",
    "amortised/train.py": "abi", "simulators/llamacpp.py": "local",
    "bank/exchange.py": "eval", "bench": "bench", "rows.py": "eval",
    "methods/fitted.py": "eval",
    "embedders/sentence.py": "sentence quality", "evaluate.py": "eval",
    "egress.py": "openai",
    "scale": "scale", "service": "service", "simulators/openai.py": "openai",
    "simulators/transformers.py": "transformers",
}  # fmt: skip
IMPORTED_AS = {"pyyaml": "yaml", "google_re2": "re2", "scikit_learn": "sklearn"}
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def declared(lines: list[str]) -> set[str]:
    names = {Requirement(line).name.lower().replace("-", "_") for line in lines}
    return {IMPORTED_AS.get(name, name) for name in names}


def imported(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found - set(sys.stdlib_module_names) - {"simdx"}


def undeclared(file: str, source: str) -> set[str]:
    extras = next((e for path, e in EXTRA_OF.items() if file == path or file.startswith(path + "/")), "")
    own = [line for extra in extras.split() for line in PROJECT["optional-dependencies"][extra]]
    return imported(source) - declared(PROJECT["dependencies"]) - declared(own)


def test_every_import_is_declared() -> None:
    assert len(FILES) > 50
    found = {file: undeclared(file, (SOURCE / file).read_text("utf-8")) for file in FILES}
    assert {file: names for file, names in found.items() if names} == {}


def test_every_row_of_the_table_is_a_file_that_needs_its_extra() -> None:
    for path, extras in EXTRA_OF.items():
        files = [f for f in FILES if f == path or f.startswith(path + "/")]
        used = set().union(*(imported((SOURCE / f).read_text("utf-8")) for f in files))
        for extra in extras.split():
            assert used & declared(PROJECT["optional-dependencies"][extra]), (path, extra)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("answer.py", "import torch"),
        ("service/app.py", "from jose import jwt"),
        ("embedders/sentence.py", "def f():\n    import datasets.config"),
    ],
)
def test_the_check_sees(file: str, source: str) -> None:
    assert undeclared(file, source)
