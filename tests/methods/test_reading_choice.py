"""How denied findings count, and how a bank chooses it."""

import numpy as np
import pytest

from simdx import Classifier
from simdx.errors import BadInput
from simdx.methods.logistic import choose_reading
from simdx.reading import CUT, DENIED, FOUND, HEAVY, LIGHT, PLAIN, as_read, masked, not_present
from simdx.types import Bank

FINDINGS = ("pleural effusion", "pneumothorax", "rib fracture", "lung nodule")
SEEN = (
    "There is a {}.",
    "A new {} is seen.",
    "Findings in keeping with a {}.",
    "Small {} on the left.",
    "Moderate {} is present.",
    "The film shows a {}.",
    "Known {} again.",
    "{} on the right side.",
)


def bank(deny: bool) -> Bank:
    """Every finding in eight wordings; where wanted, beside denials of the three others."""
    texts, label = [], []
    for k, finding in enumerate(FINDINGS):
        others = [f for f in FINDINGS if f != finding]
        for seen in SEEN:
            denial = f" No {others[0]}, {others[1]} or {others[2]}." if deny else ""
            texts.append(seen.format(finding) + denial)
            label.append(k)
    return Bank("films", FINDINGS, tuple(texts), np.array(label))


@pytest.mark.parametrize(
    ("way", "said", "denied"),
    [(PLAIN, "No fever. A cough.", ""), (CUT, ". A cough.", ""), (DENIED, ". A cough.", "fever")],
)
def test_ways_of_reading(way: str, said: str, denied: str) -> None:
    found = as_read("No fever. A cough.", way)
    assert (found[0].strip(), found[1]) == (said, denied)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Heart size is within normal limits. A nodule.", ". A nodule."),
        ("Cardiomegaly. Lungs clear. Normal mediastinal contours.", "Cardiomegaly. . ."),
        ("Scoliosis. Heart, mediastinum, and hila are normal in size and contour.", "Scoliosis. ."),
        ("A granuloma at the base, heart size normal.", "A granuloma at the base, ."),
        ("Pain that went back to normal.", "Pain that went back to normal."),
        ("Not normal. A clear discharge.", "Not normal. A clear discharge."),
        ("I want a normal life.", "I want a normal life."),
    ],
)
def test_what_is_called_normal_is_no_finding(text: str, found: str) -> None:
    assert " ".join(as_read(text, FOUND)[0].split()) == found
    assert as_read(text, LIGHT)[0] == text


def test_a_text_of_denials_alone_is_left_as_it_is() -> None:
    assert as_read("No fever.", CUT) == ("No fever.", "")


def test_light_cuts_only_what_is_mostly_denied() -> None:
    short = "Cough but no fever."
    long = (
        "A cough for three weeks now, worse at night, with thick green sputum in the mornings and no fever."
    )
    assert "fever" not in as_read(short, LIGHT)[0]
    assert as_read(long, LIGHT)[0] == long
    for text in (short, long):  # told in both, although one of them is taken as it is
        assert [text[start:end] for start, end, _ in not_present(text, LIGHT)] == ["fever"]
    assert not_present(short, PLAIN) == ()


def test_denied_words_are_words_of_their_own() -> None:
    assert masked(["fever"]) != ["fever"]
    assert masked(["fever"])[0].isalpha()


def test_a_bank_that_denies_what_other_labels_have_is_cut() -> None:
    assert choose_reading(bank(deny=True)) in (FOUND, DENIED)


def test_a_bank_that_denies_nothing_reads_denials_of_cases() -> None:
    assert choose_reading(bank(deny=False)) == HEAVY
    film = "Heart size is normal. The lungs are clear. There is a nodule on the left. No effusion."
    assert as_read(film, HEAVY)[0] == as_read(film, FOUND)[0]
    note = "A cough for three weeks, worse at night, with thick green sputum in the mornings and no fever."
    assert as_read(note, HEAVY)[0] == note


def test_a_way_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown reading 'backwards'"):
        Classifier("oral-lesions", reading="backwards")


def test_a_denied_finding_is_told_and_not_present() -> None:
    answer = Classifier("oral-lesions").infer("A white patch on the tongue. No ulcer, no bleeding.")
    assert answer.provenance.reading == DENIED
    assert {span.assertion for span in answer.spans} == {"negated"}
