"""Every embedder passes one contract; chunking, joining and caching are tested once, around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simdx.embedders import chunks, embed_cached, embed_texts, get_embedder
from simdx.embedders.base import CHUNK_WORDS, LONGEST_WORD
from simdx.errors import BadInput

TEXTS = [
    "A firm ulcer of the tongue with a rolled edge.",
    "Water flows under the bridge.",
    "舌の潰瘍が三か月治らない。" * 60,
    "e\u0301migré 🙂 \u202eright-to-left\u202c \x00 control",
    "word " * 1000,
    "?!",
]


@pytest.fixture(params=["wordllama", "hashing", "wordllama+hashing", "minilm"])
def embedder(request: pytest.FixtureRequest):
    return get_embedder(request.param)


def test_contract(embedder) -> None:
    vectors = embed_texts(embedder, TEXTS)
    assert vectors.shape == (len(TEXTS), sum(embedder.blocks))
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    start = 0
    for width in embedder.blocks:
        block = vectors[:, start : start + width]
        assert np.allclose(np.linalg.norm(block, axis=1), 1, atol=1e-5)
        start += width
    assert embed_texts(embedder, []).shape == (0, sum(embedder.blocks))


def test_a_vector_does_not_depend_on_the_batch(embedder) -> None:
    together = embed_texts(embedder, TEXTS[:4])
    alone = np.concatenate([embed_texts(embedder, [t]) for t in TEXTS[:4]])
    reversed_ = embed_texts(embedder, TEXTS[:4][::-1])[::-1]
    assert np.allclose(together, alone, atol=2e-5)
    assert np.allclose(together, reversed_, atol=2e-5)


def test_the_end_of_a_long_text_counts(embedder) -> None:
    """A text cut at the embedder's window would not notice what is said at its end."""
    start = "The patient is well and has no complaint. " * 120
    a, b = embed_texts(embedder, [start + "apple orchard juice " * 60, start + "motor engine piston " * 60])
    assert np.linalg.norm(a - b) > 0.05


def test_the_sentence_encoder_reads_dense_text_whole() -> None:
    """150 words of numbers are far more than 256 tokens: the piece must be halved, not cut."""
    embedder = get_embedder("minilm")
    dense = " ".join(f"{i}.{i * 7 % 97}mg/dL" for i in range(140))
    a, b = embed_texts(embedder, [dense + " tongue ulcer", dense + " engine oil leak"])
    assert np.linalg.norm(a - b) > 1e-3


def test_a_new_version_of_the_library_gives_the_old_vectors() -> None:
    """Made with sentence-transformers 5.7: the recorded figures rest on these."""
    vector = embed_texts(get_embedder("minilm"), TEXTS[:1])[0]
    assert np.allclose(vector[:6], [-0.008026, -0.03981, -0.04678, 0.073644, -0.081358, 0.011926], atol=1e-5)


def test_chunks_lose_nothing() -> None:
    for text in TEXTS:
        assert "".join("".join(chunks(text)).split()) == "".join(text.split())
        assert all(len(c.split()) <= CHUNK_WORDS for c in chunks(text))
    assert max(len(w) for c in chunks("x" * 10_000) for w in c.split()) == LONGEST_WORD
    assert chunks("") == [""]


def test_a_joint_cosine_is_the_mean_of_cosines() -> None:
    joint = embed_texts(get_embedder("wordllama+hashing"), TEXTS[:2])
    parts = [embed_texts(get_embedder(n), TEXTS[:2]) for n in ("wordllama", "hashing")]
    assert joint[0] @ joint[1] / 2 == pytest.approx(np.mean([p[0] @ p[1] for p in parts]), abs=1e-6)


def test_bank_embeddings_are_cached_by_content(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = get_embedder("hashing")
    first = embed_cached(embedder, TEXTS)
    files = list((private_home / "embeddings").iterdir())
    assert len(files) == 1
    monkeypatch.setattr(type(embedder), "embed_batch", lambda *_: pytest.fail("the cache was not used"))
    assert np.array_equal(embed_cached(embedder, TEXTS), first)
    monkeypatch.undo()
    files[0].write_bytes(b"damaged")
    assert np.array_equal(embed_cached(embedder, TEXTS), first)  # made again, silently


@pytest.mark.parametrize("name", ["", "wordllama+", "+", "hashing+hashing"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(BadInput):
        get_embedder(name)


def test_an_unknown_folder_is_one_line() -> None:
    with pytest.raises(BadInput, match="could not be loaded"):
        get_embedder("/no/such/folder")


def test_a_bare_unknown_name_is_refused_without_looking_for_it() -> None:
    with pytest.raises(BadInput, match="unknown embedder 'bert': choose wordllama, minilm"):
        get_embedder("bert")
