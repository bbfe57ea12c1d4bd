"""An answer is accepted only on what its text states as present."""

import numpy as np
import pytest

from simdx import Classifier
from simdx.decide.decision import Facts, decide
from simdx.panels import load_source

SWELLING = "Soft bluish painless swelling inside the lower lip that bursts, leaks clear fluid and comes back."


@pytest.fixture(scope="module")
def oral() -> Classifier:
    return Classifier("oral-lesions")


@pytest.mark.parametrize(
    "text",
    [
        "No soft bluish swelling of the lower lip.",
        "No ulcer on the side of the tongue, no hard lump, no bleeding.",
        "Tongue, lips and floor of mouth are normal.",
    ],
)
def test_a_text_that_states_nothing_goes_to_review(oral: Classifier, text: str) -> None:
    answer = oral.infer(text)
    assert answer.decision.action == "review"
    assert any("states nothing as present" in reason for reason in answer.decision.reasons)
    assert not [one for one in answer.sentences or () if one.effect > 0]  # and is no support for anything


@pytest.mark.parametrize(
    "text",
    [
        "His brother had a soft bluish swelling of the lower lip that burst and returned.",
        "As a child he had a soft bluish swelling of the lower lip. Here today for a crown on a molar.",
    ],
)
def test_what_is_past_or_a_relatives_does_not_carry_an_accepted_answer(oral: Classifier, text: str) -> None:
    assert oral.infer(text, explain=False).decision.action not in ("accept", "likely")


def test_a_denial_beside_what_is_stated_does_no_harm(oral: Classifier) -> None:
    assert oral.infer(f"{SWELLING} No pain, no fever.", explain=False).decision.action == "accept"


def test_the_reason_names_what_leads_instead() -> None:
    panel = load_source("oral-lesions").panel
    posterior = np.array([0.95, 0.04, 0.01])
    for label, said in ((0, "with only 60 %"), (1, f"'{panel.names[1]}' (60 %)")):
        found = decide(panel, Facts(posterior, 0.1, stated=(panel.names[label], 0.6)))
        assert found.action == "test"
        assert said in found.reason
