"""MkDocs hooks: pages made when the site is built, and links that leave `docs/`.

The command line's reference is read off the program, notebooks become pages, files of the repository that a
page links to come along under `tree/`, and `llms.txt` is written last, from the navigation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cli_reference
import llms_txt
import notebooks
import outside

ROOT = Path(__file__).resolve().parents[2]
_pages: list[tuple[str, str, str, str]] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The results page is made by a benchmark; it enters the navigation where it exists."""
    page = Path(config.docs_dir) / "results.md"
    for section in config.nav or []:
        trust = section.get("Trust") if isinstance(section, dict) else None
        if trust is not None and page.is_file() and {"Results": "results.md"} not in trust:
            trust.insert(0, {"Results": "results.md"})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    _pages.clear()
    files.append(File.generated(config, "reference/cli.md", content=cli_reference.render()))
    for notebook in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        page = notebooks.as_markdown(notebook)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=page))
    for file in outside.linked_files(ROOT, sorted((ROOT / "docs").rglob("*.md"))):
        place = outside.site_path(ROOT, file)
        if file.suffix == ".md":
            text = outside.rewritten(file.read_text(encoding="utf-8"), ROOT, file, place)
            files.append(File.generated(config, place, content=text))
        else:
            files.append(File.generated(config, place, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = Path(config.docs_dir) / page.file.src_uri
    if source.is_file():
        markdown = outside.rewritten(markdown, ROOT, source, page.file.src_uri)
    return markdown


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    if page.ancestors or page.is_homepage:
        group = page.ancestors[-1].title if page.ancestors else "Start"
        _pages.append((group, str(page.title), page.url or "index.html", page.markdown or ""))


def on_post_build(config: MkDocsConfig) -> None:
    Path(config.site_dir, "llms.txt").write_text(llms_txt.render(_pages), encoding="utf-8")
