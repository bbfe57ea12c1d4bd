"""Which texts to label: from all strata of the scores, spread, the same for the same texts."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from simdx.to_label import read_texts, texts_to_ask
from simdx.types import Bank


def answering(none: np.ndarray, leading: np.ndarray, texts: list[str]) -> SimpleNamespace:
    """A classifier of two labels that answers as told."""

    def infer_batch(asked: list[str]) -> SimpleNamespace:
        rows = [texts.index(text) for text in asked]
        p = np.stack([leading[rows], 1 - leading[rows]], axis=1)
        return SimpleNamespace(posterior=p, out_of_class=none[rows])

    bank = Bank("p", ("a", "b"), (texts[0],), np.zeros(1, dtype=np.int64))
    return SimpleNamespace(infer_batch=infer_batch, bank=bank, panel=SimpleNamespace(names=("a", "b")))


def test_every_stratum_and_the_whole_range_is_asked_about() -> None:
    texts = [f"text number {i}" for i in range(400)]
    none = np.where(np.arange(400) < 360, 0.02, np.where(np.arange(400) < 390, 0.3, 0.97))
    leading = 0.5 + np.linspace(0, 0.5, 400)[np.random.default_rng(0).permutation(400)]
    chosen = texts_to_ask(answering(none, leading, texts), texts, 12)
    assert len(set(chosen)) == 12
    assert 0 not in chosen  # the bank has it
    for stratum in (0.02, 0.3, 0.97):
        asked = np.sum(none[chosen] == stratum)  # of the rare more than their share, of the common less
        assert 2 <= asked <= 7
    inside = leading[[i for i in chosen if none[i] == 0.02]]
    assert inside.min() < 0.7
    assert inside.max() > 0.8
    assert {0.02, 0.3, 0.97} == set(none[chosen[:4]])  # whoever stops early has seen all
    again = texts_to_ask(answering(none, leading, texts), [*texts, texts[5].upper()], 12)
    assert again == chosen  # equal texts count once
    assert texts_to_ask(answering(none, leading, texts), ["", " "], 12) == []
    assert len(texts_to_ask(answering(none, leading, texts), texts[:6], 12)) == 5


def test_texts_come_as_lines_or_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("one\n two \nthree\n")
    assert read_texts(path) == ["one", "two", "three"]
    path.write_text("one\ngoes on\n\ntwo\n\n\n")
    assert read_texts(path) == ["one goes on", "two"]
