"""What may enter a bank, what is asked for, and what a model proposes."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from simdx.bank.plan import (
    BACKGROUND,
    CONDITIONS,
    SUBJECTS,
    BankPlan,
    BuildSettings,
    outside,
    read_conditions,
)
from simdx.bank.prompts import WORDING, as_said
from simdx.bank.proposals import ROUNDS, names_in, near_misses
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.errors import BadInput, RunFailed
from simdx.panels import load_panel
from simdx.panels.load import PACKAGED
from simdx.simulators import scripted
from simdx.simulators.scripted import ScriptedSimulator
from simdx.types import Label, Panel

TB = Label("tuberculosis", aliases=("TB", "Mycobacterium tuberculosis", "Pott's disease"))
CHEST = Panel("chest", (TB, Label("lung cancer", aliases=("lung tumour",), description="Coughs up blood.")))
GOOD = (
    "A 54-year-old man has had a cough for three months, with sweats at night and a loss of seven kilograms. "
    "There are crackles over the right upper chest and he looks unwell."
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD, None),
        ("  ...  ", "empty"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("As an AI language model I do not have a body, but a patient may cough.", "refusal"),
        ("As a chatbot, I don't have invoices, but somebody may be billed twice.", "refusal"),
        ("As a virtual assistant I have no account and no bill of my own to pay.", "refusal"),
        ("As an assistant, I do not have a body, but a patient may cough.", "refusal"),
        ("I am just a chatbot and I have never had a cough in all my life, sorry.", "refusal"),
        ("As a large language model, my knowledge of coughs is from books alone.", "refusal"),
        (GOOD + " The chatbot did not answer me, and the virtual assistant was no help.", None),
        (GOOD + " He works as an assistant in a shop, and as a nurse assistant I saw him.", None),
        ("Sure, here is the note you wanted: " + GOOD, "talks about the task"),
        ("**Complaint** " + GOOD, "talks about the task"),
        (GOOD + " Dear Dr. [name], please see him.", "talks about the task"),
        (GOOD + " Tuberculosis was suspected.", "names its label"),
        (GOOD + " He once had TB.", "names its label"),
        (GOOD + " Pott’s disease".replace("’", "'"), "names its label"),
        (GOOD + " The table and the tb line stay.", None),  # an abbreviation is itself only in capitals
        (GOOD + " He was diagnosed with an infection.", "tell-tale phrase"),
        (GOOD + " This is a condition called something.", "tell-tale phrase"),
        (GOOD + " Her sister had lung tumours.", "names another label"),
        ("He has a cough.", "too short"),
        ("He has a bad cough and he is tired. " * 8, "repeats itself"),
        (
            "Der Mann hustet seit drei Monaten und schwitzt nachts sehr stark, dazu hat er sieben Kilo "
            "verloren und fühlt sich matt, berichtet seine Frau.",
            "not in English",
        ),
    ],
)
def test_reasons(text: str, reason: str | None) -> None:
    assert Scrubber.for_topic(CHEST, TB.name).reason(tidy(text)) == reason


def test_another_label_may_be_named_where_the_description_does_it() -> None:
    """And what is not about illness may be called by the words of its own description."""
    card = Label("lost card", description="A lost card must be blocked.")
    bank = (card, Label("refund", description="Money comes back to the card."), Label("card"))
    panel = Panel("bank", bank, register="general")
    text = "My lost card was used in a shop and I want it blocked today, please."
    assert Scrubber.for_topic(panel, "lost card").reason(text) is None
    assert Scrubber.for_topic(panel, "refund").reason(text) == "names another label"
    assert Scrubber.for_topic(panel, "refund").reason(text.replace("lost", "new")) is None
    assert Scrubber.for_topic(panel, "card").reason("I want a new card from you.") == "names its label"
    assert Scrubber.for_topic(panel, "a flat tyre").reason(text) == "names another label"


MIGRAINE = Label(
    "migraine",
    aliases=("hemicrania",),
    description="One-sided throbbing headache for hours with nausea; migraine attacks light and noise hurt.",
)


@pytest.mark.parametrize("register", ["clinician", "case-report", "patient", "plain"])
def test_a_small_model_is_told_all_but_the_name_and_begins_with_the_first_finding(register: str) -> None:
    panel = Panel("heads", (MIGRAINE, Label("stroke", description="Weak arm.")), register=register)
    plan = BankPlan(panel, "m", BuildSettings(per_label=1, background=1, voice="short"))
    openings = set()
    for index in range(12):
        request = plan.planned("migraine", index).request
        assert "migraine" not in f"{request.prompt} {request.opening}"
        assert "one-sided throbbing headache" in request.prompt
        assert "light and noise hurt" in request.prompt
        # A colon comes before the findings, so that the splice is a sentence whatever they are.
        assert re.search(r": one-sided throbbing headache for hours with nausea, it attacks", request.opening)
        openings.add(request.opening)
        assert plan.planned(BACKGROUND, index).topic not in plan.planned(BACKGROUND, index).request.prompt
    assert len(openings) > 1
    full = BankPlan(panel, "m", BuildSettings(per_label=1)).planned("migraine", 0).request
    for asked in (request, full):
        text = scripted.describe(asked.prompt, random.Random(1))
        assert any(thing in text for thing in scripted.CLINICAL.things)


def test_a_text_not_about_illness_begins_with_what_its_writer_says() -> None:
    charged = "I would like to ask why I was charged, or say that it is wrong"
    assert as_said("A person asks why they were charged, or says that it is wrong.") == charged
    assert as_said("The customer wants their money back.") == "I want my money back"
    assert as_said("The card was stolen and must be blocked.") == "The card was stolen and must be blocked"
    for silent in ("Articles chiefly about tumours and their treatment.", "Lost parcels"):
        assert as_said(silent) == ""


def test_names_cut_sentences_and_near_duplicates_are_found() -> None:
    scrubber = Scrubber(["non-Hodgkin lymphoma", "Sjögren"], "plain")
    for name in ("non Hodgkin lymphomas", "NON–HODGKIN  LYMPHOMA", "sjogren", "Sjögren"):
        assert scrubber.reason(f"{GOOD} It looked like {name} to them.") == "names its label"
    assert tidy("One is done. Two is do", "length") == "One is done."
    assert tidy("One is done. Two is do", "stop") == "One is done. Two is do"
    assert tidy("nothing is comple", "length") == ""
    assert tidy(' "Quoted words." ') == "Quoted words."
    seen = Duplicates()
    assert not seen.seen(GOOD)
    assert seen.seen(GOOD.replace("54", "61"))
    assert seen.seen(GOOD.replace("right", "left"))
    assert not seen.seen("A woman of thirty came with a painful, swollen knee after a fall from her horse.")


@pytest.mark.parametrize("voice", ["full", "short"])
@pytest.mark.parametrize("name", PACKAGED)
def test_plans_of_the_packaged_panels(name: str, voice: str) -> None:
    panel = load_panel(name)
    plan = BankPlan(panel, "model", BuildSettings(per_label=3, background=3, voice=voice))
    for label in panel.labels:
        scrubber = Scrubber.for_topic(panel, label.name)
        keys = set()
        for index in range(40):
            planned = plan.planned(label.name, index)
            assert planned == plan.planned(label.name, index)
            assert planned.request.max_tokens == WORDING[panel.register]["max_tokens"]
            assert (label.name in planned.request.prompt) is (voice == "full")
            # What is put into the model's mouth must not be what gets its text rejected.
            assert scrubber.reason(f"{planned.request.opening} {GOOD}") in (None, "too short")
            keys.add(planned.key)
        assert len(keys) == 40
    names = {plan.planned(BACKGROUND, i).topic for i in range(60)}
    assert len(names) == 60
    assert not names & set(panel.names)


def test_facets_off_leaves_only_the_seed_to_differ() -> None:
    plan = BankPlan(load_panel("oral-lesions"), "m", BuildSettings(per_label=3, facets=False, voice="short"))
    first, second = (plan.planned("oral mucocele", i) for i in (0, 1))
    assert replace(first.request, seed=second.request.seed) == second.request != first.request
    assert first.facets == {}


def test_the_background_leaves_the_panel_out() -> None:
    kept = outside(load_panel("case-reports"))
    assert not {"malaria", "tuberculosis", "lymphoma", "breast cancer", "diabetes"} & set(kept)
    assert "lung cancer" in kept
    assert len(kept) > 0.9 * len(CONDITIONS)


def test_settings_are_checked() -> None:
    """Of Python callers too; the command line has limits of its own."""
    wrong = {"per_label": 0, "temperature": 3, "top_p": 0, "voice": "x", "background": 100_001}
    for name, value in wrong.items():
        with pytest.raises(BadInput):
            BuildSettings(**{"per_label": 1, name: value})


@pytest.mark.parametrize("voice", ["full", "short"])
def test_a_panel_that_is_not_about_illness_is_asked_for_in_words_that_are_not_either(voice: str) -> None:
    late = Label("delivery", description="The parcel is late or lost.")
    panel = Panel("tickets", (late, Label("billing", description="A charge is wrong.")), register="general")
    plan = BankPlan(panel, "model", BuildSettings(per_label=12, background=12, voice=voice))
    for stratum in ("delivery", BACKGROUND):
        for index in range(12):
            planned = plan.planned(stratum, index)
            asked = f"{planned.request.prompt} {planned.request.opening}".lower()
            clinical = ("patient", "disease", "condition", "doctor", "year-old", "diagnosis", "complaints")
            assert not [word for word in clinical if word in asked]
            if stratum == BACKGROUND:
                assert planned.topic in SUBJECTS
    told = replace(panel, description="Condensed abstracts of journals.")  # what kind of text it sorts
    prompt = BankPlan(told, "m", plan.settings).planned("delivery", 0).request.prompt
    assert "Write one text of this kind: Condensed abstracts of journals." in prompt
    assert "message" not in prompt


# --------------------------------------------------------------------------- near misses

LISTS = {
    "oral squamous cell carcinoma": ["1. Leukoplakia\n2. **Traumatic ulcer** (a denture)\n3. Oral cancer"],
    "oral mucocele": ["- Ranula: a larger cyst\n- Leukoplakia\n- Pyogenic granuloma"],
    "atrophic glossitis": ["1) Geographic tongue\n2) A very long explanation of what else it might be here"],
}


@pytest.mark.parametrize(
    ("said", "ended", "names"),
    [
        (
            "1. Gout\n2) **Lyme disease** - a gift\n\n- Crohn's disease (of the mouth)\n• HIV infection",
            "stop",
            ["Gout", "Lyme disease", "Crohn's disease", "HIV infection"],
        ),
        ("I am sorry, but as a model I can name none of those conditions for you today.", "stop", []),
        ("1.\n2. 42\n3. <script>\n4. E", "stop", []),
        ("1. H. pylori infection\n2. Ear, nose and throat", "stop", ["H. pylori infection", "Ear"]),
        ("Gout\nI hope this helps", "stop", ["Gout"]),  # only the first line may lack its bullet
        ("1. Gout\n2. Chronic obstr", "length", ["Gout"]),
    ],
)
def test_names_are_read_off_a_list(said: str, ended: str, names: list[str]) -> None:
    assert names_in(said, ended) == names


def test_near_misses_are_outside_the_panel_and_named_once() -> None:
    panel, lister = load_panel("oral-lesions"), ScriptedSimulator(LISTS)
    found = near_misses(panel, lister, per_label=5)
    assert found == {
        "oral squamous cell carcinoma": ("Leukoplakia", "Traumatic ulcer"),  # oral cancer is an alias
        "oral mucocele": ("Ranula", "Pyogenic granuloma"),
        "atrophic glossitis": ("Geographic tongue",),
    }
    assert lister.calls == ROUNDS * len(panel.labels)
    assert near_misses(panel, lister, per_label=1)["oral mucocele"] == ("Ranula",)
    dead = ScriptedSimulator(error=1.0, error_attempts=9)
    with pytest.raises(RunFailed, match="scripted fault"):
        near_misses(panel, dead, per_label=3)
    assert dead.calls < ROUNDS * len(panel.labels)  # not for every label
    with pytest.raises(RunFailed, match="without naming"):
        near_misses(panel, ScriptedSimulator(dict.fromkeys(panel.names, ("1. Oral cancer",))), per_label=3)


def test_a_list_of_ones_own_loses_only_what_names_a_label() -> None:
    panel = load_panel("symptom-to-diagnosis")
    kept, named = ("malaria", "chronic fatigue", "скарлатина"), ("Dengue Fever", "asthma with wheeze")
    assert outside(panel, (*named, *kept, "asthmatic cough")) == kept
    assert outside(panel, ()) == ()
    with pytest.raises(BadInput, match="belongs to the panel"):
        BankPlan(panel, "m", BuildSettings(1, 2, conditions=("dengue",))).planned(BACKGROUND, 0)


def test_a_list_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "near.txt"
    file.write_text("# near misses" + "!" * 200 + "\nmalaria\n\n  scurvy \nMalaria\n", encoding="utf-8-sig")
    assert read_conditions(file) == ("malaria", "scurvy")
    bad = {
        b"# nothing\n": "names no condition", b"x" * 121: "line 1", b"malaria\na\x00b\n": "line 2",
        b"\xff\xfe": "UTF-8",
    }  # fmt: skip
    for content, complaint in bad.items():
        file.write_bytes(content)
        with pytest.raises(BadInput, match=complaint):
            read_conditions(file)
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BadInput, match="cannot be read"):
            read_conditions(place)
