"""The page's files: nothing from elsewhere, nothing inline, colours that can be read."""

import re
from importlib import resources

import pytest
from starlette.testclient import TestClient

STATIC = resources.files("simdx.service") / "static"
FILES = {f.name: f.read_text(encoding="utf-8") for f in STATIC.iterdir()}


def test_every_file_the_page_names_is_served(client: TestClient) -> None:
    assert client.get("/").headers["content-type"].startswith("text/html")
    named = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', FILES["index.html"]))
    for name, text in FILES.items():
        if name.endswith(".js"):
            named |= {"/static/" + n for n in re.findall(r'from "\./([^"]+)"', text)}
    assert len(named) >= 10
    for path in named:
        assert client.get(path).status_code == 200
    tag = client.get("/static/app.js").headers["etag"]
    assert client.get("/static/app.js", headers={"if-none-match": tag}).status_code == 304


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_comes_from_another_host_or_needs_an_unsafe_policy(name: str) -> None:
    text = re.sub(r"http://www\.w3\.org/[\w/]+", "", FILES[name])  # namespaces, never fetched
    assert not re.search(r"https?:|//[a-z]+\.", text.replace("// ", ""))
    if name.endswith(".html"):
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]*src=)|javascript:", text)
    if name.endswith(".js"):
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


def test_ids_are_unique_and_labels_point_somewhere() -> None:
    page = FILES["index.html"]
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'\s(?:for|aria-labelledby)="([^"]+)"', page):
        assert target in ids
    for described in re.findall(r'aria-describedby="([^"]+)"', page):
        assert set(described.split()) <= set(ids)
    for name, text in FILES.items():
        if name.endswith(".js"):
            assert set(re.findall(r'\$\("([\w-]+)"\)', text)) <= set(ids), name


# --------------------------------------------------------------------------- contrast (WCAG 2, AA)


def _themes() -> dict[str, dict[str, str]]:
    css = FILES["style.css"]
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", css)
    out = {}
    for selector, body in blocks:
        colours = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", body))
        out["dark" if "dark" in selector or "not" in selector else "light"] = colours
    return out


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TEXT_PAIRS = [
    ("ink", "surface"), ("ink", "ground"), ("muted", "surface"), ("muted", "ground"), ("accent", "surface"),
    ("accent", "ground"), ("on-accent", "accent"), ("accept", "accept-ground"), ("test", "test-ground"),
    ("review", "review-ground"), ("review", "surface"), ("accept", "surface"), ("muted", "track"),
    *((("mark-ink"), f"m{k}") for k in range(6)),
]  # fmt: skip
SHAPE_PAIRS = [
    ("edge", "surface"), ("accent", "track"), ("rest", "surface"), ("prior", "track"), ("draw", "surface"),
    ("aleatoric", "surface"), ("epistemic", "surface"),
]  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT_PAIRS, 4.5), (SHAPE_PAIRS, 3)], ids=["text", "shapes"])
def test_contrast_meets_aa(theme: str, pairs: list[tuple[str, str]], least: float) -> None:
    assert _contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # it is computed rightly
    colours = _themes()[theme]
    found = {pair: _contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in found.items() if value < least} == {}


def test_the_two_dark_themes_are_the_same() -> None:
    css = FILES["style.css"]
    by_choice = re.search(r':root\[data-theme="dark"\] \{([^}]*)\}', css)
    by_system = re.search(r':root:not\(\[data-theme="light"\]\) \{([^}]*)\}', css)
    assert by_choice
    assert by_system
    assert by_choice.group(1).split() == by_system.group(1).split()
