"""Sentences about the views: whatever the alarm says, the numbers beside it fit."""

from __future__ import annotations

import itertools

import pytest

from simdx.words import alarm_words, preferences


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
