"""Lexical rows against their definition, by each way they are computed."""

import re

import numpy as np
import pytest

from simdx.abc.space import Apart
from simdx.methods import features, speed
from simdx.methods.features import LEAST_TEXTS, LexicalSpace, Lexicon
from simdx.reading import as_read
from simdx.types import Bank, Float

TEXTS = ["red fruit tree", "red apple fruit", "fruit and tree", "red tree bark", "bark of a tree",
         "a fruit tree in bark", "red bark", "apple of the tree"]  # fmt: skip


def by_definition(texts: list[str]) -> Float:
    """Gram by gram, in plain Python: the oracle for the sparse rows."""

    def grams(text: str) -> list[str]:
        words = [f" {w} " for w in "".join(c if c.isalpha() else " " for c in text.lower()).split()]
        return [w[i : i + n] for w in words for n in (3, 4, 5) for i in range(len(w) - n + 1)]

    held: dict[str, int] = {}
    for text in texts:
        for gram in set(grams(text)):
            held[gram] = held.get(gram, 0) + 1
    kept = sorted(g for g, n in held.items() if n >= LEAST_TEXTS)
    rows = np.zeros((len(texts), len(kept)))
    for row, text in zip(rows, texts, strict=True):
        for gram in set(grams(text)) & set(kept):
            idf = np.log((1 + len(texts)) / (1 + held[gram])) + 1
            row[kept.index(gram)] = (1 + np.log(grams(text).count(gram))) * idf
        row /= max(np.linalg.norm(row), 1e-12)
    return rows


def test_words_are_runs_of_letters_in_every_script() -> None:
    every = "".join(f"ab{chr(code)}cd " for code in range(0x3000))
    assert features.words(every) == re.findall(r"[^\W\d_]+", every.lower())


def unit(rows: Float) -> Float:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(params=["few", "many"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few texts by numpy alone, and many by scipy's products."""
    for module in (features, speed):
        monkeypatch.setattr(module, "many", lambda texts: request.param != "few")


def test_rows_are_those_of_the_definition(toy_bank: Bank, way: None) -> None:
    texts = list(toy_bank.texts)
    rows = by_definition(texts)
    lexicon = Lexicon.of(texts)
    assert np.allclose(lexicon.rows(texts).csr.toarray(), rows, atol=1e-12)
    space = LexicalSpace(lexicon, texts)
    centred = unit(rows - rows.mean(axis=0))
    assert np.allclose(space.bank @ space.bank.T, centred @ centred.T, atol=1e-6)
    together = space.basis.cosines(texts) @ space.project
    assert np.allclose(together, space.bank, atol=1e-6)
    for text, row in zip(texts, together, strict=True):
        assert np.abs((space.basis.cosines([text]) @ space.project)[0] - row).max() < 1e-12
    assert np.all(space.basis.cosines(("1234 ??", "")) == 0)  # unknown words are no evidence


def test_rows_that_stand_apart_have_their_own_mean_taken_out(way: None) -> None:
    apart = np.array([False, False, True, False, True, False, False, True])
    lexicon = Lexicon.of(TEXTS)
    dense = lexicon.rows(TEXTS).csr.toarray()
    own = dense[apart].mean(axis=0)
    space = LexicalSpace(lexicon, TEXTS, Apart(apart, own))
    centred = unit(np.where(apart[:, None], dense - own, dense - dense[~apart].mean(axis=0)))
    assert np.allclose(space.bank @ space.bank.T, centred @ centred.T, atol=1e-9)
    asked = ["a red apple tree", "bark and fruit"]
    new = unit(lexicon.rows(asked).csr.toarray() - own)
    placed = space.basis.cosines(asked) @ space.project
    assert np.allclose(placed @ space.bank.T, new @ centred.T, atol=1e-9)


def test_a_large_archive_leaves_the_simulations_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "LARGEST_BASIS", 6)
    texts = ["red fruit tree", "red apple fruit", "bark of a tree", "apple and bark"]
    beside = [f"a tree with red {word}" for word in ("bark", "fruit", "apple")] * 4
    apart = np.arange(16) >= 4
    lexicon = Lexicon.of([*texts, *beside])
    dense = lexicon.rows([*texts, *beside]).csr.toarray()
    space = LexicalSpace(lexicon, [*texts, *beside], Apart(apart, dense[apart].mean(axis=0)))
    assert space.bank.shape[1] <= 6
    centred = unit(dense[:4] - dense[:4].mean(axis=0))
    assert np.allclose(space.bank[:4] @ space.bank[:4].T, centred @ centred.T, atol=1e-9)


@pytest.mark.parametrize("kept_words", [1000, 9, 2])
def test_products_by_words_are_those_by_grams(
    toy_bank: Bank, kept_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of grams repeated inside a word and between words, and where the memory of words is too small."""
    texts = list(toy_bank.texts)
    lexicon = Lexicon.of(texts, least_texts=1)
    lexicon.take(lexicon.counts(texts))
    monkeypatch.setattr(speed, "KEPT_BYTES", kept_words * 8 * len(texts))
    for start in range(3):
        odd = [f"{texts[0]} {texts[0]} banana bananas redredred", "", "unheard-of xyzzy"]
        cases = [*texts[start::3], *odd] * 4
        assert features.many(len(cases))
        assert np.abs(lexicon.met(cases)[0] - lexicon.products(lexicon.rows(cases))).max() < 1e-12


def test_a_word_that_could_not_be_taken_apart_leaves_none_half_known() -> None:
    refused = ["tree"]

    def pieces(word: str) -> list[str]:
        if word in refused:
            refused.clear()
            raise MemoryError
        return features.grams(word)

    lexicon = Lexicon.of(TEXTS)
    known = Lexicon(lexicon._column, lexicon.idf, pieces)
    with pytest.raises(MemoryError):
        known.rows(["red bark of a tree"])
    expected = lexicon.rows(TEXTS).csr.toarray()
    assert np.allclose(known.rows(TEXTS).csr.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "A soft swelling of the lip. What is it? The patient does not know.",
        "My doctor asked me how long. About two weeks.",
        "",
        "no? never heard of it",
    ],
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert as_read(text)[0] == text
