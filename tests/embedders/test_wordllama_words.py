"""The word memory of the default embedder gives the library's own vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdx.bank.files import packaged_bank
from simdx.embedders.base import chunks
from simdx.embedders.wordllama import WordLlamaEmbedder
from simdx.panels import load_source
from simdx.panels.load import PACKAGED


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.mark.parametrize("panel", PACKAGED)
def test_packaged_texts_have_the_librarys_vectors(embedder: WordLlamaEmbedder, panel: str) -> None:
    pieces = [piece for text in packaged_bank(load_source(panel)).texts for piece in chunks(text)]
    own = embedder.embed_batch(pieces)
    library = embedder._model.embed(pieces, norm=False, batch_size=64)
    assert np.abs(own - library).max() < 1e-5 * np.abs(library).max()


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=120))
def test_any_text_has_the_librarys_vector(text: str) -> None:
    embedder = _one()
    for piece in chunks(text):
        own, library = embedder.embed_batch([piece])[0], embedder._model.embed([piece], norm=False)[0]
        assert np.abs(own - library).max() <= 1e-5 * max(1.0, float(np.abs(library).max()))


def test_markers_and_mixed_batches(embedder: WordLlamaEmbedder) -> None:
    texts = ["a </s> tongue", "", "<s>", "an ulcer of the lip"]
    own = embedder.embed_batch(texts)
    assert np.allclose(own, embedder._model.embed(texts, norm=False), atol=1e-5)


def test_a_full_memory_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = WordLlamaEmbedder()
    monkeypatch.setattr("simdx.embedders.wordllama.KEPT_WORDS", 8)
    embedder._forget()
    texts = ["one two three four five", "six seven eight nine ten", " ".join(f"word{i}" for i in range(30))]
    for text in texts * 2:
        assert np.allclose(embedder.embed_batch([text]), embedder._model.embed([text], norm=False), atol=1e-5)


_kept: list[WordLlamaEmbedder] = []


def _one() -> WordLlamaEmbedder:
    if not _kept:
        _kept.append(WordLlamaEmbedder())
    return _kept[0]
