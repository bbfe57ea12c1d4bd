"""An answer is accepted only where labelled inside and outside cases have shown what accepting costs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.decide import tune
from simdx.decide.policy import UNTESTED, Policy, policy_data
from simdx.decide.tune import cross_fitted
from simdx.errors import BadInput
from simdx.methods import RECIPE_VERSION, fitted
from simdx.methods.calibration_record import OutsideScale
from simdx.panels import PACKAGED
from simdx.types import Bank, Label, Panel
from tests.builders import WORDS, wide_bank


@pytest.fixture
def bank() -> Bank:
    return wide_bank()


def cases(n: int = 60) -> tuple[list[str], np.ndarray, list[str]]:
    """Inside cases with their labels, and outside ones."""
    rng, names = np.random.default_rng(3), list(WORDS)
    truth = np.arange(n) % 3
    inside = [" ".join(rng.permutation(WORDS[names[k]].split())) for k in truth]
    return inside, truth, [f"a book of {i} pages on a quiet shelf in the library" for i in range(n)]


def tuned(panel: Panel, bank: Bank, outside: int = 60) -> Policy:
    texts, truth, others = cases()
    return Classifier(panel, bank).tune_policy(texts, truth, risk=0.2, outside=others[:outside])


CASE = "red sweet fruit tree orchard juice core peel"


def test_a_panel_accepts_on_labelled_cases_inside_and_outside(toy_panel: Panel, bank: Bank) -> None:
    policy = tuned(toy_panel, bank)
    assert policy.evidence is not None
    assert (policy.evidence.inside, policy.evidence.outside) == (60, 60)
    answer = Classifier(toy_panel, bank, policy=policy).infer(CASE, explain=False)
    assert answer.decision.action == "accept"
    inside_alone = Classifier(toy_panel, bank, policy=tuned(toy_panel, bank, 0)).infer(CASE, explain=False)
    assert inside_alone.decision.action == "likely"
    assert inside_alone.headline.startswith("Likely: apple")
    assert (
        "no labelled outside cases (texts of none of the labels); give 60 with"
        in inside_alone.decision.reason
    )
    few = Classifier(toy_panel, bank, policy=tuned(toy_panel, bank, 30)).infer(CASE, explain=False)
    assert few.decision.action == "likely"
    assert "only 30 labelled outside cases" in few.decision.reason


def test_an_answer_beyond_the_limit_is_likely(toy_panel: Panel, bank: Bank) -> None:
    policy = tuned(toy_panel, bank)
    assert policy.evidence is not None
    for limit, action in ((1.0, "accept"), (0.0, "likely")):
        limited = replace(policy, evidence=replace(policy.evidence, none_limit=limit))
        found = Classifier(toy_panel, bank, policy=limited).infer(CASE, explain=False).decision
        assert found.action == action
        assert ("outside cases support accepting below" in found.reason) == (action == "likely")


def test_evidence_of_another_bank_or_other_limits_does_not_count(toy_panel: Panel, bank: Bank) -> None:
    policy = tuned(toy_panel, bank)
    other = replace(bank, texts=(*bank.texts[1:], "sweet red peel"))
    loose = replace(policy, thresholds=replace(policy.thresholds, typicality=None))
    for where, rule in ((other, policy), (bank, loose)):
        found = Classifier(toy_panel, where, policy=rule).infer(CASE, explain=False).decision
        assert found.action == "likely"
        assert "another bank, embedder, method or policy" in found.reason


def test_the_cases_that_tuned_a_policy_are_decided_by_one_from_the_others(
    toy_panel: Panel, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = tune.tune_on_labelled
    monkeypatch.setattr(
        tune, "tune_on_labelled", lambda p, answers, truth, *a, **k: sizes.append(len(truth)) or real(
            p, answers, truth, *a, **k
        ),
    )  # fmt: skip
    tuned(toy_panel, bank)
    assert sizes == [60, *[48] * 5]


def test_outside_cases_must_be_new_and_each_counts_once(toy_panel: Panel, bank: Bank) -> None:
    texts, truth, others = cases()
    classifier = Classifier(toy_panel, bank)
    with pytest.raises(BadInput, match="1 outside cases are also among the cases or in the bank"):
        classifier.tune_policy(texts, truth, outside=[*others, bank.background[0].upper()])
    twice = classifier.tune_policy(texts, truth, outside=[*others, *others])
    assert twice.evidence is not None
    assert twice.evidence.outside == 60


@pytest.mark.parametrize("label", [Label("apple", icd10=("A90",)), Label("migraine")])
def test_a_medical_panel_also_needs_the_library(toy_panel: Panel, bank: Bank, label: Label) -> None:
    panel = replace(toy_panel, labels=(label, *toy_panel.labels[1:]))
    own = replace(bank, labels=panel.names)
    found = Classifier(panel, own, policy=tuned(panel, own)).infer(CASE, explain=False).decision
    assert found.action == "likely"
    assert "the library is not compared with the text" in found.reason


def test_a_removed_label_that_the_text_speaks_for(toy_panel: Panel, bank: Bank) -> None:
    classifier = Classifier(toy_panel, bank, policy=tuned(toy_panel, bank))
    assert classifier.infer(CASE, prior={"river": 0.0}, explain=False).decision.action == "accept"
    only = classifier.prior(None, ["river", "apple"])
    found = classifier.infer(CASE, prior=only, explain=False).decision
    assert found.action == "likely"
    assert "'engine' must not be missed, and its prior is 0 %" in found.reason
    moved = classifier.infer(CASE, prior={"apple": 0.0}, explain=False).decision
    assert moved.action in ("test", "review")
    assert "the prior excludes 'apple'" in moved.reason


def test_a_slider_at_nothing_does_not_make_an_answer_certain() -> None:
    """Fever after Uganda went to more tests for dengue, and with dengue's prior at 0 it was accepted."""
    classifier = Classifier("symptom-to-diagnosis")
    text = "fever every second day after Uganda, stiff neck"
    moved = classifier.infer(text, prior={"dengue": 0.0})
    assert moved.decision.action in ("test", "review")
    assert "'dengue' must not be missed and would have" in moved.decision.reason
    assert "dengue" not in {one.label for one in moved.evidence}  # an excluded label carries none


@pytest.mark.parametrize("panel", PACKAGED)
def test_packaged_evidence_is_that_of_the_shipped_recipe(panel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mend: python benchmarks/packaged.py --data FOLDER --evidence"""
    desk = Classifier(panel).desk
    assert desk.evidence is not None
    assert desk.evidence.inside >= 200
    assert desk.evidence.outside >= 200
    monkeypatch.setattr(fitted, "RECIPE_VERSION", RECIPE_VERSION + 1)
    stale = Classifier(panel, policy=desk.policy).desk
    assert stale.evidence is None
    assert UNTESTED in stale.missing


def test_inner_fits_of_tuning_do_not_weigh_the_library(
    toy_panel: Panel, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = Classifier(toy_panel, bank)
    found = classifier.fitted.calibration
    assert found is not None
    scale = OutsideScale((0.0,) * 3, (1.0,) * 3, 1.0)
    data = replace(classifier.data, calibration=replace(found, world=scale))
    worlds: list[object] = []
    real = tune.fit_method
    monkeypatch.setattr(
        tune, "fit_method", lambda part, how: worlds.append(part.calibration.world) or real(part, how)
    )
    cross_fitted(data, classifier.settings)
    assert worlds == [None] * 5


def test_the_file_has_no_text(toy_panel: Panel, bank: Bank) -> None:
    texts, _, others = cases()
    said = json.dumps(policy_data(tuned(toy_panel, bank)))
    assert not any(text in said for text in (*texts, *others))
