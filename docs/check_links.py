"""Every relative link of the Markdown files outside the site leads to a file, and every anchor to a heading.

MkDocs checks the pages of `docs/` as it builds them; this checks the README, other pages at the root and
the records, which are read where they lie. Run by `make docs`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*)$", re.M)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


def pages() -> list[Path]:
    folders = ("docs", "results", "benchmarks")
    return [*sorted(ROOT.glob("*.md")), *(p for f in folders for p in sorted((ROOT / f).rglob("*.md")))]


def broken_links(page: Path) -> list[str]:
    """The link targets of a page that are not there, as `page: target`."""
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    out = []
    for target, anchor in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        there = page.parent / target if target else page
        generated = ROOT / "docs/reference/cli.md", *(ROOT / "docs/notebooks").glob("*.ipynb")
        made = {path.with_suffix(".md").resolve() for path in generated}  # pages the site's build makes
        if there.resolve() in made:
            continue
        if not there.exists():
            out.append(f"{page.relative_to(ROOT)}: {target}")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            out.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    return out


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, spelt as GitHub and MkDocs both do."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


if __name__ == "__main__":
    found = [line for page in pages() for line in broken_links(page)]
    print("\n".join(found) or "every link leads somewhere")
    sys.exit(bool(found))
