"""The toy panel of the tests: three labels, a bank of six-word texts, and what methods learn from it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from simdx.classifier import Classifier
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.types import Bank, Label, Panel

WORDS = {
    "apple": "red sweet fruit tree orchard juice core peel",
    "river": "water bank current bridge flood boat stream delta",
    "engine": "piston oil fuel gear heat torque motor valve",
}


LIBRARY = tuple(f"quiet library book shelf page {i} paper reader" for i in range(20))  # a background


def toy_panel() -> Panel:
    labels = (Label("apple", aliases=("pome",)), Label("river"), Label("engine", must_not_miss=True))
    return Panel(name="toy", labels=labels, register="plain", embedder="hashing")


def toy_texts(
    per_label: int, seed: int, words: Mapping[str, str] = WORDS
) -> tuple[tuple[str, ...], np.ndarray]:
    """Texts of six words drawn for each label, and the labels' places."""
    rng = np.random.default_rng(seed)
    texts = tuple(" ".join(rng.choice(own.split(), 6)) for own in words.values() for _ in range(per_label))
    return texts, np.repeat(np.arange(len(words)), per_label)


def toy_bank(words: Mapping[str, str] = WORDS, **changes: Any) -> Bank:
    return replace(Bank("toy", tuple(words), *toy_texts(12, 7, words), name="toy"), **changes)


def wide_bank() -> Bank:
    """Each text of the toy bank in three orders, and a background: enough to be calibrated on."""
    bank = toy_bank()
    words = [text.split() for text in bank.texts]
    texts = tuple(" ".join(np.roll(row, i)) for i in range(3) for row in words)
    return replace(bank, texts=texts, label_index=np.tile(bank.label_index, 3), background=LIBRARY)


def panel_data(
    panel: Panel | None = None, bank: Bank | None = None, embedder: str = "hashing", **changes: Any
) -> PanelData:
    """What a method learns from; `changes` are fields of the bank."""
    bank = replace(bank or toy_bank(), **changes)
    return PanelData.prepare(panel or toy_panel(), bank, get_embedder(embedder))


def toy_classifier(bank: Bank | None = None, **settings: Any) -> Classifier:
    return Classifier(toy_panel(), bank or toy_bank(), **settings)
