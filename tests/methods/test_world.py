"""The library beside the panels: what stands there, and what probes of other conditions get."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx import Classifier, library
from simdx.methods import PanelData
from simdx.methods.calibration_record import SLOPE, OutsideScale, SentenceScale
from simdx.methods.world import EXPECTED, World, world_log_odds
from simdx.panels import PACKAGED
from simdx.types import NONE_OF_THESE, Bank, Panel

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


PROBES = rows("outside_probes.jsonl")


def outside_of(panel: str) -> list[dict]:
    return [probe for probe in PROBES if panel not in probe["inside"]]


def test_a_panel_file_switches_the_library_off(toy_panel: Panel, toy_bank: Bank) -> None:
    from simdx.embedders import get_embedder

    data = PanelData.prepare(toy_panel, toy_bank, get_embedder("wordllama"))
    assert World.fit(data) is not None
    assert World.fit(replace(data, panel=replace(toy_panel, world=False))) is None


MENINGITIS = "fever of 40, a terrible headache, a stiff neck and light hurts my eyes"
CLOT = "My calf is swollen after a long flight, I am short of breath. And now I coughed up blood."


def test_an_emergency_that_is_no_label_is_named_and_nothing_is_accepted() -> None:
    classifier = Classifier("symptom-to-diagnosis")
    for text, name in ((MENINGITIS, "bacterial meningitis"), (CLOT, "pulmonary embolism")):
        answer = classifier.infer(text)
        assert answer.outside is not None
        named = {near.condition: near for near in answer.outside.nearest}
        assert named[name].emergency
        assert answer.decision.action in ("test", "review")
        assert any(name in reason for reason in answer.decision.reasons) or answer.label == "none of these"
        total = sum(near.probability for near in answer.outside.nearest)
        assert total <= (answer.out_of_class or 0) + 1e-9


def test_an_emergency_that_is_a_kind_of_a_label_is_named() -> None:
    """A septic arthritis is an arthritis, and a reader who is told no more would miss it."""
    classifier = Classifier("symptom-to-diagnosis")
    plain, septic = classifier.infer(
        [
            "My knees creak on the stairs, the finger joints are stiff for an hour every morning, for years.",
            "My right knee swelled up overnight, red and so hot I can't bear the sheet on it, I can't bend "
            "it at all and I have the shivers with 39.5, two weeks after an injection into it.",
        ],
        explain=False,
    )
    assert {plain.leading_label, septic.leading_label} == {"arthritis"}
    assert septic.decision.action in ("test", "review")
    assert any("could be septic arthritis (emergency)" in reason for reason in septic.decision.reasons)
    assert not any("emergency" in reason for reason in plain.decision.reasons)
    world = classifier.fitted.world
    hidden = {
        name: {c.name for c, one in zip(world.conditions, row & ~world.outside, strict=True) if one}
        for name, row in zip(classifier.panel.names, world.urgent, strict=True)
    }
    assert hidden.pop("arthritis") == {"septic arthritis"}
    assert not any(hidden.values())  # the others are emergencies themselves, or hide none


def test_a_sentence_that_the_label_does_not_explain_is_marked() -> None:
    classifier = Classifier("symptom-to-diagnosis")
    plain = "I wheeze at night and my chest feels tight. The inhaler helps when I am short of breath."
    strange = "I fell off a ladder and the bone sticks out through the skin of my shin."
    assert classifier.infer(plain).unexplained == ()
    assert strange in classifier.infer(f"{plain} {strange}").unexplained
    # a finding of another condition beside those of the label, though the label stays the answer
    calf = classifier.infer("I am wheezing and short of breath at night. My calf is swollen.")
    assert calf.leading_label == "bronchial asthma"
    assert calf.unexplained == ("My calf is swollen.",)
    assert calf.decision.action == "test"


@pytest.mark.parametrize(
    "last",
    [
        "My father died of lung cancer.",
        "No fever, no rash, no chest pain.",
        "The blood tests and the stool sample were normal.",
    ],
)
def test_what_is_denied_normal_or_a_relatives_needs_no_explanation(last: str) -> None:
    stiff = "My knees and hands are stiff in the mornings and have been for years."
    classifier = Classifier("symptom-to-diagnosis")
    assert classifier.infer(f"{stiff} {last}").unexplained == ()
    own = "I have had lung cancer and the chest is now full of fluid."
    assert classifier.infer(f"{stiff} {own}").unexplained == (own,)


WHEEZE = "I am wheezing and tight in the chest. I coughed up blood this morning after the long flight."
NECK = "Fever of 39.5 for three days, all my joints ache. My neck is stiff and I cannot bear the light."


@pytest.mark.parametrize(
    ("text", "label", "finding", "condition"),
    [
        (WHEEZE, "bronchial asthma", "coughing up blood", "pulmonary embolism"),
        (NECK, "dengue", "a stiff neck", "bacterial meningitis"),
    ],
)
def test_a_red_flag_is_not_explained(text: str, label: str, finding: str, condition: str) -> None:
    classifier = Classifier("symptom-to-diagnosis")
    for said in (text, text.replace(". ", ", ", 1)):  # in a sentence of its own, and in one with the rest
        answer = classifier.infer(said)
        assert answer.leading_label == label
        assert answer.decision.action in ("test", "review")
        (flag,) = answer.red_flags
        assert (flag.finding, flag.condition) == (finding, condition)
        assert flag.sentence in answer.unexplained
        assert any(f"({flag.words})" in reason for reason in answer.decision.reasons)
    denied = classifier.infer("I am wheezing and tight in the chest. I have never coughed up blood.")
    assert denied.red_flags == ()


def test_a_red_flag_of_another_label_of_the_panel_counts() -> None:
    classifier = Classifier("oral-lesions")
    lump = "Bluish soft lump on the inside of the lower lip that comes and goes."
    assert classifier.infer(lump).red_flags == ()
    numb = classifier.infer(f"{lump} My lip and chin have been numb for a month and two teeth are loose.")
    assert numb.leading_label == "oral mucocele"
    assert numb.decision.action in ("test", "review")
    assert [flag.condition for flag in numb.red_flags] == ["oral squamous cell carcinoma"]


def test_red_flags_without_calibrated_sentences_and_beside_other_topics(
    toy_panel: Panel, toy_bank: Bank
) -> None:
    classifier = Classifier("symptom-to-diagnosis")
    assert classifier.fitted.calibration is not None
    classifier.fitted.calibration = replace(classifier.fitted.calibration, unexplained=None)
    answer = classifier.infer(WHEEZE)
    assert answer.unexplained == (answer.red_flags[0].sentence,) == (WHEEZE.partition(". ")[2],)
    # a panel that is not about illness has none
    answers = [
        Classifier(replace(toy_panel, register=register), toy_bank, embedder="wordllama").infer(
            "Red sweet fruit from the orchard tree, with core and peel. I cough up blood.", explain=False
        )
        for register in ("lay", "general")
    ]
    assert [len(answer.red_flags) for answer in answers] == [1, 0]


def test_a_red_flag_costs_each_label_that_does_not_explain_it() -> None:
    classifier = Classifier("symptom-to-diagnosis")
    world, names = classifier.fitted.world, classifier.panel.names
    assert world is not None
    plain, flagged = world.surprise(["It itches.", "My neck is stiff and I coughed up blood."])
    assert not plain.any()
    assert flagged[names.index("dengue")] == pytest.approx(-2 * np.log(EXPECTED))  # neither is a dengue's
    # A stiff neck is what cervical spondylosis has.
    assert flagged[names.index("cervical spondylosis")] == pytest.approx(-np.log(EXPECTED))
    text = "A swollen calf, then I coughed up blood and got breathless after a flight."
    answer = classifier.infer(text, explain=False)
    assert answer.label == NONE_OF_THESE
    assert answer.outside is not None
    assert answer.outside.nearest[0].condition == "pulmonary embolism"
    # what is denied, or a relative's, costs nothing
    assert not world.surprise(["No stiff neck. My father coughed up blood."]).any()


def test_the_threshold_of_a_sentence_keeps_to_one_text_in_ten() -> None:
    rng = np.random.default_rng(0)
    excess = rng.exponential(2.0, size=20_000) - 3
    level = float(np.quantile(excess, 0.9))
    scale = SentenceScale(level, float((excess[excess > level] - level).mean()))
    assert scale.threshold(1) == scale.threshold(0) == level
    for n in (2, 5, 20):
        texts = rng.choice(excess, size=(4000, n))
        assert 0.07 < (texts > scale.threshold(n)).any(axis=1).mean() < 0.12


@pytest.mark.parametrize("panel", PACKAGED)
def test_probes_by_another_writer_who_saw_neither_library_nor_panels(panel: str) -> None:
    classifier = Classifier(panel)
    outside, inside = (
        [row for row in rows("blind_probes.jsonl") if key in row] for key in ("condition", "label")
    )
    answers = classifier.infer([row["text"] for row in outside], explain=False)
    assert np.mean([answer.out_of_class for answer in answers]) >= 0.8
    assert np.mean([answer.decision.action == "accept" for answer in answers]) <= 0.01
    if panel == "symptom-to-diagnosis":
        answers = classifier.infer([row["text"] for row in inside], explain=False)
        assert np.mean([a.label == row["label"] for a, row in zip(answers, inside, strict=True)]) >= 0.9
        assert np.mean([answer.out_of_class for answer in answers]) <= 0.08
        assert np.mean([answer.decision.action == "accept" for answer in answers]) >= 0.1


def test_a_list_of_questions_is_not_weighed_against_the_library() -> None:
    scale = OutsideScale((0.0,), (1.0,), 1.0)
    features = np.array([[3.0], [3.0]])
    found = world_log_odds(features, ["Do you have a fever? Yes", "I have a fever"], scale)
    assert found[0] == -np.inf
    assert found[1] == pytest.approx(3.0)  # at most what the likelihoods say; the scale says 2 * SLOPE
    assert SLOPE > 1.5


@pytest.mark.slow
def test_a_panel_from_the_library_needs_no_model(tmp_path: Path, private_home: Path) -> None:
    (tmp_path / "headaches.yaml").write_text(
        "register: patient\nlabels: [migraine, tension headache, cluster headache]\n"
    )
    classifier = Classifier(tmp_path / "headaches.yaml")
    world = classifier.fitted.world
    named = {c.name for c, beside in zip(world.conditions, world.outside, strict=True) if beside}
    assert named == {c.name for c in library.conditions()} - library.related_to(classifier.panel.labels)
    assert classifier.fitted.calibration.share == 0.5  # its texts are too unlike one another to choose
    cases = rows("headache_cases.jsonl")
    table = classifier.infer_batch([case["text"] for case in cases])
    given = [classifier.outcomes[i] for i in table.posterior.argmax(axis=1)]
    right = np.mean([label == case["label"] for label, case in zip(given, cases, strict=True)])
    assert right >= 0.85
    none = classifier.infer_batch([probe["text"] for probe in outside_of("headaches")]).out_of_class
    assert none.mean() >= 0.75
    answer = classifier.infer(cases[0]["text"])
    assert answer.label == "migraine"
    assert answer.decision.action != "accept"  # no labelled case has checked it


def test_a_panel_without_a_bank_of_its_own_may_switch_the_library_off(
    tmp_path: Path, private_home: Path
) -> None:
    """`world: false` changed nothing where the library describes the labels."""
    file = tmp_path / "p.yaml"
    for world in ("true", "false"):
        file.write_text(f"labels: [gout, migraine]\nworld: {world}\n", encoding="utf-8")
        answer = Classifier(file).infer("My big toe is hot, red and swollen since last night.")
        assert answer.label == "gout"
        assert (answer.out_of_class is not None) == (world == "true")
