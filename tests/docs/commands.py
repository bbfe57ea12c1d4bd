"""`simdx …` command lines in Markdown: found, taken apart, and compared with the program.

Pages write commands in code blocks and in passing. Both may hold what is no argument: a comment, a
placeholder (`…`), brackets around what is optional, bars between alternatives. What is left must exist.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
