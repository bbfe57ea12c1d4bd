"""Sentences, evidence, flip and missing finding."""

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.decide.explain import (
    MOST_PARTS,
    Clauses,
    Telling,
    exact_flip,
    missing_finding,
    paired,
    runs_of_sentences,
    searched_flip,
    sentence_effects,
    split_sentences,
)
from simdx.types import Bank, Float, Panel

CASE = "red sweet fruit and some water under the bridge"


def test_sentences_are_kept_whole() -> None:
    text = "A 3.5 cm ulcer. It bleeds every day! No. Does it hurt?"
    # a decimal point ends nothing, and a fragment stays with its sentence
    assert split_sentences(text) == ["A 3.5 cm ulcer.", "It bleeds every day! No.", "Does it hurt?"]
    assert split_sentences("   ") == []


def test_long_cases_are_grouped_without_losing_a_word() -> None:
    text = " ".join(f"Sentence number {i} says something {'more ' * (i % 7)}here." for i in range(150))
    parts = runs_of_sentences(text)
    assert len(parts) == MOST_PARTS
    assert " ".join(parts).split() == text.split()
    sizes = [len(p) for p in parts]
    assert max(sizes) < 2 * min(sizes)
    assert len(runs_of_sentences("One two three. Four five six.")) == 2


def test_effects_are_what_is_lost_without_each_part() -> None:
    first, second = "Alpha beta gamma.", "Delta epsilon zeta."
    posterior, prior = np.array([[0.7, 0.3], [0.7, 0.3]]), np.array([0.5, 0.5])

    def answer(shortened: list[str], whole: list[str]) -> Float:
        assert (shortened, whole) == ([second, first], [f"{first} {second}"] * 2)
        return np.array([[0.2, 0.8], [0.9, 0.1]])

    both, alone = sentence_effects([f"{first} {second}", first], posterior, prior, answer)
    assert [(e.text, round(e.effect, 6)) for e in both] == [(first, 0.5), (second, -0.2)]
    assert [(e.text, round(e.effect, 6)) for e in alone] == [(first, 0.2)]


@pytest.fixture
def classifier(toy_panel: Panel, toy_bank: Bank) -> Classifier:
    return Classifier(toy_panel, toy_bank)


def test_the_sentence_that_matters_comes_first(classifier: Classifier) -> None:
    text = "There is nothing here. The motor lost oil and the piston broke. Someone said so."
    answer = classifier.infer(text)
    assert answer.label == "engine"
    assert "piston" in answer.sentences[0].text
    assert answer.sentences[0].effect > 0


def test_evidence_shares_are_the_engines(classifier: Classifier) -> None:
    answer = classifier.infer("red sweet fruit and some water")
    leading = [e for e in answer.evidence if e.label == answer.label]
    assert len(leading) == 3
    assert all(e.share is not None and 0 < e.share <= 1 for e in answer.evidence)
    assert [e.share for e in leading] == sorted((e.share for e in leading), reverse=True)
    assert [e.distance for e in leading] == sorted(e.distance for e in leading)


def test_flip_in_closed_form() -> None:
    """Even odds of two labels: posterior odds 9 at prior 1/2, so the flip is at prior odds 1/9."""
    assert exact_flip(np.array([0.9, 0.1]), 0.0, np.array([0.5, 0.5]), 0) == (1, pytest.approx(0.1))
    assert exact_flip(np.array([1.0, 0.0]), 0.0, np.array([1.0, 0.0]), 0) is None
    prior, likelihood = np.array([0.2, 0.2, 0.6]), np.array([16.0, 1.0, 4.0])

    def answer(share: float, outside: float) -> Float:
        inside = np.array([share, (1 - share) / 4, (1 - share) * 3 / 4]) * likelihood
        return np.append(inside / inside.sum() * (1 - outside), outside)

    for outside, other in ((0.0, 2), (0.25, 2), (0.33, 3)):  # the more none of these has, the sooner it leads
        found, share = exact_flip(answer(0.2, 0.0)[:3], outside, prior, 0)
        assert (found, answer(share * 0.999, outside).argmax()) == (other, other)
        assert answer(share * 1.001, outside).argmax() == 0


def test_flip_where_the_posterior_is_not_prior_times_likelihood() -> None:
    def stubborn(pi: Float) -> Float:
        return np.array([1.0, 0.0]) if pi[0] > 0.03 else np.array([0.0, 1.0])

    even = np.array([0.5, 0.5])
    found = searched_flip(even, 0, stubborn)
    assert found == (1, pytest.approx(0.03, rel=2e-3))
    assert searched_flip(even, 0, lambda pi: np.array([1.0, 0.0])) is None
    assert searched_flip(np.array([1.0, 0.0]), 0, stubborn) is None


@pytest.mark.parametrize(
    ("method", "kernel"),
    [("auto", None), ("m-smc", "hard"), ("m-smc", "soft"), ("d-smc", None), ("bank-logistic", None)],
)
def test_the_answer_does_flip_there(
    toy_panel: Panel, toy_bank: Bank, method: str, kernel: str | None
) -> None:
    c = Classifier(toy_panel, toy_bank, method=method, kernel=kernel)
    answer = c.infer(CASE)
    if answer.flip is None:
        assert method == "d-smc"  # a fixed accepted mass need not let go of a label
        return
    leading = toy_panel.names.index(answer.label)
    rest = np.array([p for i, p in enumerate(answer.provenance.prior.values()) if i != leading])

    def at(share: float) -> str:
        prior = np.insert(rest / rest.sum() * (1 - share), leading, share)
        return str(c.predict(CASE, dict(zip(toy_panel.names, prior, strict=True)))[0])

    assert at(answer.flip.prior * 1.0005) == answer.label
    assert at(answer.flip.prior * 0.998) == answer.flip.label


GRAMMAR = "it has been there for some time and the patient says that it is as it was"
PAPERS = [f"{GRAMMAR}; the colour is blue today, the taste is salt here" for _ in range(20)]
PLUMS = [f"{GRAMMAR}; the colour is blue today, the taste is sugar here" for _ in range(20)]
TASTES = Bank("p", ("a", "b"), (*PAPERS, *PLUMS), np.repeat([0, 1], 20))


def test_words_of_grammar_pair_nothing() -> None:
    telling = Telling.of(TASTES)
    assert set(telling.words) == {"salt", "sugar"}
    case = ["It has been there for some time and the patient is well.", "The taste of it is salt."]
    assert paired(case, [GRAMMAR], telling) == []
    (found,) = paired(case, [PAPERS[0], GRAMMAR], telling)
    assert (found.case, found.evidence, found.words) == (case[1], 0, ("salt",))


def test_the_finding_that_separates_is_worth_asking() -> None:
    words = ("colour", "taste", "salt", "sugar", "blue")

    def embed(texts: list[str] | tuple[str, ...]) -> Float:
        return np.array([[float(w in t) for w in words] for t in texts])

    def answer(texts: list[str]) -> Float:
        salt = np.array([0.9 if "salt" in t else 0.1 if "sugar" in t else 0.5 for t in texts])
        return np.column_stack([salt, 1 - salt])

    telling = Telling.of(TASTES)
    clauses = Clauses.of(TASTES, telling, embed)
    assert set(clauses.texts) == {"the taste is salt here", "the taste is sugar here"}
    asked = ("Something.", np.array([0.5, 0.5]), TASTES.labels, clauses, telling)
    found = missing_finding(*asked, answer)
    assert (found.finding, found.speaks_for) == ("the taste is salt here", "a")
    assert found.entropy_bits == pytest.approx(1.0)
    assert found.expected_bits < found.entropy_bits
    assert missing_finding(*asked, lambda texts: np.full((len(texts), 2), 0.5)) is None
    assert clauses.open_findings("It is salt.", [0], telling) == []  # said already


def test_ask_through_the_front_door() -> None:
    """A clinical finding of the bank, not a facet that its generator was steered by."""
    oral = Classifier("oral-lesions")
    found = oral.infer("A painless lump inside the mouth for a month.", ask=True).missing_finding
    assert found.finding in " ".join(oral.bank.texts)
    assert found.speaks_for in oral.panel.names
    assert found.expected_bits < found.entropy_bits
    outside = oral.infer("A throbbing headache on one side, with nausea, since yesterday.", ask=True)
    assert outside.missing_finding is None
