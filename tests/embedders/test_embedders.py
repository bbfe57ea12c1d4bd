"""What is particular to an embedder; what holds of all of them is in tests/contracts."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wordllama import WordLlama

from simdx.bank.files import packaged_bank
from simdx.embedders import chunks, embed_cached, embed_texts, get_embedder
from simdx.embedders.base import WordLlamaEmbedder
from simdx.embedders.sentence import SentenceEmbedder
from simdx.errors import BadInput
from simdx.models.fetch import locate
from simdx.panels import PACKAGED, load_source

TEXTS = ["A firm ulcer of the tongue with a rolled edge.", "Water flows under the bridge.", "?!"]


def test_the_sentence_encoder_reads_dense_text_whole_and_gives_the_old_vectors() -> None:
    embedder = get_embedder("minilm")
    # 150 words of numbers are far more than 256 tokens: the piece must be halved, not cut.
    dense = " ".join(f"{i}.{i * 7 % 97}mg/dL" for i in range(140))
    a, b = embed_texts(embedder, [dense + " tongue ulcer", dense + " engine oil leak"])
    assert np.linalg.norm(a - b) > 1e-3
    # Made with sentence-transformers 5.7: the recorded figures rest on these.
    vector = embed_texts(embedder, TEXTS[:1])[0]
    assert np.allclose(vector[:6], [-0.008026, -0.03981, -0.04678, 0.073644, -0.081358, 0.011926], atol=1e-5)


@pytest.mark.parametrize(
    "texts", [[*TEXTS, "", "a [SEP] b", "ΏÄŒ 舌の潰瘍 \u202e🙂\x00"], ["a b", "12.5mg/dL " * 150]]
)
def test_minilm_without_torch_has_the_librarys_vectors(texts: list[str]) -> None:
    theirs = SentenceEmbedder("minilm")
    assert get_embedder("minilm").id == theirs.id
    assert np.abs(get_embedder("minilm").embed_batch(texts) - theirs.embed_batch(texts)).max() < 1e-5


def test_minilm_for_one_text_imports_no_torch() -> None:
    locate("minilm")
    job = "import sys; from simdx.embedders import get_embedder as g; g('minilm').embed_batch(['a'])"
    command = [sys.executable, "-c", f"{job}; print('torch' in sys.modules)"]
    done = subprocess.run(command, capture_output=True)
    assert done.stdout.strip() == b"False", done.stderr


def test_a_joint_cosine_is_the_mean_of_cosines() -> None:
    joint = embed_texts(get_embedder("wordllama+hashing"), TEXTS[:2])
    parts = [embed_texts(get_embedder(n), TEXTS[:2]) for n in ("wordllama", "hashing")]
    assert joint[0] @ joint[1] / 2 == pytest.approx(np.mean([p[0] @ p[1] for p in parts]), abs=1e-6)


def test_bank_embeddings_are_cached_by_content(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = get_embedder("hashing")
    first = embed_cached(embedder, TEXTS)
    assert len(list((private_home / "embeddings").iterdir())) == 1
    monkeypatch.setattr(type(embedder), "embed_batch", lambda *_: pytest.fail("the cache was not used"))
    assert np.array_equal(embed_cached(embedder, TEXTS), first)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty part"), ("wordllama+", "empty part"), ("+", "empty part"), ("hashing+hashing", "twice"),
        ("/no/such/folder", "neither a folder nor a hub name"),
        ("bert", "unknown embedder 'bert': choose wordllama, minilm"),  # and is not looked for
    ],
)  # fmt: skip
def test_what_names_no_embedder_is_one_line(name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        get_embedder(name)


# --------------------------------------------------------------------------- wordllama's memory of words


@pytest.fixture(scope="module")
def library() -> WordLlama:
    return WordLlama.load(cache_dir=locate("wordllama"), disable_download=True)


@pytest.mark.parametrize("panel", PACKAGED)
def test_packaged_texts_have_the_librarys_vectors(library: WordLlama, panel: str) -> None:
    pieces = [piece for text in packaged_bank(load_source(panel)).texts for piece in chunks(text)]
    own, theirs = WordLlamaEmbedder().embed_batch(pieces), library.embed(pieces, norm=False, batch_size=64)
    assert np.abs(own - theirs).max() < 1e-5 * np.abs(theirs).max()


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=120))
@example("a </s> tongue")  # markers are cut out of a text before its words are
@example("<s>")
def test_any_text_has_the_librarys_vector(library: WordLlama, text: str) -> None:
    pieces = chunks(text)
    own, theirs = get_embedder("wordllama").embed_batch(pieces), library.embed(pieces, norm=False)
    assert np.abs(own - theirs).max() <= 1e-5 * max(1.0, float(np.abs(theirs).max()))


def test_a_full_memory_starts_anew(library: WordLlama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdx.embedders.base.KEPT_WORDS", 8)
    embedder = WordLlamaEmbedder()
    texts = ["one two three four five", "six seven eight nine ten", " ".join(f"word{i}" for i in range(30))]
    for text in texts * 2:
        assert np.allclose(embedder.embed_batch([text]), library.embed([text], norm=False), atol=1e-5)
