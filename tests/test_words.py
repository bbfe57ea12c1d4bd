"""Sentences about an answer: what they say fits the numbers beside them, and none denies another."""

from __future__ import annotations

import itertools

import pytest

from simdx.classifier import Classifier
from simdx.words import alarm_words, preferences, simplex_words

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
    assert f"of {len(answer.alarm.views)} prefer" in (answer.alarm_words or "")


@pytest.mark.parametrize(
    ("preferred", "said"),
    [
        (("apple",) * 4, "4 of 4 prefer it"),
        (("apple", "apple", "apple", "river"), "3 of 4 prefer it, 1 prefers 'river'"),
        (("river", "apple", "river", "engine"), "1 of 4 prefers it, 2 prefer 'river', 1 prefers 'engine'"),
        (("river",) * 4, "none of 4 prefers it, all 4 prefer 'river'"),
        (("river",), "none of 1 prefers it, 1 prefers 'river'"),
    ],
)
def test_who_prefers_what(preferred: tuple[str, ...], said: str) -> None:
    assert preferences("apple", preferred) == said


def test_only_the_labels_with_most_votes_are_named() -> None:
    said = preferences("a", ["b", "b", "c", "c", "d"])
    assert "'b'" in said
    assert "'c'" in said
    assert "'d'" not in said


@pytest.mark.parametrize("raised", [True, False])
def test_no_vote_makes_the_sentence_deny_itself(raised: bool) -> None:
    """The alarm weighs strength, so it goes either way with every vote: no word may be about agreement."""
    for preferred in itertools.product(("apple", "river"), repeat=4):
        said = alarm_words("apple", preferred, 0.04, raised)
        assert not any(word in said for word in ("agree", "contradict", "disagree", "unanim"))
        assert ("less than is usual" in said) is raised
        assert "p = 0.040" in said


def test_without_views_or_p_the_sentence_is_whole() -> None:
    assert alarm_words("apple", (), None, raised=True).endswith("less than is usual for a correct answer")
