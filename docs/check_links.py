"""Every relative link in the Markdown files leads to a file that exists. Run by `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def broken_links() -> list[str]:
    folders = (ROOT / "docs", ROOT / "results")
    pages = [ROOT / "README.md", *(page for folder in folders for page in sorted(folder.rglob("*.md")))]
    out = []
    for page in pages:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                out.append(f"{page.relative_to(ROOT)}: {target}")
    return out


if __name__ == "__main__":
    found = broken_links()
    print("\n".join(found) or "every link leads somewhere")
    sys.exit(bool(found))
