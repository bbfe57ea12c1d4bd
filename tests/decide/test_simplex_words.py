"""The split in words: it names whose uncertainty it is, so that it cannot deny a sure posterior."""

from __future__ import annotations

from simdx.classifier import Classifier
from simdx.words import simplex_words

SURE = {"apple": 0.999, "river": 0.001}
BLUNT = {"apple": 0.7, "river": 0.3}


def test_a_blunt_second_comparison_does_not_deny_a_sure_posterior() -> None:
    said = simplex_words("apple", SURE, BLUNT, 0.85, 0.80, cap=0.81)
    assert "second, blunter comparison" in said
    assert "70 % to 'apple'" in said
    assert "the most it could give a label here is 81 %" in said
    assert "94 % would be left" in said
    assert "6 % is doubt" in said
    assert "fits more than one label" not in said


def test_another_leading_label_is_said() -> None:
    said = simplex_words("apple", SURE, {"apple": 0.4, "river": 0.6}, 0.9, 0.8)
    assert "60 % to 'river' and 40 % to 'apple'" in said
    assert "the most" not in said


def test_a_posterior_that_is_the_simplex_one_is_no_second_comparison() -> None:
    assert "second" not in simplex_words("apple", BLUNT, BLUNT, 0.85, 0.80)


def test_hardly_any_uncertainty_is_not_divided() -> None:
    said = simplex_words("apple", SURE, SURE, 0.001, 0.0009)
    assert said.endswith("It leaves next to no uncertainty.")
    assert "over 99 % to 'apple'" in said


def test_shares_stay_within_bounds() -> None:
    """Aleatoric bits can pass the total by a rounding error."""
    assert "100 % would be left" in simplex_words("apple", SURE, BLUNT, 0.5, 0.5000001)


def test_an_answer_says_both() -> None:
    oral = Classifier("oral-lesions")
    answer = oral.infer(oral.panel.examples[0].text, explain=False)
    assert answer.decision.action == "accept"
    assert "over 0.99" in answer.decision.reason
    assert "blunter" in (answer.uncertainty_words or "")
    assert f"of {len(answer.alarm.views)} prefer" in (answer.alarm_words or "")  # type: ignore[union-attr]
