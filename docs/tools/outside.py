"""Files of the repository that the documentation links to and that lie outside `docs/`.

Records, manifests and the changelog stay where they belong in the tree; the site shows them under `tree/` at
the same path. Links are followed from page to page, so that only what is linked is taken along.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

PREFIX = "tree"
_LINK = re.compile(r"(?P<open>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<rest>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def linked_files(root: Path, pages: Iterable[Path]) -> list[Path]:
    """Every file outside `docs/` that can be reached by relative links from these pages, sorted."""
    found: set[Path] = set()
    todo = list(pages)
    while todo:
        page = todo.pop()
        for target in _targets(page):
            if outside(root, target) and target not in found and target.is_file():
                found.add(target)
                if target.suffix == ".md":
                    todo.append(target)
    return sorted(found)


def rewritten(text: str, root: Path, page: Path, site_page: str) -> str:
    """The page's text with every link into or out of the tree pointing to its place on the site.

    `page` is where the text lies in the repository, `site_page` its path on the site (`a/b.md`).
    """

    def place(match: re.Match[str]) -> str:
        target = match["target"]
        if "://" in target or target.startswith(("/", "mailto:")):
            return match[0]
        real = (page.parent / target).resolve()
        if not real.is_file() or not (outside(root, real) or outside(root, page)):
            return match[0]
        there = os.path.relpath(site_path(root, real), os.path.dirname(site_page) or ".")
        return f"{match['open']}{Path(there).as_posix()}{match['rest'] or ''}"

    parts, start = [], 0
    for fence in _FENCE.finditer(text):  # what stands in a code block is not a link
        parts += [_LINK.sub(place, text[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, _LINK.sub(place, text[start:])])


def site_path(root: Path, file: Path) -> str:
    """Where a file of the repository is on the site."""
    if not outside(root, file):
        return file.relative_to(root / "docs").as_posix()
    path = file.relative_to(root)
    if path.name == "README.md":  # MkDocs takes a README for the folder's index
        path = path.with_name("index.md")
    # A browser shows .txt and hands anything it does not know to the disk.
    shown = path.suffix in (".md", ".json", ".svg", ".png", ".csv", ".html")
    return f"{PREFIX}/{path.as_posix()}" + ("" if shown else ".txt")


def outside(root: Path, file: Path) -> bool:
    return file.is_relative_to(root) and not file.is_relative_to(root / "docs")


def _targets(page: Path) -> list[Path]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [m["target"] for m in _LINK.finditer(text)]
    return [(page.parent / t).resolve() for t in targets if "://" not in t and not t.startswith("/")]
