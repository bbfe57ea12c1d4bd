"""Whatever the source imports is declared: in the core install, or in the extra its file belongs to."""

import ast
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.source import packages, trees

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


def declared(lines: list[str]) -> set[str]:
    names = {Requirement(line).name.lower().replace("-", "_") for line in lines}
    return {IMPORTED_AS.get(name, name) for name in names}


def others(tree: ast.AST) -> set[str]:
    return packages(tree) - set(sys.stdlib_module_names) - {"simdx"}


def undeclared(file: str, tree: ast.AST) -> set[str]:
    extras = next((e for path, e in EXTRA_OF.items() if file == path or file.startswith(path + "/")), "")
    own = [line for extra in extras.split() for line in PROJECT["optional-dependencies"][extra]]
    return others(tree) - declared(PROJECT["dependencies"]) - declared(own)


def test_every_import_is_declared() -> None:
    assert len(trees()) > 50
    found = {file: undeclared(file, tree) for file, tree in trees().items()}
    assert {file: names for file, names in found.items() if names} == {}


def test_every_row_of_the_table_is_a_file_that_needs_its_extra() -> None:
    for path, extras in EXTRA_OF.items():
        of_it = [tree for file, tree in trees().items() if file == path or file.startswith(path + "/")]
        used = set().union(*map(others, of_it))
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
    assert undeclared(file, ast.parse(source))
