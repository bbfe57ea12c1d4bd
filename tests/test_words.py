"""Sentences about an answer: what they say fits the numbers beside them, and none denies another."""

from __future__ import annotations

import itertools
import re

import pytest

from simdx.classifier import Classifier
from simdx.words import alarm_words, preferences, simplex_words

SURE = {"apple": 0.999, "river": 0.001}
BLUNT = {"apple": 0.7, "river": 0.3}
OTHER = {"apple": 0.4, "river": 0.6}


@pytest.mark.parametrize(
    ("posterior", "simplex", "bits", "cap", "said", "unsaid"),
    [
        (SURE, BLUNT, (0.85, 0.80), 0.81, [
            "second, blunter comparison", "70 % to 'apple'", "the most it could give a label here is 81 %",
            "94 % would be left", "6 % is doubt",
        ], "fits more than one label"),
        (SURE, OTHER, (0.9, 0.8), None, ["60 % to 'river' and 40 % to 'apple'"], "the most"),
        (BLUNT, BLUNT, (0.85, 0.80), None, [], "second"),  # the posterior is the simplex one
        (SURE, SURE, (0.001, 0.0009), None, ["over 99 % to 'apple'", "next to no uncertainty."], "left"),
        (SURE, BLUNT, (0.5, 0.5000001), None, ["100 % would be left"], "101"),  # passed by a rounding error
    ],
)  # fmt: skip
def test_what_is_said_of_the_second_comparison(
    posterior: dict, simplex: dict, bits: tuple[float, float], cap: float | None, said: list[str], unsaid: str
) -> None:
    words = simplex_words("apple", posterior, simplex, *bits, cap=cap)
    assert [phrase for phrase in said if phrase not in words] == []
    assert unsaid not in words


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
        (("b", "b", "c", "c", "d"), "none of 5 prefers it, 2 prefer 'b', 2 prefer 'c'"),  # the most named
    ],
)
def test_who_prefers_what(preferred: tuple[str, ...], said: str) -> None:
    assert preferences("apple", preferred) == said


@pytest.mark.parametrize("raised", [True, False])
def test_no_vote_makes_the_sentence_deny_itself(raised: bool) -> None:
    """The alarm weighs strength, so it goes either way with every vote: no word may be about agreement."""
    for preferred in itertools.product(("apple", "river"), repeat=4):
        said = alarm_words("apple", preferred, 0.04, raised)
        assert not any(word in said for word in ("agree", "contradict", "disagree", "unanim"))
        assert ("less than is usual" in said) is raised
        assert "p = 0.040" in said
    alone = alarm_words("apple", (), None, raised=raised)
    assert re.search("is usual for (a )?correct answers?$", alone)  # without views or p it is whole
