"""Emergencies that an answer may be, named beside it."""

from simdx import Classifier


def test_an_emergency_with_a_tenth_of_the_probability_keeps_an_answer_from_being_accepted() -> None:
    answer = Classifier("oral-lesions").infer("Swelling under the tongue that comes at meals.")
    assert answer.outside is not None
    named = {one.condition: one.probability for one in answer.outside.nearest if one.emergency}
    assert max(named.values()) >= 0.1
    assert any("(emergency)" in reason for reason in answer.decision.reasons)
