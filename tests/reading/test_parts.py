"""Where a denied list ends: what a part behind a comma says of itself."""

import pytest

from simdx.reading import FOUND, as_read, read
from simdx.reading.parts import is_clause, is_graded, is_listed, is_there


def denied(text: str) -> list[str]:
    return [span.text for span in read(text).spans if span.assertion == "negated"]


@pytest.mark.parametrize(
    "part",
    [
        "lactate 4.1",
        "hiccups x3",
        "pulse 2+",
        "earache for a week",
        "eyelids puffy",
        "febrile",
        "knee aches",
        "a graze over the shin",
        "welts on both arms",
        "itching of her left palm",
    ],
)
def test_a_part_that_says_it_is_there(part: str) -> None:
    assert is_there(f" {part}", part.split())


@pytest.mark.parametrize("part", ["hiccups", "an S3", "vomiting in the past 24 hours", "hives were seen"])
def test_a_part_that_does_not(part: str) -> None:
    assert not is_there(f" {part}", part.split())


@pytest.mark.parametrize(
    ("part", "listed"),
    [
        ("night sweats", True),
        ("blood in the urine", True),
        ("vomiting/diarrhoea", True),
        ("lumps were seen", True),
        ("appetite fair", False),
        ("referred to clinic", False),
    ],
)
def test_what_looks_like_a_finding_of_a_list(part: str, listed: bool) -> None:
    assert is_listed(part.split()) == listed


def test_degrees_and_clauses() -> None:
    assert is_graded(["slight", "rash"])
    assert not is_graded(["slight"])
    assert is_clause(["ankle", "hurts"])
    assert not is_clause(["rashes", "were", "seen"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # lists
        ("No melena, haematemesis, jaundice.", ["melena, haematemesis, jaundice"]),
        ("no wheeze, stridor, grizzling", ["wheeze, stridor, grizzling"]),
        ("Without rigors, sweats, weight loss.", ["rigors, sweats, weight loss"]),
        ("Denies dysuria, frequency, urgency.", ["dysuria, frequency, urgency"]),
        ("No clots, odd bruises, or nosebleeds.", ["clots, odd bruises, or nosebleeds"]),
        ("No clots, odd bruises, nor nosebleeds.", ["clots, odd bruises", "nosebleeds"]),
        ("No weals, odd marks, and burrows.", ["weals, odd marks, and burrows"]),
        ("No weals, odd marks and burrows were seen.", ["weals, odd marks and burrows were seen"]),
        ("No severe, constant pain.", ["severe, constant pain"]),
        ("No uptake in any organ, including the thyroid.", ["uptake in any organ, including the thyroid"]),
        ("No pain in the shoulder, elbow and wrist.", ["pain in the shoulder, elbow and wrist"]),
        ("No dose above 5,000 units.", ["dose above 5,000 units"]),
        ("No runny nose, sore throat, headaches.", ["runny nose, sore throat, headaches"]),
        # a quantity, a duration
        ("No proteinuria, urea 14, trace blood.", ["proteinuria"]),
        ("Denies vertigo, nausea, earache x2 days", ["vertigo, nausea"]),
        ("No rash, earache for four days.", ["rash"]),
        ("no fever, nausea and vomiting for two days", ["fever"]),
        ("No vomiting, diarrhoea in the past 24 hours.", ["vomiting, diarrhoea"]),
        # a degree, a state, a verb, a side
        ("No stridor, moderate recession.", ["stridor"]),
        ("No haemarthrosis seen, soft tissue bruising.", ["haemarthrosis seen"]),
        ("No hives, lips swollen.", ["hives"]),
        ("without exudate, tonsils enlarged", ["exudate"]),
        ("Denies vertigo, sleeps badly.", ["vertigo"]),
        ("no cough, nausea persists", ["cough"]),
        ("No rash, nitrites positive.", ["rash"]),
        ("No melena, ankle oedema remained.", ["melena"]),
        ("All swabs remained negative.", ["All swabs remained"]),
        ("No head injury, graze over the right elbow.", ["head injury"]),
        # what is no finding, and what comes behind a list
        ("No goitre, referred to clinic.", ["goitre"]),
        ("No vertigo or nausea, ears blocked, hearing down.", ["vertigo or nausea"]),
        ("No rash anywhere, fever.", ["rash anywhere"]),
        ("No rash: steroid stopped.", ["rash"]),
        ("No previous miscarriages, smoker.", ["miscarriages"]),
        ("no limp, im eating fine", ["limp"]),
        # a "not" denies one thing
        ("Child not jaundiced, drowsy.", ["jaundiced"]),
        ("The foot is not cold, blue or numb.", ["cold, blue or numb"]),
        ("Gout rather than sepsis, knee hot.", ["sepsis"]),
        ("I haven't had any palpitations, dizziness.", ["palpitations, dizziness"]),
    ],
)
def test_where_a_denied_list_ends(text: str, found: list[str]) -> None:
    assert denied(text) == found


def test_a_doubt_ends_where_something_is_there() -> None:
    spans = {span.text: span.assertion for span in read("Cannot exclude torsion, scrotum swollen.").spans}
    assert spans == {"torsion": "possible", "scrotum swollen": "present"}


def test_what_is_there_stays_in_what_methods_read() -> None:
    assert (
        as_read("No ketones, glucose 21, urine cloudy.", FOUND)[0].strip(" ,.") == "glucose 21, urine cloudy"
    )
