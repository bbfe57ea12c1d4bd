"""Question-and-answer text is read as what it states."""

import pytest

from simdx.methods.reading import as_statements


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Do you have a cough? Yes.", "cough."),
        ("Have you had a fever? No. Do you have a cough? Yes.", "cough."),
        ("How intense is the pain? 7. Is it new? Yes.", "intense is the pain 7. new."),
        ("Does it radiate? nowhere. Do you smoke? yes", "smoke."),
        ("Do you have a cough? Yes.\nAny fever? No.", "cough."),
    ],
)
def test_a_checklist_states_what_was_not_denied(text: str, stated: str) -> None:
    assert " ".join(as_statements(text).split()) == stated


@pytest.mark.parametrize(
    "text",
    [
        "A soft swelling of the lip. What is it? The patient does not know.",
        "My doctor asked me how long. About two weeks.",
        "",
        "no? never heard of it",
    ],
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert as_statements(text) == text
