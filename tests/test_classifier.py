"""The Python front door: scikit-learn conventions, priors, and answers that do not depend on company."""

from dataclasses import replace

import numpy as np
import pytest

import simdx
from simdx import BadInput, Classifier, Prior
from simdx.methods.calibration_record import Calibration
from simdx.types import Bank
from tests.builders import toy_classifier

CASES = [
    "red sweet fruit from the orchard",
    "the boat on the water under the bridge",
    "the motor lost oil and the piston broke",
]


@pytest.fixture
def classifier() -> Classifier:
    return toy_classifier()


def test_predict_like_scikit_learn(classifier: Classifier) -> None:
    assert list(classifier.predict(CASES)) == ["apple", "river", "engine"]
    p = classifier.predict_proba(CASES)
    assert p.shape == (3, 3)
    assert np.allclose(p.sum(axis=1), 1)
    assert list(classifier.classes_) == ["apple", "river", "engine"]
    assert classifier.classes_[p.argmax(axis=1)].tolist() == list(classifier.predict(CASES))
    assert classifier.predict_proba(CASES[0]).shape == (1, 3)
    assert classifier.predict(np.array(CASES)).shape == (3,)


def test_priors_in_every_form(classifier: Classifier) -> None:
    """What they do to an answer is in tests/contracts/test_methods.py."""
    text = "red water motor"
    assert classifier.infer(text, prior={"apple": 0.0}).posterior["apple"] == 0
    counts = Prior.from_counts(classifier.panel.names, {"river": 18})
    assert classifier.infer(text, prior=counts).provenance.alpha0 == 20
    with pytest.raises(BadInput, match="2 labels"):
        classifier.infer(text, prior=Prior.uniform(2))
    with pytest.raises(BadInput, match="pear"):
        classifier.infer(text, prior={"pear": 0.5})


def test_no_texts_are_no_answers(classifier: Classifier) -> None:
    assert classifier.infer([]) == []
    assert classifier.predict_proba([]).shape == (0, 3)


def test_another_method_on_the_same_bank(toy_bank: Bank) -> None:
    bank = replace(toy_bank, background=("a stone wall", "a grey cloud"))
    first = toy_classifier(bank, none_prior=0.2)
    other = first.with_method("m-smc")
    assert other.data is first.data
    assert other.settings == replace(first.settings, method="m-smc")
    alone = toy_classifier(bank, method="m-smc")
    assert other.infer(CASES[0]).posterior == pytest.approx(alone.infer(CASES[0]).posterior)
    # a prior of none of these is said only of a method that has one
    said = [any("none of these has a prior" in note for note in c.notes) for c in (first, other)]
    assert said == [True, False]


def test_the_public_names() -> None:
    assert set(simdx.__all__) == {
        "Answer", "BadInput", "Classifier", "Prior", "RunFailed", "SimdxError", "SimulationClassifier",
        "__version__",
    }  # fmt: skip
    for name in simdx.__all__:
        assert getattr(simdx, name) is not None


def test_packaged_panel_out_of_class_and_decision() -> None:
    c = Classifier("oral-lesions")
    cancer, outside = c.infer(
        [
            "A 60-year-old smoker with a hard ulcer of the lateral tongue, rolled edges, a fixed neck node.",
            "My jaw clicks and aches in front of the ear when I chew, and I grind my teeth at night.",
        ]
    )
    assert cancer.label == "oral squamous cell carcinoma"
    assert cancer.out_of_class < 0.5 < outside.out_of_class
    assert outside.decision.action == "review"


def test_a_batch_with_decisions_is_a_frame(toy_bank: Bank) -> None:
    classifier = toy_classifier(replace(toy_bank, background=("a stone wall", "a grey cloud")))
    table = classifier.infer_batch(CASES, decisions=True)
    frame = table.to_frame()
    answers = classifier.infer(CASES, explain=False)
    assert frame["action"].tolist() == [answer.decision.action for answer in answers]
    assert frame["reason"].tolist() == [answer.decision.reason for answer in answers]
    assert frame["label"].tolist() == list(classifier.predict(CASES))
    assert frame["none of these"].tolist() == pytest.approx([answer.out_of_class for answer in answers])
    for name in classifier.panel.names:
        assert frame[name].tolist() == pytest.approx([answer.posterior[name] for answer in answers])
    plain = classifier.infer_batch(CASES).to_frame()
    assert "action" not in plain.columns
    assert classifier.infer_batch([], decisions=True).to_frame().empty


def test_the_calibration_error_of_an_answer_is_that_of_its_sentence() -> None:
    """Packaged panels were checked on labelled cases: the number beside the sentence is the sentence's."""
    found = Classifier("oral-lesions").infer(CASES[0], explain=False).calibration
    assert found is not None
    assert found.ece is not None
    assert f"calibration error {100 * found.ece:.0f} %" in found.sentence
    bare = Calibration("rehearsed", ece=0.01, accuracy=0.5)
    assert bare.error_on_cases == (None, None)  # simulated texts say nothing about real ones
    assert "50% of the bank's texts, held out," in "; ".join(bare.failures())
    measured = replace(bare, basis="measured", n=30)
    assert measured.error_on_cases == (0.01, None)
    assert "50% of the labelled cases" in "; ".join(measured.failures())


def test_what_is_no_text_and_no_prior_is_refused() -> None:
    classifier = toy_classifier()
    with pytest.raises(BadInput, match="give a text, or a list of texts"):
        classifier.infer(5)
    with pytest.raises(BadInput, match="a prior is a mapping of labels to probabilities"):
        classifier.infer("a boat", [0.3, 0.3, 0.4])
    with pytest.raises(BadInput, match="closed leaves none of these out"):
        toy_classifier(closed=True, none_prior=0.1)
