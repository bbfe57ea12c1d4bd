"""The command line's reference page, read off the program itself, so that it cannot fall behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = """# Command line

Generated from the program when this site is built. `--json` prints exactly one JSON object on standard
output; progress goes to standard error. Exit codes: 0 done; 2 bad input, with one clear line; 1 a failure
while running (set `SIMDX_DEBUG=1` for its traceback). `--prior a=.2 b=.3` may stand for
`--prior a=.2 --prior b=.3`.
"""


def walk(command: Any, path: tuple[str, ...] = ("simdx",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it, in the order of the help text.

    Typer carries a click of its own, so its classes are known by their shape."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    for name, child in (children or {}).items():
        yield from walk(child, (*path, name))


def render() -> str:
    """The page, in Markdown."""
    import typer

    from simdx.cli.main import program

    root, parts, told = typer.main.get_command(program()), [HEAD], set[str]()
    for path, command in walk(root):
        if path[1] not in told:
            told.add(path[1])
            parts.append(f"## simdx {path[1]}\n\n{_words(root.commands[path[1]].help)}\n")
        parts.append(_section(path, command))
    return "\n".join(parts)


def _section(path: tuple[str, ...], command: Any) -> str:
    arguments = [p for p in command.params if not _is_option(p)]
    options = [p for p in command.params if _is_option(p) and "--help" not in p.opts]
    usage = [*path, *map(_usage, arguments)]
    usage += [f"{p.opts[0]} {_metavar(p)}" for p in options if p.required]
    usage += ["[OPTIONS]"] if options else []
    lines = [f"### {' '.join(path)}", "", _words(command.help), ""] if len(path) > 2 else []
    lines += ["```text", " ".join(usage), "```", ""]
    rows = [(f"`{_usage(p)}`", p, "") for p in arguments] + [(_names(p), p, _default(p)) for p in options]
    if rows:
        cells = [f"| {name} | {_cell(p.help)} | {default} |" for name, p, default in rows]
        lines += ["| | | default |", "|---|---|---|", *cells, ""]
    return "\n".join(lines)


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _usage(parameter: Any) -> str:
    name = _metavar(parameter)
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if not _is_option(parameter):
        return str(parameter.name.upper())
    kind = str(parameter.type_descriptor.annotation)
    return "PATH" if "Path" in kind else "N" if "int" in kind or "float" in kind else "TEXT"


def _names(parameter: Any) -> str:
    spelled = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return spelled
    return f"{spelled} `{_metavar(parameter)}`" + (" (repeatable)" if parameter.multiple else "")


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or callable(value) or value == ():
        return ""
    return f"`{value}`" if not parameter.is_flag else "on"


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _cell(text: str | None) -> str:
    return _words(text).replace("|", "\\|")
