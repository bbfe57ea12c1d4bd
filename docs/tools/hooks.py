"""MkDocs hooks: pages made when the site is built, and links that leave `docs/`.

The command line's reference is read off the program, notebooks become pages, files of the repository that a
page links to come along under `tree/`, and `llms.txt` is written last, from the navigation.
"""

from __future__ import annotations

import sys
from pathlib import Path

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
_navigation: list[Page] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The results page is made by a benchmark; it enters the navigation where it exists."""
    page = Path(config.docs_dir) / "results.md"
    for section in config.nav or []:
        trust = section.get("Trust") if isinstance(section, dict) else None
        if trust is not None and page.is_file() and {"Results": "results.md"} not in trust:
            trust.insert(0, {"Results": "results.md"})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
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


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _navigation[:] = nav.pages


def on_post_build(config: MkDocsConfig) -> None:
    rows = []
    for page in _navigation:
        section = page.ancestors[-1].title if page.ancestors else "Start"
        rows.append((section, str(page.title), page.url, page.markdown or ""))
    Path(config.site_dir, "llms.txt").write_text(llms_txt.render(rows), encoding="utf-8")
