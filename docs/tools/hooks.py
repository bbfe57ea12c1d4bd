"""MkDocs hooks: pages made when the site is built, and links that leave `docs/`.

The command line's reference is read off the program, and notebooks become pages. Files of the repository that
a page links to (records, manifests, the changelog) stay where they belong in the tree; the site shows them
under `tree/` at the same path. `llms.txt` is written last, from the navigation.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cli_reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_navigation: list[Page] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The results page is made by a benchmark; it enters the navigation where it exists."""
    for section in config.nav or []:
        trust = section.get("Trust") if isinstance(section, dict) else None
        if trust is not None and (DOCS / "results.md").is_file() and {"Results": "results.md"} not in trust:
            trust.insert(0, {"Results": "results.md"})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "reference/cli.md", content=cli_reference.render()))
    for notebook in sorted(DOCS.glob("notebooks/*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=as_markdown(notebook)))
    for file in linked_files(DOCS.rglob("*.md")):
        place = site_path(file)
        if file.suffix == ".md":
            text = rewritten(file.read_text(encoding="utf-8"), file, place)
            files.append(File.generated(config, place, content=text))
        else:
            files.append(File.generated(config, place, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = DOCS / page.file.src_uri
    return rewritten(markdown, source, page.file.src_uri) if source.is_file() else markdown


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _navigation[:] = nav.pages


def on_post_build(config: MkDocsConfig) -> None:
    Path(config.site_dir, "llms.txt").write_text(llms_txt(_navigation), encoding="utf-8")


def as_markdown(notebook: Path) -> str:
    """Its words and its code, and a link to the file. Outputs are not kept; the tests run every cell."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).strip()
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    note = f"*A notebook that runs in the tests: [download it]({notebook.name}).*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


# --------------------------------------------------------------------------- files outside docs/

_LINK = re.compile(r"(?P<open>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<rest>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def outside(file: Path) -> bool:
    return file.is_relative_to(ROOT) and not file.is_relative_to(DOCS)


def real(page: Path, target: str) -> Path | None:
    """The file that a relative link leads to."""
    if "://" in target or target.startswith(("/", "mailto:")):
        return None
    file = (page.parent / target).resolve()
    return file if file.is_file() else None


def linked_files(pages: Iterable[Path]) -> list[Path]:
    """Every file outside `docs/` that can be reached by relative links from these pages, sorted."""
    found: set[Path] = set()
    todo = list(pages)
    while todo:
        page = todo.pop()
        for link in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
            file = real(page, link["target"])
            if file is not None and outside(file) and file not in found:
                found.add(file)
                todo += [file] if file.suffix == ".md" else []
    return sorted(found)


def rewritten(text: str, page: Path, site_page: str) -> str:
    """The page's text with every link into or out of the tree pointing to its place on the site.

    `page` is where the text lies in the repository, `site_page` its path on the site (`a/b.md`).
    """

    def place(match: re.Match[str]) -> str:
        file = real(page, match["target"])
        if file is None or not (outside(file) or outside(page)):
            return match[0]
        there = os.path.relpath(site_path(file), os.path.dirname(site_page) or ".")
        return f"{match['open']}{Path(there).as_posix()}{match['rest'] or ''}"

    parts, start = [], 0
    for fence in _FENCE.finditer(text):  # what stands in a code block is not a link
        parts += [_LINK.sub(place, text[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, _LINK.sub(place, text[start:])])


def site_path(file: Path) -> str:
    """Where a file of the repository is on the site."""
    if not outside(file):
        return file.relative_to(DOCS).as_posix()
    path = file.relative_to(ROOT)
    if path.name == "README.md":  # MkDocs takes a README for the folder's index
        path = path.with_name("index.md")
    # A browser shows .txt and hands anything it does not know to the disk.
    shown = path.suffix in (".md", ".json", ".svg", ".png", ".csv", ".html")
    return f"tree/{path.as_posix()}" + ("" if shown else ".txt")


# --------------------------------------------------------------------------- llms.txt

_HEAD = """# simdx

> Calibrated, uncertainty-aware text classification with language models as simulators, for clinical text.
> A language model writes descriptions of each label of a closed panel; approximate Bayesian computation
> compares a case with them and gives a posterior, its uncertainty and a decision. Decision support for
> research, not a medical device. Python 3.11+, Apache-2.0, runs on one machine without a network.

Front doors: `simdx classify TEXT --panel NAME --json` on the command line,
`simdx.Classifier(panel).infer(text)` in Python, `POST /v1/classify` over HTTP (`simdx serve`). Exit code 2
means bad input.
"""
_NOT_PROSE = ("#", "|", "```", ">", "-", "* ", "!", "<", ":::", "    ")


def first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph of prose, without its marks."""
    markdown = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n", markdown):
        if block.strip("\n") and not block.lstrip("\n").startswith(_NOT_PROSE):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.?]) ", plain.replace("*", "").replace("`", ""))[0].rstrip(":")
    return ""


def llms_txt(pages: Iterable[Page]) -> str:
    """What the project is and where each page of the navigation is, for programs that read."""
    lines, section = [_HEAD], None
    for page in pages:
        group = page.ancestors[-1].title if page.ancestors else "Start"
        if group != section:
            lines += ["", f"## {group}\n"]
            section = group
        said = first_sentence(page.markdown or "")
        lines.append(f"- [{page.title}]({page.url})" + (f": {said}" if said else ""))
    return "\n".join(lines) + "\n"
