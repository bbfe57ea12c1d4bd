"""Drawings: well-formed, escaped, complete; and what happens without matplotlib."""

import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from simdx.errors import MissingExtra
from simdx.report import page as plots
from simdx.types import Bank


def test_every_drawing_is_well_formed_and_shows_its_words_as_they_are() -> None:
    rng = np.random.default_rng(0)
    p, names = rng.dirichlet(np.ones(3), size=30), ("a <b>", "$x^2$", "c & d")
    bins = {"edges": [0, 0.5, 1], "n": [0, 4], "confidence": [0, 0.8], "accuracy": [0, 0.75]}
    bits = rng.random(20)
    drawings = [
        plots.ternary(p, names, p[0]), plots.ternary_plot(p, rng.integers(3, size=30), names),
        plots.reliability_plot(bins), plots.risk_plot({"coverage": [0.5, 1.0], "risk": [0.0, 0.1]}),
        plots.entropy_plot(bits, bits[:0], None, 1.6),
    ]  # fmt: skip
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "<script" not in drawing
    for drawing in drawings[:2]:
        shown = "".join(ElementTree.fromstring(drawing).itertext())
        assert all(name in shown for name in names)


def test_a_map_names_every_label(toy_bank: Bank) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(toy_bank.texts) + 5, 8)).astype(np.float32)
    drawing = plots.bank_map(replace(toy_bank, labels=("a <b>", "b", "c")), vectors)
    assert "a &lt;b&gt;" in drawing
    assert "background" in drawing


def test_without_matplotlib_a_page_says_so_and_a_file_is_refused(
    toy_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "simdx[report]" in plots.risk_plot({"coverage": [1.0], "risk": [0.1]})
    with pytest.raises(MissingExtra, match=r"simdx\[report\]"):
        plots.bank_map(toy_bank, np.zeros((len(toy_bank.texts), 4), dtype=np.float32))
