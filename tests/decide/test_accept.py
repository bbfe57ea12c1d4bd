"""An answer is accepted only where labelled inside and outside cases have shown what accepting costs."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.decide import policy as policies
from simdx.decide import tune
from simdx.decide.decision import Facts, decide, excluded
from simdx.decide.policy import (
    AcceptEvidence,
    Policy,
    Thresholds,
    Tried,
    check_policy,
    most_allowed,
    policy_data,
    policy_words,
    upper_end,
)
from simdx.decide.tune import cross_fitted
from simdx.disk import sealed
from simdx.errors import BadInput
from simdx.methods import RECIPE_VERSION, fitted
from simdx.methods.calibration_record import OutsideScale
from simdx.panels import PACKAGED
from simdx.types import Bank, Label, Panel
from tests.builders import WORDS

SURE = np.array([0.95, 0.03, 0.02])
RECORD = AcceptEvidence("cases", 40, 30, 1, 100, 0, upper_end(0, 100), {"bank": "b"})


def facts(**more: object) -> Facts:
    return replace(Facts(SURE, 0.1, out_of_class=0.01, typicality=0.5), **more)


# --------------------------------------------------------------------------- the rule


def test_what_is_missing_of_the_panel_leaves_likely_and_is_said(toy_panel: Panel) -> None:
    found = decide(toy_panel, facts(missing=("no outside cases; give 60", "no library")))
    assert found.action == "likely"
    assert found.reasons == ("not accepted automatically: no outside cases; give 60", "no library")
    # limits on the answer itself go before, and then nothing is said of the panel
    doubtful = decide(toy_panel, facts(missing=("no outside cases",), effective_simulations=1.0))
    assert (doubtful.action, len(doubtful.reasons)) == ("test", 1)
    assert decide(toy_panel, facts(missing=("no outside cases",), out_of_class=0.9)).action == "review"


def test_a_utility_matrix_cannot_do_without_evidence(toy_panel: Panel) -> None:
    gain = {name: {other: float(name == other) for other in toy_panel.names} for name in toy_panel.names}
    assert decide(toy_panel, facts(), Policy(utility=gain)).action == "accept"
    assert decide(toy_panel, facts(missing=("no outside cases",)), Policy(utility=gain)).action == "likely"


@pytest.mark.parametrize(("p", "said"), [(0.0, "its prior is 0 %"), (0.005, "its prior is 0.5 %")])
def test_a_must_not_miss_label_that_the_prior_sets_aside_forbids_accepting(
    toy_panel: Panel, p: float, said: str
) -> None:
    prior = np.array([0.6, 0.4 - p, p])
    found = decide(toy_panel, facts(prior=prior))
    assert found.action == "likely"
    assert f"'engine' must not be missed, and {said}" in found.reason
    assert decide(toy_panel, facts(prior=np.array([0.5, 0.48, 0.02]))).action == "accept"
    assert decide(toy_panel, facts(prior=np.array([0.6, 0.0, 0.4]))).action == "accept"  # any other label


def test_an_even_prior_excludes_nothing_however_many_labels_there_are() -> None:
    assert not excluded(np.full(400, 1 / 400)).any()
    assert excluded(np.array([0.0, *[1 / 399] * 399])).tolist() == [True, *[False] * 399]


@pytest.mark.parametrize(
    ("even", "action", "said"),
    [
        ((0.4, 0.6, 0.0), "test", "the prior excludes 'river', which would lead with 60 % under an even one"),
        ((0.6, 0.4, 0.0), "accept", ""),
    ],
)
def test_an_answer_of_an_excluded_label_s_evidence_is_not_accepted(
    toy_panel: Panel, even: tuple[float, ...], action: str, said: str
) -> None:
    found = decide(toy_panel, facts(prior=np.array([0.5, 0.0, 0.5]), even=np.array(even)))
    assert found.action == action
    assert said in found.reason


def test_an_excluded_label_that_must_not_be_missed_is_tested_for_where_the_text_speaks_for_it(
    toy_panel: Panel,
) -> None:
    found = decide(toy_panel, facts(prior=np.array([0.5, 0.5, 0.0]), even=np.array([0.7, 0.0, 0.3])))
    assert found.action == "test"
    assert "'engine' must not be missed and would have 30 % under an even prior" in found.reason


def test_what_the_answer_leaves_open_is_tested(toy_panel: Panel) -> None:
    open_ = decide(toy_panel, facts(unexplained=("I coughed up blood.",)))
    assert (open_.action, open_.reason) == ("test", "1 sentence not explained by 'apple'")
    near = decide(toy_panel, facts(rival=("pulmonary embolism", 0.12)))
    assert (near.action, near.reason) == ("test", "could be pulmonary embolism (emergency), 12 %")


def test_a_bank_that_was_refuted_is_no_likely_one(toy_panel: Panel) -> None:
    found = decide(toy_panel, facts(refuted=("only 40% of its texts were right",), missing=("no cases",)))
    assert (found.action, len(found.reasons)) == ("test", 1)


# --------------------------------------------------------------------------- the record


def test_fifty_nine_outside_cases_are_the_fewest() -> None:
    assert upper_end(0, 59) <= 0.05 < upper_end(0, 58)
    assert upper_end(3, 3) == 1.0
    assert upper_end(0, 0) == 1.0
    assert upper_end(13, 327) == pytest.approx(0.0624, abs=1e-4)  # R: binom.test(13, 327, alternative="less")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"inside": 19}, "only 19 labelled cases of its labels"),
        ({"accepted": 0, "wrong": 0}, "none of 40 labelled cases of its labels passes every limit"),
        ({"wrong": 2}, "2 of 30 labelled cases that passed every check were wrong"),
        ({"outside": 58}, "only 58 labelled outside cases; the minimum is 60"),
        ({"outside_accepted": 4, "upper": upper_end(4, 100)}, "4 of 100 labelled outside cases would be"),
    ],
)
def test_what_a_record_lacks(change: dict[str, object], said: str | None) -> None:
    (*found,) = replace(RECORD, **change).shortcomings()
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_a_record_is_counted_and_survives_the_file(toy_panel: Panel) -> None:
    accepted, wrong = np.arange(30) < 20, np.arange(30) % 10 == 0
    inside, outside = Tried(accepted, None), Tried(np.arange(80) == 3, None)
    found = AcceptEvidence.counted(inside, wrong, outside, {"bank": "b"}, "mine")
    assert (found.inside, found.accepted, found.wrong, found.outside, found.outside_accepted) == (
        30, 20, 2, 80, 1,
    )  # fmt: skip
    policy = Policy(panel="toy", evidence=found)
    assert check_policy(policy_data(policy), "here", toy_panel) == policy
    assert any("mine: 20 of 30" in line for line in policy_words(policy))
    assert any("likely  is the strongest" in line for line in policy_words(Policy()))
    with pytest.raises(BadInput, match="upper"):
        check_policy({"evidence": {**policy_data(policy)["evidence"], "upper": 7}}, "here")


def test_where_too_many_outside_cases_pass_a_limit_is_set_and_counted_on_other_cases() -> None:
    assert most_allowed(58) == -1
    assert [most_allowed(n) for n in (59, 200, 786)] == [0, 4, 29]
    rng = np.random.default_rng(1)
    inside, outside = Tried(np.ones(300, dtype=bool), rng.beta(1, 40, 300)), rng.beta(4, 4, 400)
    some = rng.random(400) < 0.2  # outside cases that look like inside ones in everything else
    found = AcceptEvidence.counted(inside, np.zeros(300, dtype=bool), Tried(some, outside), {}, "mine")
    assert found.none_limit is not None
    assert ((outside < found.none_limit) & some).sum() == int(most_allowed(400) * 2 / 3)
    assert 0 < found.outside_accepted <= most_allowed(400)
    assert found.accepted == (inside.none < found.none_limit).sum() > 200
    assert not list(found.shortcomings())
    few = AcceptEvidence.counted(
        inside, np.zeros(300, dtype=bool), Tried(some & (outside > 0.9), outside), {}, "mine"
    )
    assert few.none_limit is None
    hopeless = Tried(some, np.zeros(400))  # nothing separates them: the limit lets nothing through
    none = AcceptEvidence.counted(inside, np.zeros(300, dtype=bool), hopeless, {}, "mine")
    assert none.accepted == 0
    assert list(none.shortcomings())


def test_an_answer_beyond_the_limit_is_likely(toy_panel: Panel, bank: Bank) -> None:
    policy = tuned(toy_panel, bank)
    assert policy.evidence is not None
    for limit, action in ((1.0, "accept"), (0.0, "likely")):
        limited = replace(policy, evidence=replace(policy.evidence, none_limit=limit))
        found = Classifier(toy_panel, bank, policy=limited).infer(CASE, explain=False).decision
        assert found.action == action
        assert ("outside cases support accepting below" in found.reason) == (action == "likely")


def test_other_limits_are_another_policy_and_rules_of_review_are_not() -> None:
    rule = check_policy({"review_rules": [{"name": "r", "phrases": ["boat"]}]}, "here")
    assert rule.limits == Policy().limits
    assert Policy(thresholds=Thresholds(confident=0.5)).limits != Policy().limits


# --------------------------------------------------------------------------- found and used


@pytest.fixture
def bank(toy_bank: Bank) -> Bank:
    words = np.array([text.split() for text in toy_bank.texts])
    texts = tuple(" ".join(np.roll(row, i)) for i in range(3) for row in words)
    background = tuple(f"quiet library book shelf page {i} paper reader" for i in range(20))
    return replace(toy_bank, texts=texts, label_index=np.tile(toy_bank.label_index, 3), background=background)


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
    assert "no labelled outside cases; give 60 with" in inside_alone.decision.reason
    few = Classifier(toy_panel, bank, policy=tuned(toy_panel, bank, 30)).infer(CASE, explain=False)
    assert few.decision.action == "likely"
    assert "only 30 labelled outside cases" in few.decision.reason


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


def test_excluded_labels_carry_no_evidence(toy_panel: Panel, bank: Bank) -> None:
    answer = Classifier(toy_panel, bank).infer(CASE, prior={"river": 0.0, "engine": 0.0}, explain=False)
    assert {one.label for one in answer.evidence} == {"apple"}


def test_a_slider_at_nothing_does_not_make_an_answer_certain() -> None:
    """Fever after Uganda went to more tests for dengue, and with dengue's prior at 0 it was accepted."""
    classifier = Classifier("symptom-to-diagnosis")
    text = "fever every second day after Uganda, stiff neck"
    moved = classifier.infer(text, prior={"dengue": 0.0})
    assert moved.decision.action in ("test", "review")
    assert "'dengue' must not be missed and would have" in moved.decision.reason
    assert "dengue" not in {one.label for one in moved.evidence}  # the evidence is the answer's own


# --------------------------------------------------------------------------- packaged


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
    assert policies.UNTESTED in stale.missing


def test_a_damaged_record_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / policies.FILE
    monkeypatch.setattr(policies, "files", lambda _: tmp_path)
    for change, count in (("", 1), ("0", 0)):
        text = json.dumps(sealed({"evidence": [asdict(RECORD)]}))
        file.write_text(text.replace('"wrong": 1', f'"wrong": 1{change}'))
        policies.packaged_records.cache_clear()
        assert len(policies.packaged_records()) == count
    monkeypatch.undo()
    policies.packaged_records.cache_clear()


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
