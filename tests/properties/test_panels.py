"""Panel files: any bytes and any tree are read or refused; what the scaffold writes is read back."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simdx.panels import advice_for, load_panel, load_source, problems_of
from simdx.panels.load import parse_panel, scaffold
from tests.properties.strategies import accepted, bounded, broken_texts, filled_texts, texts, trees

KEYS = ("name", "title", "register", "embedder", "labels", "facets", "banks", "background", "review_rules")
labels = st.lists(
    st.one_of(texts, st.fixed_dictionaries({"name": texts}, optional={"aliases": trees})), max_size=4
)
nearly = st.fixed_dictionaries({"labels": st.one_of(labels, trees)}, optional=dict.fromkeys(KEYS[:4], trees))


def check(path: Path) -> None:
    source = accepted(lambda: load_source(path))
    problems = problems_of(path)
    assert bool(problems) == (source is None)
    if source is None:
        return
    names = source.panel.names
    assert len(names) == len({name.casefold() for name in names}) >= 2
    assert all(name.strip() for name in names)
    assert len(source.panel.hash) == 64
    advice_for(source.panel)


@bounded
@given(st.one_of(nearly, trees))
def test_any_tree(tmp_path: Path, tree: object) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    check(path)
    accepted(lambda: parse_panel(tree, "p.yaml"))


@bounded
@given(texts, st.lists(filled_texts, min_size=2, max_size=5, unique_by=lambda t: t.strip().casefold()))
def test_a_scaffold_is_a_panel(tmp_path: Path, name: str, names: list[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(scaffold(name, dict.fromkeys(names, "")), encoding="utf-8")
    panel = accepted(lambda: load_panel(path))
    if panel is None:  # a control character YAML does not allow, or a name longer than a name
        assert problems_of(path)
    else:
        assert panel.names == tuple(n.strip() for n in names)


@bounded
@given(broken_texts)
def test_half_characters_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "p.yaml"
    broken = json.dumps(name)  # YAML reads JSON's escapes
    for text in (
        f"labels: [{broken}, b]",
        f"labels: [a, b]\ntitle: {broken}",
        f"labels: [a, b]\n{broken}: 1",
    ):
        path.write_text(text)
        assert problems_of(path)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "{a: " * 20_000, "- " * 50_000, "? " * 9_000, "a: |\n" + " " * 200_000]
)
def test_deep_and_long_files_end(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    assert problems_of(path)
