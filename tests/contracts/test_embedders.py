"""One suite for every embedder; chunking is tested here once, around them."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.egress import admit
from simdx.embedders import Embedder, chunks, embed_texts, get_embedder
from simdx.embedders.base import CHUNK_WORDS, LONGEST_WORD
from simdx.models.fetch import locate
from simdx.types import Float
from tests.contracts.canary import Canary
from tests.properties.strategies import few, texts
from tests.source import classes_with

TEXTS = [
    "A firm ulcer of the tongue with a rolled edge.",
    "Water flows under the bridge.",
    "舌の潰瘍が三か月治らない。" * 30,  # more tokens than an encoder takes at once
    "e\u0301migré 🙂 \u202eright-to-left\u202c \x00 control",
    "word " * 400,
    "?!",
]
HERE = ("hashing", "wordllama", "minilm", "wordllama+hashing")
FOLDER = "a folder of sentence-transformers"
SERVED = "a server on this machine"


@pytest.fixture(scope="module")
def server() -> Iterator[Canary]:
    with Canary() as listening:
        yield listening


@pytest.fixture(params=[*HERE, FOLDER, SERVED])
def embedder(request: pytest.FixtureRequest, server: Canary) -> Embedder:
    return get_embedder(named(request.param, server))


def named(kind: str, server: Canary) -> str:
    return {SERVED: server.model("127.0.0.1"), FOLDER: str(locate("minilm"))}.get(kind, kind)


def unit(vectors: Float, blocks: tuple[int, ...]) -> bool:
    """Every block of every row has length one, or none where a text says nothing."""
    parts = np.split(vectors, np.cumsum(blocks)[:-1], axis=1)
    lengths = np.array([np.linalg.norm(part, axis=1) for part in parts])
    return bool((np.isclose(lengths, 1, atol=1e-4) | (lengths == 0)).all())


def test_the_contract_knows_every_embedder(server: Canary) -> None:
    kinds = {type(get_embedder(named(name, server))).__name__ for name in (*HERE, FOLDER, SERVED)}
    assert kinds == classes_with("embed_batch")


def test_vectors_are_finite_and_of_unit_blocks(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.id
    assert embedder.remote is False
    assert admit(embedder, False) is embedder
    vectors = embed_texts(embedder, TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), sum(embedder.blocks)), np.float32)
    assert np.isfinite(vectors).all()
    assert unit(vectors, embedder.blocks)
    assert (np.linalg.norm(vectors, axis=1) > 0.9).all()  # none of these says nothing
    assert embed_texts(embedder, []).shape == (0, sum(embedder.blocks))


@few
@given(st.lists(texts, max_size=4), st.sampled_from(["hashing", "wordllama"]))
def test_any_text_has_a_vector_and_its_chunks_lose_nothing(cases: list[str], name: str) -> None:
    vectors = embed_texts(get_embedder(name), cases)
    assert vectors.shape[0] == len(cases)
    assert np.isfinite(vectors).all()
    assert unit(vectors, get_embedder(name).blocks)
    for case in cases:
        assert "".join(chunks(case)).replace(" ", "") == "".join(case.split())
        assert all(len(c.split()) <= CHUNK_WORDS for c in chunks(case))
        assert max((len(w) for c in chunks(case) for w in c.split()), default=0) <= LONGEST_WORD


def test_a_vector_does_not_depend_on_the_batch(embedder: Embedder) -> None:
    together = embed_texts(embedder, TEXTS[:4])
    alone = np.concatenate([embed_texts(embedder, [t]) for t in TEXTS[:4]])
    backwards = embed_texts(embedder, TEXTS[:4][::-1])[::-1]
    assert np.allclose(together, alone, atol=2e-5)
    assert np.allclose(together, backwards, atol=2e-5)


def test_the_end_of_a_long_text_counts(embedder: Embedder) -> None:
    """A text cut at the embedder's window would not notice what is said at its end."""
    start = "The patient is well and has no complaint. " * 45
    a, b = embed_texts(embedder, [start + "apple orchard juice " * 60, start + "motor engine piston " * 60])
    assert np.linalg.norm(a - b) > 0.05


@pytest.mark.parametrize("name", HERE)
def test_an_embedder_here_stays_here(name: str, request: pytest.FixtureRequest) -> None:
    embedder = get_embedder(name)  # weights may have to be fetched; a text may not leave
    request.getfixturevalue("no_network")
    assert len(embed_texts(embedder, TEXTS[:1])) == 1
