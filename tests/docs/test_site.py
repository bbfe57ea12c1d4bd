"""The site builds strictly, asks nobody else for anything, and is complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import simdx
from simdx.cli.main import program
from tests.conftest import ROOT

# What makes a browser fetch something: a link that a reader may follow does not.
_FETCH = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//|@import|url\(["']?https?://"""
)
_LINKED = re.compile(r"""<link[^>]*href=["']?(?:https?:)?//[^>]*>""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    # A proxy that does not exist: a build that reached for the network would fail.
    offline = dict.fromkeys(("https_proxy", "http_proxy"), "http://127.0.0.1:9")
    offline["NO_MKDOCS_2_WARNING"] = "1"
    how = {"env": {**os.environ, **offline}, "capture_output": True, "text": True, "check": False}
    ended = subprocess.run(command, cwd=ROOT, **how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return out


def test_no_page_fetches_from_elsewhere(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(pages) > 30
    for page, text in pages.items():
        linked = [link for link in _LINKED.findall(text) if "stylesheet" in link or "preconnect" in link]
        assert not _FETCH.search(text), page
        assert not linked, page


def test_every_verb_and_every_public_name_is_explained(site: Path) -> None:
    text = (site / "reference/cli.html").read_text(encoding="utf-8")
    root = typer.main.get_command(program())
    for name, command in root.commands.items():
        children = [f"simdx {name} {child}" for child in getattr(command, "commands", ())]
        for path in children or [f"simdx {name}"]:
            assert f"{path}<" in text or f"{path} " in text, path
    assert "--allow-remote" in text
    text = (site / "reference/python.html").read_text(encoding="utf-8")
    for name in simdx.__all__:
        if not name.startswith("__"):
            assert re.search(rf'id="simdx\.[\w.]*{name}"', text), name


def test_what_programs_records_and_pictures_need_comes_along(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# simdx\n")
    addresses = re.findall(r"\]\(([^)]+)\)", text)
    assert "tutorial.html" in addresses
    assert not [a for a in addresses if not (site / a).is_file()]
    assert (site / "tree/results/panels/index.html").is_file()
    drawn = {path.name for path in (ROOT / "docs/pictures").glob("*.svg")}
    pages = "".join(
        page.read_text(encoding="utf-8") for page in [*site.glob("method/*.html"), site / "results.html"]
    )
    shown = set(re.findall(r"pictures/(\w+\.svg)", pages))
    assert drawn == shown
    # Links that lead out of the site.
    subprocess.run([sys.executable, "docs/check_links.py"], cwd=ROOT, check=True, capture_output=True)
