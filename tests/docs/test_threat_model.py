"""Every line of the threat model's tables names a test that exists."""

import ast
import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| asset |")]


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 40
    for row in ROWS:
        cells = row.strip("|").split("|")
        assert len(cells) == 4, row
        assert all(cell.strip() for cell in cells), row
        assert re.findall(r"`tests/[\w/]+\.py::test_\w+`", cells[3]), row


def test_the_tests_are_there() -> None:
    named: dict[str, set[str]] = {}
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE):
        named.setdefault(path, set()).add(name)
    for path, names in named.items():
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        found = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert names <= found, f"{path} has no {names - found}"
