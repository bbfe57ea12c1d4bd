"""Red flags: what is packaged, how it is found in a text, and what does not count."""

import re
import time
from pathlib import Path

import pytest

from simdx import library

SOURCE = Path(library.__file__).parent / "data" / "red_flags.txt"


def found(text: str) -> set[str]:
    return {flag.name for *_, flag in library.found_in(text)}


def test_each_points_to_conditions_of_the_library_and_says_from_where() -> None:
    flags, names = library.red_flags(), {c.name for c in library.conditions()}
    assert 80 <= len(flags) <= 150
    assert len({flag.name for flag in flags}) == len(flags)
    for flag in flags:
        assert flag.of, flag.name
        assert flag.ways, flag.name
        assert {*flag.of, *flag.also} <= names, flag.name
        assert not set(flag.of) & set(flag.also), flag.name
    source = SOURCE.read_text(encoding="utf-8")
    known = set(re.findall(r"^#   ([A-Z]\w+)  ", source, re.M))
    given = [re.findall(r"\w+", line) for line in re.findall(r"^ {4}from +(.*)$", source, re.M)]
    assert len(given) == len(flags)
    assert {one for some in given for one in some} == known


def test_every_way_can_be_found() -> None:
    """Each is written out with its first words and nothing between."""
    module = __import__("simdx.library.red_flags", fromlist=["_words_of"])
    for flag in library.red_flags():
        for way in flag.ways:
            parts = [part for part in way.split() if part not in ("~", "~~", "&")]
            said = " ".join(module._words_of(part)[0] for part in parts)
            assert flag.name in found(said.replace("_", " ").replace("*", "")), (flag.name, way)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I coughed up blood this morning.", "coughing up blood"),
        ("Dry cough, one episode of haemoptysis.", "coughing up blood"),
        ("There was blood when I coughed.", "coughing up blood"),
        ("My neck is very stiff.", "a stiff neck"),
        ("Neck stiffness, Kernig positive.", "a stiff neck"),
        ("I can’t pass urine since noon.", "unable to pass water"),
        ("My stools have been black.", "black, tarry stools"),
        ("A tearing pain between the shoulder blades.", "a tearing pain in chest or back"),
        ("Photophobia since last night.", "light that hurts the eyes"),
        ("My breath smells of pear drops.", "breath of acetone, or ketones"),
        ("His breath smells fruity.", "breath of acetone, or ketones"),
        ("There is blood in my poo.", "blood in the stool"),
        ("Blood on the toilet paper.", "blood in the stool"),
        ("My throat is closing.", "a throat or tongue that closes"),
        ("My tongue is swelling.", "a throat or tongue that closes"),
        ("My legs gave way.", "weak legs"),
        ("Muffled heart sounds, raised JVP.", "full neck veins or a windpipe pushed aside"),
        ("The eye is bulging.", "a bulging eye, or one that hurts to move"),
        ("I bruise everywhere.", "bruises without a blow"),
        ("I have thought about ending my life.", "thoughts of suicide"),
        ("I don't want to live.", "thoughts of suicide"),
        ("I took thirty paracetamol.", "too many tablets"),
        ("Sudden onset shortness of breath.", "sudden breathlessness"),
        ("Crushing pain in the centre of my chest.", "a crushing weight on the chest"),
        ("The knee is hot, red and swollen.", "one hot, swollen joint"),
        ("The ulcer has not healed.", "a sore that does not heal"),
        ("He cannot swallow his saliva.", "unable to swallow saliva"),
    ],
)
def test_it_is_found_as_people_say_it(text: str, name: str) -> None:
    assert name in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "I have never coughed up blood.",
        "No stiff neck, no photophobia.",
        "My father coughed up blood.",
        "If you cough up blood, come back.",
        "Past history: haematemesis.",
        "I cough. The blood test was normal.",  # two sentences
        "Family history: breast cancer, haematuria.",
        "A runny nose and sneezing for two days.",
        "I had a blood test and my stool sample was normal.",
        "The wound has healed and the ulcer is healing well.",
        "I cannot lose weight.",
        "I do not want to wake up early.",
        "The dentist numbed my lip.",
        "We had flooding in our street.",
        "",
    ],
)
def test_what_is_denied_past_or_of_others_does_not_count(text: str) -> None:
    assert found(text) == set()


def test_places_are_those_of_the_text() -> None:
    text = "İ am ill. I coughed up blood."  # a letter that is longer in small letters
    ((start, end, flag),) = library.found_in(text)
    assert text[start:end] == "coughed up blood"
    assert flag.of[0] == "pulmonary embolism"


@pytest.mark.parametrize(
    "text",
    [
        "crushing " + "'" * 400 + ", chest",
        "crushing " + "a'" * 400 + ", chest",
        "crushing " + ("a" + "'" * 40) * 12 + " chest",
        "no stiff neck. " * 20_000,
        "neck is supple. A stiff hand, normal neck is normal. " * 6_000,
    ],
)
def test_time_grows_with_the_length_of_a_hostile_text(text: str) -> None:
    start = time.process_time()
    found(text)
    assert time.process_time() - start < 30  # one way of quotation marks to a word took years


def test_words_with_apostrophes_may_stand_between() -> None:
    assert "a stiff neck" in found("My neck, it's rigid. My neck's so rigid today.")
