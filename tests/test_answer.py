"""Sentences about an answer: what they say fits the numbers beside them, and none denies another."""

import itertools

import pytest

from simdx.answer import ACTIONS, alarm_words, leading, outside_words, preferences, simplex_words
from simdx.classifier import Classifier

SURE = {"apple": 0.999, "river": 0.001}
BLUNT = {"apple": 0.7, "river": 0.3}
OTHER = {"apple": 0.4, "river": 0.6}


@pytest.mark.parametrize(
    ("posterior", "simplex", "bits", "cap", "said", "unsaid"),
    [
        (SURE, BLUNT, (0.85, 0.80), 0.81, [
            "a second and less precise method", "not the answer", "70 % to 'apple'",
            "its maximum here is 81 %",
            "94 % is ambiguity of the case", "6 % is doubt",
        ], "fits more than one label"),
        (SURE, OTHER, (0.9, 0.8), None, ["60 % to 'river' and 40 % to 'apple'"], "the most"),
        (BLUNT, BLUNT, (0.85, 0.80), None, ["D-SMC gives"], "second"),  # the posterior is the simplex one
        (SURE, SURE, (0.001, 0.0009), None, ["over 99 % to 'apple'", "almost no uncertainty."], "left"),
        (SURE, BLUNT, (0.5, 0.5000001), None, ["100 % is ambiguity"], "101"),  # passed by a rounding error
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
    assert answer.decision.action in ("accept", "likely")
    assert answer.headline == f"{ACTIONS[answer.decision.action]}: {answer.label}, over 99 %"
    assert "not the answer" in (answer.uncertainty_words or "")
    assert not answer.second_order_is_its_own
    assert f"{len(answer.alarm.views)} other readings" in (answer.alarm_words or "")
    own = Classifier("oral-lesions", method="d-smc").infer(oral.panel.examples[0].text, explain=False)
    assert own.second_order_is_its_own
    assert "second and less precise" not in (own.uncertainty_words or "")


def test_a_case_for_review_is_not_announced() -> None:
    answer = Classifier("oral-lesions", method="centroid").infer("A lump in the lip.", explain=False)
    for action, said in (("review", "Send to review"), ("likely", f"Likely: {answer.leading}")):
        decided = answer.decision.model_copy(update={"action": action})
        assert answer.model_copy(update={"decision": decided}).headline == said
    lead = leading("none of these", {"apple": 0.18, "river": 0.02, "none of these": 0.8})
    assert lead == "none of these, 80 %"


@pytest.mark.parametrize(
    ("preferred", "said"),
    [
        (("apple",) * 4, "all 4 other readings of the text put 'apple' first"),
        (("apple",) * 3 + ("river",), "3 of 4 other readings of the text put 'apple' first, 1 'river'"),
        (("river",) * 4, "none of the 4 other readings of the text puts 'apple' first, 4 'river'"),
        (("apple",) * 2, "both other readings of the text put 'apple' first"),
        (("river",) * 2, "neither of the 2 other readings of the text puts 'apple' first, 2 'river'"),
        (("river",), "the one other reading of the text puts 'river' first"),
        (["apple", *"bbccd"], "1 of 6 other readings of the text puts 'apple' first, 2 'b', 2 'c'"),
    ],
)
def test_who_prefers_what(preferred: tuple[str, ...], said: str) -> None:
    assert preferences("apple", preferred) == said


@pytest.mark.parametrize("raised", [True, False])
def test_no_vote_makes_the_sentence_deny_itself(raised: bool) -> None:
    """The alarm weighs strength, so it goes either way with every vote: count and conclusion must fit."""
    for n in (1, 2, 4):
        for preferred in itertools.product(("apple", "river"), repeat=n):
            said = alarm_words("apple", preferred, 0.04, raised)
            assert not any(word in said for word in ("agree", "contradict", "less than is usual", "prefer"))
            assert ("4 % of correct answers are this weakly supported" in said) is raised
            unanimous = set(preferred) == {"apple"}  # weakly so where it alarms, and no more to say else
            assert ("but weakly" in said) is (unanimous and raised)
            assert ("not unusual" in said) is (not unanimous and not raised)
    assert "no other reading" in alarm_words("apple", (), None, raised=raised)


@pytest.mark.parametrize(
    ("none_leads", "lead", "nearest", "said"),
    [
        (True, 0.02, [("sepsis", 0.5, True)], "none of these; nearest: sepsis (emergency)"),
        (True, 0.02, [("cold", 0.5, False), ("sepsis", 0.1, True), ("stroke", 0.001, True)],
         "none of these; nearest: cold; also near: sepsis (emergency)"),
        (True, 0.02, [], None),
        (False, 0.7, [("flu", 0.2, False), ("sepsis", 0.06, True)], "also possible: sepsis (emergency), 6 %"),
        (False, 0.06, [("sepsis", 0.04, True)], "also possible: sepsis (emergency), 4 %"),  # half the label's
        (False, 0.9, [("cold", 0.06, False), ("sepsis", 0.03, True)], None),
    ],
)  # fmt: skip
def test_emergencies_near_the_answer_are_named(none_leads, lead, nearest, said) -> None:  # type: ignore[no-untyped-def]
    assert outside_words(none_leads, lead, nearest) == said
