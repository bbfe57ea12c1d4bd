"""Everything together, behind the front door."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.decide.policy import Policy, policy_text, read_policy
from simdx.decide.tune import cross_fitted, folds_in_turn
from simdx.errors import BadInput
from simdx.metrics.conformal import calibrate
from simdx.panels import load_source
from simdx.types import Bank, Panel
from tests.builders import wide_bank

CASE = "A soft bluish swelling of the lower lip that comes and goes. He bites his lip."


@pytest.fixture(scope="module")
def oral() -> Classifier:
    return Classifier("oral-lesions")


def test_every_key_of_the_contract_is_filled(oral: Classifier) -> None:
    answer = oral.infer(CASE).to_json()
    assert set(answer["alarm"]) >= {"score", "flag"}
    assert isinstance(answer["alarm"]["flag"], bool)
    assert sorted(s["text"] for s in answer["sentences"]) == [CASE[:60], CASE[61:]]
    assert answer["flip"]["label"] != answer["label"]
    assert 0 < answer["flip"]["prior"] < 1
    assert answer["decision"]["action"] in ("accept", "likely", "test", "review")
    assert answer["decision"]["reason"] == "; ".join(answer["decision"]["reasons"])
    assert answer["conformal_set"] is None  # no calibration cases were given
    assert answer["provenance"]["policy"] == "thresholds from simulated text"


def test_a_german_text_goes_to_review(oral: Classifier) -> None:
    found = oral.infer("Der Patient klagt über eine Schwellung der Unterlippe, die kommt und geht.").decision
    assert (found.action, found.reasons[0][:34]) == ("review", "the text does not read as English,")


def test_explanations_can_be_left_out(oral: Classifier) -> None:
    plain = oral.infer(CASE, explain=False)
    assert (plain.sentences, plain.flip, plain.missing_finding) == (None, None, None)
    assert plain.decision == oral.infer(CASE).decision


@pytest.mark.parametrize(
    "panel",
    [
        "oral-lesions",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("symptom-to-diagnosis", "case-reports")),
    ],
)
def test_packaged_policies_are_those_of_the_shipped_recipe(panel: str) -> None:
    """Mend: simdx policy tune --panel P --out src/simdx/panels/data/P/policy.yaml"""
    classifier = Classifier(panel)
    packaged = read_policy(load_source(panel).folder / "policy.yaml", classifier.panel)
    assert packaged.fits(classifier.desk.fingerprint)
    fresh = classifier.desk.tuned()
    assert packaged.thresholds.entropy_bits == pytest.approx(fresh.thresholds.entropy_bits, abs=2e-3)
    assert packaged.alarm.bandwidths == fresh.alarm.bandwidths
    for kept, found in zip(packaged.alarm.nulls, fresh.alarm.nulls, strict=True):
        assert kept.threshold == pytest.approx(found.threshold, abs=0.02)


def test_a_tuned_policy_is_remembered(private_home: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    first = Classifier(toy_panel, toy_bank).policy
    assert list((private_home / "policies").iterdir())
    assert Classifier(toy_panel, toy_bank).policy == first
    other = replace(toy_bank, texts=(*toy_bank.texts[1:], "an entirely new text"))
    assert Classifier(toy_panel, other).policy.origin.made_for != first.origin.made_for


def test_cross_fitting_never_sees_the_text_it_answers(toy_panel: Panel, toy_bank: Bank) -> None:
    """A bank of one-word texts: whoever held the text would be certain, who did not cannot know it."""
    texts = tuple(f"unique{i}" for i in range(30))
    bank = replace(toy_bank, texts=texts, label_index=np.arange(30) % 3)
    classifier = Classifier(toy_panel, bank)
    policy = classifier.desk.tuned()
    (note,) = classifier.infer("unique3").provenance.notes
    assert "and there are 30" in note
    rows, answers = cross_fitted(classifier.data, classifier.settings)
    right = answers.posterior.argmax(axis=1) == bank.label_index[rows]
    assert right.mean() < 0.7  # chance is a third
    assert policy.origin.n == 30
    folds = folds_in_turn(np.array([0, 0, 0, 1]), 2)
    assert folds.tolist() == [0, 1, 0, -1]


def test_a_policy_file_decides(tmp_path: Path, toy_panel: Panel) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "thresholds: {confident: 0.0, typicality: null, must_not_miss: null, alarm: false}\n"
        "review_rules: [{name: boats, phrases: [boat], reason: a boat is involved}]\n",
        encoding="utf-8",
    )
    c = Classifier(toy_panel, wide_bank(), policy=file)
    assert c.infer("red sweet fruit tree orchard juice").decision.action == "likely"
    assert c.infer("the boat on the water").decision.reasons[0] == "a boat is involved"
    with pytest.raises(BadInput, match="cannot be read"):
        Classifier(toy_panel, wide_bank(), policy=tmp_path / "none.yaml")


def test_a_bank_of_near_copies_accepts_nothing(toy_panel: Panel) -> None:
    """Such a bank tells all of its own texts apart; a case in other words is none of these."""
    said = {"apple": "a round red fruit that grows on a tree", "river": "cold water that runs to the sea"}
    texts = tuple(
        f"{word} {said.get(label, 'an engine that burns oil and turns a wheel')} since day {i}"
        for label in toy_panel.names
        for i, word in enumerate(["now", "so", "then", "here"] * 10)
    )
    copies = replace(wide_bank(), texts=texts, label_index=np.repeat(np.arange(3), 40))
    answer = Classifier(toy_panel, copies).infer(texts[0])
    assert answer.decision.action != "accept"
    assert any("too similar" in reason for reason in answer.decision.reasons)


def test_calibrated_sets_and_when_they_are_withheld(tmp_path: Path, toy_panel: Panel, toy_bank: Bank) -> None:
    c, rng, names = Classifier(toy_panel, toy_bank), np.random.default_rng(0), toy_panel.names
    pick = rng.integers(0, 36, 60)
    truth = toy_bank.label_index[pick]
    texts = [" ".join(rng.permutation(toy_bank.texts[i].split())[:3]) for i in pick]

    def under(policy: Policy, **how: str) -> Classifier:
        file = tmp_path / "tuned.yaml"
        file.write_text(policy_text(policy), encoding="utf-8")
        assert not any(text in file.read_text() for text in texts)  # numbers only
        return Classifier(toy_panel, toy_bank, policy=file, **how)

    policy = c.tune_policy(texts, truth, risk=0.2)
    tuned = under(policy)
    sets = [tuned.infer(t, explain=False).conformal_set or () for t in texts]
    held = [names[k] in found for k, found in zip(truth, sets, strict=True)]
    assert np.mean(held) >= 0.9  # on the calibration cases themselves it holds by construction
    # Class-conditional sets hold whatever the labels' shares: only a label that cannot come goes.
    assert tuned.infer(texts[0], prior={"apple": 0.8}).conformal_set == sets[0]
    assert tuned.infer(texts[0], prior={sets[0][0]: 0.0}).conformal_set == sets[0][1:]
    split = c.tune_policy(texts, truth, risk=0.2, kind="split")
    assert len(split.conformal.scores["apple"]) == int((truth == 0).sum())
    limits = calibrate(c.predict_proba(texts), truth, kind="split", prior=[0.8, 0.1, 0.1])
    inside = limits.sets(c.predict_proba(texts[:1]))[0]
    moved = under(split).infer(texts[0], prior={"apple": 0.8})
    assert moved.conformal_set == tuple(n for n, held in zip(names, inside, strict=True) if held)
    for withheld, said in (
        (under(replace(split, conformal=replace(split.conformal, scores=None))), "uniform prior"),
        (under(policy, method="m-smc"), "another bank, embedder or method"),
    ):
        answer = withheld.infer(texts[0], prior={"apple": 0.8})
        assert answer.conformal_set is None
        assert said in answer.provenance.notes[0]


def test_methods_that_cannot_be_refitted_still_get_an_alarm(toy_panel: Panel, toy_bank: Bank) -> None:
    c = Classifier(toy_panel, toy_bank, method="m-smc", engine="particles")
    answer = c.infer("red sweet fruit. From the old tree there.")
    assert answer.alarm is not None
    assert answer.sentences is None  # a dozen sampler runs are not worth an explanation
    assert answer.flip is None


def test_a_witness_is_asked_by_the_alarm_alone(tmp_path: Path, private_home: Path) -> None:
    """A bank that is no part of the answer still gives the alarm views of its own."""
    rows = [("apple", "sweet red fruit"), ("apple", "crisp orchard peel")]
    rows += [("river", "cold wet bank"), ("river", "deep slow water")]
    lines = "".join(f'{{"label": "{label}", "text": "{text}"}}\n' for label, text in rows)
    (tmp_path / "bank.jsonl").write_text(lines)
    (tmp_path / "other.jsonl").write_text(lines.replace("sweet", "green").replace("deep", "muddy"))
    head = "labels: [apple, river]\nembedder: hashing\nbanks: [bank.jsonl]\n"
    alone, heard = tmp_path / "alone.yaml", tmp_path / "heard.yaml"
    alone.write_text(head)
    heard.write_text(head + "witnesses: [other.jsonl]\n")
    one, two = (Classifier(panel).infer("a sweet red peel") for panel in (alone, heard))
    assert one.posterior == two.posterior
    assert len(two.alarm.views) == 2 * len(one.alarm.views)
