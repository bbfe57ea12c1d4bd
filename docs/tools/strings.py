"""The strings that users see, and which of them are new: `python docs/tools/strings.py BASE`.

Writes results/strings.csv: file, string, and whether no file of the commit BASE says it. Strings are
what an error, a note, a refusal of the service or a help text is given, and the first line of a verb.
"""

import ast
import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = {
    "BadInput",
    "RunFailed",
    "NotAllowed",
    "MissingExtra",
    "Problem",
    "note",
    "say",
    "Option",
    "Argument",
    "Typer",
}
FEWEST_LETTERS = 12


def strings_in(source: str, verbs: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _name(node.func) in CALLS:
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from filter(_is_said, _words(part))
        elif verbs and isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield (ast.get_docstring(node) or "").partition("\n")[0]


def _name(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def _words(node: ast.AST) -> Iterator[str]:
    """The strings of an expression; one with values in it has `…` for each."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _words(child)


def _is_said(text: str) -> bool:
    return " " in text.strip() and sum(map(str.isalpha, text)) >= FEWEST_LETTERS


def seen(read: dict[str, str]) -> dict[str, str]:
    """Each string with the first file that says it."""
    found: dict[str, str] = {}
    for file, source in sorted(read.items()):
        for text in strings_in(source, "/cli/" in file):
            if text:
                found.setdefault(" ".join(text.split()), file)
    return found


def at(commit: str) -> dict[str, str]:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    names = git("ls-tree", "-r", "--name-only", commit, "src").splitlines()
    return {name: git("show", f"{commit}:{name}") for name in names if name.endswith(".py")}


if __name__ == "__main__":
    files = (ROOT / "src").rglob("*.py")
    now = seen({path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files})
    before = seen(at(sys.argv[1]))
    with (ROOT / "results" / "strings.csv").open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["file", "string", f"new since {sys.argv[1]}"])
        rows.writerows([file, text, "" if text in before else "new"] for text, file in sorted(now.items()))
    print(f"{len(now)} strings, {sum(text not in before for text in now)} new")
