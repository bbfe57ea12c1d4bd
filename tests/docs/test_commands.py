"""Every `simdx` command line in README and documentation has verbs and options that exist."""

from pathlib import Path

import pytest
import typer

from simdx.cli.main import program
from tests.conftest import ROOT
from tests.docs.commands import Command, commands_of, problem_with

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
COMMANDS = [command for page in PAGES for command in commands_of(page)]
PROGRAM = typer.main.get_command(program())


def test_enough_are_found() -> None:
    verbs = {command.words[0] for command in COMMANDS if command.words}
    assert len(COMMANDS) > 100
    assert set(PROGRAM.commands) <= verbs, "a verb that no page mentions"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_program_understands_every_line(page: Path) -> None:
    wrong = {str(c): problem for c in commands_of(page) if (problem := problem_with(c, PROGRAM))}
    assert not wrong


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("    simdx classify --file case.txt --panel x --prior a=.1 b=.2 --json", None),
        ("`simdx abi train|report`", None),
        ("    simdx serve                      # http://127.0.0.1:8000", None),
        ("    simdx clasify text", "there is no verb 'clasify'"),
        ("    simdx bank biuld --panel x", "there is no verb 'biuld'"),
        ("    simdx classify --file case.txt --pannel x", "there is no option '--pannel'"),
        ("`simdx panel list|shwo`", "there is no verb 'shwo'"),
        ("    simdx classify --file --panel x", "the option '--file' has no value"),
        ("    simdx panel check one.yaml two.yaml", "2 arguments where it takes 1"),
    ],
)
def test_a_mistake_is_found(line: str, problem: str | None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{line}\n", encoding="utf-8")
    commands: list[Command] = commands_of(page)
    assert commands
    found = [p for c in commands if (p := problem_with(c, PROGRAM))]
    assert found == ([] if problem is None else [problem])
