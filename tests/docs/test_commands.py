"""Every `simdx` command line in README and documentation has verbs and options that exist.

Pages write commands in code blocks and in passing. Both may hold what is no argument: a comment, a
placeholder (`…`), brackets around what is optional, bars between alternatives. What is left must exist.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from simdx.cli.main import program
from tests.conftest import ROOT

_FENCED = re.compile(r"^```(?:\w+)?[^\n]*\n(.*?)^```", re.M | re.S)
_INDENTED = re.compile(r"^(?: {4,}|\t)(.*)$", re.M)
_INLINE = re.compile(r"(?<!`)`(simdx [^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_PROGRAM = re.compile(r"(?:^|&& |\$ |docker compose run --rm )(simdx .*)$")


@dataclass(frozen=True)
class Command:
    page: Path
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.name}: {' '.join(self.words)}"


def commands_of(page: Path) -> list[Command]:
    """Every command line of a page, alternatives written out."""
    text = page.read_text(encoding="utf-8")
    blocks = [*_FENCED.findall(text), "\n".join(_INDENTED.findall(_FENCED.sub("", text)))]
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", " ", block).splitlines()]
    found = [m[1] for line in lines if (m := _PROGRAM.search(line.strip()))]
    found += [" ".join(m.split()) for m in _INLINE.findall(_FENCED.sub("", text))]
    return [Command(page, words) for line in found for words in _alternatives(_words(line))]


def _words(line: str) -> list[str]:
    # Two blanks and more separate a command from a remark beside it, as does a comment sign.
    line = re.split(r"\s#\s|\s{2,}|\s→\s", line.strip())[0]
    line = re.sub(r"[\[\]]", " ", line)
    try:
        words = shlex.split(line)
    except ValueError:  # an apostrophe in words beside the command
        words = line.split()
    redirected = next((i for i, w in enumerate(words) if w in (">", "|", "&&")), len(words))
    return [w for w in words[1:redirected] if w not in ("…", "...", "&", "\\")]


def _alternatives(words: list[str]) -> Iterator[tuple[str, ...]]:
    """`abi train|report` is two commands; a bar after the verb stands between values."""
    verbs = next((i for i, w in enumerate(words) if not re.fullmatch(r"[a-z][a-z|]*", w)), len(words))
    spread: list[list[str]] = [[]]
    for i, word in enumerate(words):
        options = word.split("|") if i < min(verbs, 2) else [word]
        spread = [[*front, option] for front in spread for option in options]
    yield from (tuple(s) for s in spread)


def problem_with(command: Command, root: Any) -> str | None:
    """What the program would not understand of it, or None."""
    here, words = root, list(command.words)
    while getattr(here, "commands", None) is not None and words and not words[0].startswith("-"):
        name = words.pop(0).rstrip(",.;:")
        if name not in here.commands:
            return f"there is no verb '{name}'"
        here = here.commands[name]
    known = {spelt: p for p in here.params for spelt in (*p.opts, *p.secondary_opts)} | {"--help": None}
    places = 0
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            places += 1
            continue
        name, _, value = word.partition("=")
        name = name.rstrip(",.;:")
        if name not in known:
            return f"there is no option '{name}'"
        option = known[name]
        if option is not None and not option.is_flag and not value:
            if not words and command.page.suffix == ".md" and len(command.words) > 3:
                continue  # mentioned in passing, as in `simdx bank show DIR --map`
            if words and words[0].startswith("--"):
                return f"the option '{name}' has no value"
            while words and not words[0].startswith("--"):
                words.pop(0)
                if not (option.multiple and words and "=" in words[0]):
                    break
    room = [p for p in getattr(here, "params", []) if p.param_type_name == "argument"]
    if getattr(here, "commands", None) is None and places > len(room) and all(p.nargs == 1 for p in room):
        return f"{places} arguments where it takes {len(room)}"
    return None


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
