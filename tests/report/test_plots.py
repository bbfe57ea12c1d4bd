"""Plots of several series: well-formed, told apart without colour, escaped."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np

from simdx.report.plots import Estimate, Series, bank_map, interval_plot, line_plot
from simdx.types import Bank


def test_lines_have_styles_of_their_own_and_a_key() -> None:
    drawing = line_plot(
        "t", "x", "y", [Series("a <b>", [0, 1], [0.1, 0.2]), Series("c", [0, 1], [0.3, 0.1], marks=True)]
    )
    root = ElementTree.fromstring(drawing)
    text = drawing
    assert root.tag.endswith("svg")
    for words in ("series s0", "series s1", "a &lt;b&gt;"):
        assert words in text
    assert text.count("<circle") == 2


def test_an_empty_plot_is_still_a_drawing() -> None:
    ElementTree.fromstring(line_plot("t", "x", "y", []))
    ElementTree.fromstring(interval_plot("t", "x", []))


def test_intervals_show_ours_theirs_and_zero() -> None:
    rows = [Estimate("one", 0.1, -0.1, 0.3, theirs=0.2), Estimate("two", None), Estimate("three", 0.2)]
    drawing = interval_plot("t", "x", rows)
    ElementTree.fromstring(drawing)
    assert drawing.count("<circle") == 2
    assert drawing.count('class="theirs"') == 1
    assert drawing.count('class="span s0"') == 1
    assert 'class="ideal"' in drawing


def test_values_beyond_the_axis_stay_inside_it() -> None:
    drawing = interval_plot("t", "x", [Estimate("one", 5.0, 4.0, 9.0)], x=(0.0, 1.0))
    root = ElementTree.fromstring(drawing)
    width = float(root.attrib["width"])
    dots = [float(e.attrib["cx"]) for e in root.iter() if e.tag.endswith("circle")]
    assert all(x <= width for x in dots)


def test_a_map_has_a_dot_for_every_text_and_stands_alone(toy_bank: Bank) -> None:
    n = len(toy_bank.texts)
    vectors = np.random.default_rng(0).normal(size=(n + 5, 8)).astype(np.float32)
    drawing = bank_map(replace(toy_bank, labels=("a <b>", "b", "c")), vectors)
    root = ElementTree.fromstring(drawing)
    kinds = [e.attrib["class"] for e in root.iter() if e.tag.endswith("circle")]
    assert kinds.count("other") == 5
    assert [kinds.count(f"l{k}") for k in range(3)] == np.bincount(toy_bank.label_index).tolist()
    assert "a &lt;b&gt;" in drawing
    assert "<style>" in drawing
    assert all(len(e.attrib["cx"]) < 8 for e in root.iter() if "cx" in e.attrib)
