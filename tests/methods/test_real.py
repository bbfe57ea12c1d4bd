"""Real cases as weighted simulations: weights mean copies, everything stays quiet about the texts."""

import json
from pathlib import Path

import numpy as np
import pytest

from simdx import BadInput, Prior
from simdx.bank.files import write_jsonl
from simdx.datasets import Dataset
from simdx.evaluate import evaluate
from simdx.methods import PanelData, Settings
from simdx.methods.logistic import fit_logistic
from simdx.methods.outside import BackgroundModel
from simdx.methods.real_cases import WEIGHT, Given, with_real
from simdx.methods.recipe import LabelPosterior
from simdx.methods.scores import self_consistent_bias
from simdx.types import NONE_OF_THESE, Bank, Case, Panel
from tests import builders
from tests.builders import toy_classifier
from tests.cli.conftest import Cli
from tests.faults.world import write_world

# The words of real texts mean other labels than in the bank: real cases must be able to teach that.
MOVED = [
    Case("a boat upon a stream", label="apple"),
    Case("a bridge over the flood", label="apple"),
    Case("the motor and its gear", label="river"),
    Case("oil for the piston", label="river"),
    Case("the orchard fruit tree", label="engine"),
    Case("sweet red juice", label="engine"),
]


@pytest.fixture
def panel_data() -> PanelData:
    return builders.panel_data(background=("a grey cloud above", "a stone wall", "a cloud and a wall"))


def test_a_weight_of_three_is_three_copies() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 5))
    y = np.sort(rng.integers(0, 3, 30))
    weight = rng.integers(1, 4, 30)
    copied = np.repeat(np.arange(30), weight)
    once = fit_logistic(x, y, 3, 0.5, weight.astype(float)).probabilities(x)
    many = fit_logistic(x[copied], y[copied], 3, 0.5).probabilities(x)
    assert np.allclose(once, many, atol=1e-3)  # two runs of an iterative minimiser
    assert not np.allclose(once, fit_logistic(x, y, 3, 0.5).probabilities(x), atol=1e-2)


def test_weighted_self_consistency_returns_the_prior() -> None:
    """The fixed point itself: weighted leave-one-out posteriors average to the uniform prior."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(24, 4)) + np.repeat(np.eye(4)[:3], 8, axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    label = np.repeat(np.arange(3), 8)
    weight = rng.uniform(0.5, 5, 24)
    bias = self_consistent_bias(rows, label, 3, 0.3, weight)
    mean = np.zeros(3)
    for i in range(24):
        density = np.zeros(3)
        for k in range(3):
            others = [j for j in np.flatnonzero(label == k) if j != i]
            near = np.exp((rows[others] @ rows[i] - 1) / 0.3)
            density[k] = np.exp(bias[k]) * (weight[others] @ near) / weight[others].sum()
        mean += weight[i] / weight[label == label[i]].sum() * density / density.sum() / 3
    assert np.allclose(mean, 1 / 3, atol=1e-6)
    assert np.allclose(self_consistent_bias(rows, label, 3, 0.3, np.full(24, 7.0)),
                       self_consistent_bias(rows, label, 3, 0.3))  # fmt: skip


def test_real_cases_teach_what_simulations_got_wrong(panel_data: PanelData) -> None:
    cases = panel_data.observe(["fruit of the orchard", "a boat on the stream", "the motor and its oil"])
    prior = Prior.uniform(3)
    assert LabelPosterior(panel_data)(cases, prior).probabilities.argmax(axis=1).tolist() == [0, 1, 2]
    taught = LabelPosterior(with_real(panel_data, MOVED * 3, weight=50.0))(cases, prior).probabilities
    assert taught.argmax(axis=1).tolist() == [2, 0, 1]


def test_answers_state_real_cases_and_never_quote_or_keep_them(private_home: Path, toy_bank: Bank) -> None:
    plain = toy_classifier().infer("a boat").provenance.notes
    assert not any("real" in note for note in plain)
    kept = sorted(private_home.rglob("*.safetensors"))
    assert kept
    classifier = toy_classifier(real_cases=MOVED)
    answer = classifier.infer("a boat upon a stream", ask=True)
    assert (
        f"2 real labelled cases per label, each counted as {WEIGHT:g} simulations" in answer.provenance.notes
    )
    assert {e.text for e in answer.evidence} <= set(toy_bank.texts)
    whole = json.dumps(answer.to_json())
    assert not any(case.text in whole for case in MOVED[1:])
    shares = classifier.fitted.evidence(classifier.observe(["a boat upon a stream"]), Prior.uniform(3)).share
    assert shares.shape == (1, len(toy_bank.texts))
    assert 0 < shares.sum() < 1  # real cases carry the rest
    assert sorted(private_home.rglob("*.safetensors")) == kept


def test_settings_tell_sets_of_real_cases_apart() -> None:
    one = toy_classifier(real_cases=MOVED)
    two = toy_classifier(real_cases=MOVED[:3])
    assert one.settings.real != two.settings.real
    assert one.desk.fingerprint != two.desk.fingerprint
    assert toy_classifier().settings.real is None


def test_a_case_given_with_its_label_is_not_evaluated(toy_panel: Panel, panel_data: PanelData) -> None:
    lamp = Case("a lamp", label=NONE_OF_THESE)
    classifier = toy_classifier(panel_data.bank, real_cases=[*MOVED, lamp])
    again = Dataset("toy", (Case("A  boat upon a stream", "1", "apple"), *MOVED[3:]), toy_panel.names)
    with pytest.raises(BadInput, match="4 evaluated cases are also among the real cases"):
        evaluate(classifier, again)
    new = Dataset("toy", (Case("some fruit", "1", "apple"), Case("a river", "2", "river")), toy_panel.names)
    outside = Dataset("out", (Case("A lamp!"), Case("a wall")), ())
    with pytest.raises(BadInput, match="1 evaluated cases are also among the real cases"):
        evaluate(classifier, new, ood=outside, resamples=100)


def test_the_verbs_take_files(tmp_path: Path, cli: Cli) -> None:
    write_world(tmp_path)
    for name, rows in (("real", MOVED), ("cases", [Case(f"{c.text} here", label="apple") for c in MOVED])):
        write_jsonl(tmp_path / f"{name}.jsonl", ({"label": c.label, "text": c.text} for c in rows))
    given = ("--panel", tmp_path / "with-bank.yaml", "--json", "--real", tmp_path / "real.jsonl")
    said = "2 real labelled cases per label, each counted as 1 simulations"
    assert said in cli("classify", "a boat", *given).json["provenance"]["notes"]
    tested = tmp_path / "cases.jsonl"
    many = cli("evaluate", "--data", tested, *given, "--unlabelled", tested, "--resamples", "100").json
    assert many["provenance"]["notes"] == [
        said,
        "cases centred on an archive (6 unlabelled), which counts as 6.0 simulations; "
        "the thresholds do not use it",
    ]


def test_real_cases_of_none_of_the_labels_join_the_background(panel_data: PanelData) -> None:
    """Texts like them become none of these; a label's own stay its own."""
    others = [Case(t, label=NONE_OF_THESE) for t in ("a bridge of cards", "cards and a bridge")]
    taught = with_real(panel_data, [*MOVED[:1], *others], weight=2.0)
    assert taught.real.label_index.tolist() == [0, 3, 3]
    before, after = BackgroundModel.fit(panel_data), BackgroundModel.fit(taught)
    assert before is not None
    assert after is not None
    seen = panel_data.observe(["bridge and cards", "red sweet fruit"])
    ahead = [o.features(seen)[:, 0] for o in (before, after)]
    assert ahead[1][0] > ahead[0][0] + 0.5
    assert ahead[1][1] < 0
    assert taught.real.notes(3) == (
        "0 to 1 real labelled cases per label, each counted as 2 simulations",
        "real cases of none of the labels beside the background: 2",
    )
    # the answer among labels does not hold them
    assert len(LabelPosterior(taught).comparison.label_index) == len(panel_data.bank.texts) + 1


def test_cases_of_none_of_the_labels_are_left_out_without_a_background() -> None:
    """They still calibrate; only where nothing is left is it an error."""
    bare = builders.panel_data()
    others = [Case(text, label=NONE_OF_THESE) for text in ("a stone wall", "a grey cloud", "a lamp")]
    taught = with_real(bare, [*MOVED, *others])
    assert taught.real.texts == tuple(case.text for case in MOVED)
    assert taught.real.notes(3)[-1] == (
        "real cases of none of the labels left out, as the bank has no background: 3"
    )
    both = Given([*MOVED, *others], calibration=[*MOVED, *others]).added_to(bare, Settings())
    assert (both.calibration.basis, both.calibration.n) == ("measured", len(MOVED))
    with pytest.raises(BadInput, match="all real cases are none of these"):
        with_real(bare, others)
