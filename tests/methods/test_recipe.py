"""The shipped recipe: lexical rows, self-consistency, Bayes' rule in the prior, and none of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simdx import BadInput, Classifier, Prior
from simdx.abc import exact
from simdx.embedders import get_embedder
from simdx.fitting import fit_method
from simdx.methods import Material, Settings
from simdx.methods.comparison import self_consistent_bias
from simdx.methods.lexical import LEAST_TEXTS, LexicalSpace, Lexicon
from simdx.methods.outside import Outside
from simdx.types import Bank, Panel

CASES = ("red sweet fruit from the orchard", "the boat on the water", "motor oil and a broken piston", "??")


def dense_tfidf(texts: list[str]) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """The definition, gram by gram, in plain Python: the oracle for the sparse rows."""

    def grams(text: str) -> list[str]:
        words = [f" {w} " for w in "".join(c if c.isalpha() else " " for c in text.lower()).split()]
        return [w[i : i + n] for w in words for n in (3, 4, 5) for i in range(len(w) - n + 1)]

    held: dict[str, int] = {}
    for text in texts:
        for gram in set(grams(text)):
            held[gram] = held.get(gram, 0) + 1
    kept = sorted(g for g, n in held.items() if n >= LEAST_TEXTS)
    column = {g: i for i, g in enumerate(kept)}
    rows = np.zeros((len(texts), len(kept)))
    for row, text in zip(rows, texts, strict=True):
        for gram in set(grams(text)) & set(kept):
            idf = np.log((1 + len(texts)) / (1 + held[gram])) + 1
            row[column[gram]] = (1 + np.log(grams(text).count(gram))) * idf
        row /= max(np.linalg.norm(row), 1e-12)
    return column, rows, rows - rows.mean(axis=0)


def test_lexical_rows_against_the_definition(toy_bank: Bank) -> None:
    texts = list(toy_bank.texts)
    _, rows, centred = dense_tfidf(texts)
    lexicon = Lexicon(texts)
    assert np.allclose(lexicon.rows(texts).toarray(), rows, atol=1e-12)
    space = LexicalSpace(lexicon, texts)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    assert np.allclose(space.bank @ space.bank.T, unit @ unit.T, atol=1e-4)
    assert np.allclose(space.transform(tuple(texts)), space.bank, atol=1e-4)


def test_a_text_of_unknown_words_is_no_evidence(toy_bank: Bank) -> None:
    space = LexicalSpace(Lexicon(toy_bank.texts), toy_bank.texts)
    assert np.all(space.transform(("1234 ??", "")) == 0)


def test_self_consistency_returns_the_prior(toy_bank: Bank) -> None:
    """With the biases, the bank's left-out posteriors average to the prior; without, they need not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 8)) + np.repeat([[2.0], [0.0], [0.5]], [10, 20, 30], axis=0)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    label = np.repeat(np.arange(3), [10, 20, 30])
    bias = self_consistent_bias(rows, label, 3, 0.1)

    def average(b: np.ndarray) -> np.ndarray:
        out = np.zeros(3)
        for i in range(60):
            rest = np.arange(60) != i
            p = exact.multinomial(
                rows[rest], label[rest], 3, rows[i : i + 1], Prior.uniform(3), bandwidth=0.1, bias=b
            )
            out += p.probabilities[0] / (3 * np.bincount(label)[label[i]])
        return out

    assert np.allclose(average(bias), 1 / 3, atol=2e-3)
    assert np.abs(average(np.zeros(3)) - 1 / 3).max() > 0.02


@pytest.fixture
def material(toy_panel: Panel, toy_bank: Bank) -> Material:
    background = tuple(f"quiet library book shelf page {i} paper reader" for i in range(12))
    return Material.prepare(toy_panel, replace(toy_bank, background=background), get_embedder("hashing"))


def test_the_prior_enters_by_bayes_rule(material: Material) -> None:
    infer = fit_method(material, Settings())
    seen = material.observe(CASES)
    uniform = infer.answer(seen, Prior.uniform(3)).posterior_in_class
    prior = np.array([0.7, 0.0, 0.3])
    tilted = infer.answer(seen, Prior(prior, 3.0)).posterior_in_class
    expected = uniform * prior / (uniform * prior).sum(axis=1, keepdims=True)
    assert np.allclose(tilted, expected, atol=1e-9)
    assert np.all(tilted[:, 1] == 0)
    assert uniform[:3].argmax(axis=1).tolist() == [0, 1, 2]


def test_none_of_these(material: Material) -> None:
    outside = Outside.fit(material)
    assert outside is not None
    seen = material.observe((*CASES[:3], "a reader with a paper book in the library"))
    q = outside(seen, Prior.uniform(3))
    assert np.all((q > 0) & (q < 1))
    assert q[3] > 0.5 > q[:3].max()
    assert Outside.fit(replace(material, embedded=replace(material.embedded, background=None))) is None


def test_what_carried_an_answer_adds_up(toy_panel: Panel, material: Material) -> None:
    infer = fit_method(material, Settings())
    seen = material.observe(CASES)
    carried = infer.carried(seen, Prior.uniform(3))
    assert carried.share is not None
    assert np.allclose(carried.share.sum(axis=1), 1, atol=1e-5)
    assert sorted(carried.rows.tolist()) == list(range(len(material.bank.texts)))
    assert np.array_equal(material.bank.label_index[carried.rows], carried.label_index)
    answer = Classifier(toy_panel, material.bank).infer(CASES[0])
    assert answer.evidence[0].label == "apple"


def test_auto_is_soft_and_exact(toy_panel: Panel, toy_bank: Bank) -> None:
    for wrong in ({"kernel": "hard"}, {"engine": "particles"}, {"engine": "live"}):
        with pytest.raises(BadInput, match="m-smc"):
            Classifier(toy_panel, toy_bank, **wrong)


def test_a_bank_of_one_text_per_label(toy_panel: Panel) -> None:
    tiny = Bank("toy", toy_panel.names, ("red fruit", "wet water", "hot oil"), np.arange(3), name="tiny")
    classifier = Classifier(toy_panel, tiny)
    p = classifier.predict_proba(["red fruit", "oil"])
    assert np.allclose(p.sum(axis=1), 1)
    assert np.isfinite(p).all()
    answer = classifier.infer("red fruit")  # no text can be held out, so there is nothing to tune on
    assert any("3 descriptions are too few" in note for note in answer.provenance.notes)
