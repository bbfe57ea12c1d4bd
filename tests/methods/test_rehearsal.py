"""A bank's calibration by itself: what it finds, what it refuses, and where it is kept."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from simdx import Classifier
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.methods.calibration import (
    address_for,
    calibrated,
    can_rehearse,
    folds_of,
    in_haste,
    rehearse,
)
from simdx.methods.calibration_record import (
    FILE,
    INSIDE_SHARE,
    MOST_FOUND,
    STEP,
    UNOPPOSED_SHARPNESS,
    Calibration,
    condition_log_odds,
    feature_score,
    keep,
    look_up,
    read_file,
    scale_of,
    threshold_at,
)
from simdx.types import Bank, Label, Panel

WORDS = {
    "apples": "apple orchard sweet red fruit tree cider apple basket harvest juice fruit green apple pie",
    "boats": "boat sail harbour wind mast rope the ship left the harbour with a motor rowing boat oar river",
}
OTHERS = "cloud rain sky storm grey weather the window of the house broke glass a train station ticket delay"


def texts_of(words: str, n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words.split(), 7)) + f" number {i}" for i in range(n)]


def panel_data(n: int = 30, background: int = 20, alike: bool = False) -> PanelData:
    panel = Panel("toy", (Label("apples"), Label("boats")), register="general")
    first = texts_of(WORDS["apples"], n, 1)
    second = texts_of(WORDS["apples" if alike else "boats"], n, 2)
    bank = Bank(
        "toy", panel.names, (*first, *second), np.repeat([0, 1], n), tuple(texts_of(OTHERS, background, 3))
    )
    return PanelData.prepare(panel, bank, get_embedder("wordllama"))


@pytest.fixture(scope="module")
def told_apart() -> Calibration:
    return rehearse(panel_data())


def test_labels_that_are_told_apart_pass(told_apart: Calibration) -> None:
    assert (told_apart.basis, told_apart.n, told_apart.writers) == ("rehearsed", 60, 2)
    assert told_apart.accuracy > 0.9
    assert told_apart.confused == ()
    assert told_apart.failures() == ()


def test_labels_that_overlap_are_named_and_cost_confidence(told_apart: Calibration) -> None:
    overlap = rehearse(panel_data(alike=True))
    assert [(c.first, c.second) for c in overlap.confused] == [("apples", "boats")]
    assert overlap.sharpness < told_apart.sharpness
    assert any("were classified correctly" in reason for reason in overlap.failures())


def test_a_bank_without_background_is_flat_and_never_accepts() -> None:
    bare = panel_data(background=0)
    found = rehearse(replace(bare, panel=replace(bare.panel, world=False)))
    assert found.outside is None
    assert found.sharpness <= UNOPPOSED_SHARPNESS
    assert any("no background" in reason for reason in found.failures())


def test_a_bank_too_small_to_leave_anything_out_is_transferred() -> None:
    small = panel_data(n=2, background=4)
    assert not can_rehearse(small)
    found = rehearse(small)
    assert found.basis == "transferred"
    assert found.outside is not None  # none of these is weighed all the same
    assert "other panels" in found.sentence()


def test_no_fit_holds_what_it_is_asked_about() -> None:
    whole = panel_data()
    twice = replace(whole.bank, texts=(*whole.bank.texts[:-1], whole.bank.texts[-2]))
    again = PanelData.prepare(whole.panel, twice, whole.embedder)
    asked = 0
    for part, held, unknown in folds_of(again):
        assert not {again.bank.texts[i] for i in held} & set(part.bank.texts)
        assert not {again.bank.background[i] for i in unknown} & set(part.bank.background)
        assert set(part.bank.label_index.tolist()) == {0, 1}
        asked += len(held)
    assert asked == len(again.bank.texts)


def test_texts_of_the_labels_lose_the_stated_share() -> None:
    score = np.random.default_rng(0).normal(size=500)
    threshold = threshold_at(score, INSIDE_SHARE)
    assert expit(STEP * (score - threshold)).mean() == pytest.approx(INSIDE_SHARE, abs=1e-6)


def test_a_background_told_too_easily_leaves_room_for_the_labels() -> None:
    """A weak simulator's texts are alike: real ones lie between them and the background."""
    rng = np.random.default_rng(0)
    own, real = rng.normal(-14, 4, (400, 3)), rng.normal(-8, 2.5, (400, 3))
    far, near = rng.normal(-1, 2, (80, 3)), rng.normal(-10, 4, (80, 3))
    alone, told = scale_of(own), scale_of(own, far)
    assert told.threshold == pytest.approx(
        (alone.threshold + np.median(feature_score(far, alone))) / 2, abs=1e-5
    )
    assert expit(condition_log_odds(far, told)).mean() > MOST_FOUND
    assert expit(condition_log_odds(real, told)).mean() < 0.3 * expit(condition_log_odds(real, alone)).mean()
    between = rng.normal(-6.5, 2.5, (80, 3))  # half of the way is more than it takes
    scale = scale_of(own, between)
    found = expit(STEP * (feature_score(between, scale) - scale.threshold)).mean()
    assert found == pytest.approx(MOST_FOUND, abs=0.01)
    assert scale_of(own, near) == scale_of(own, far[:20]) == alone  # hard to tell, or too few to say


def test_haste_is_the_same_each_time_and_loses_words() -> None:
    text = "A soft bluish swelling of the lower lip that comes and goes after a bite"
    hasty = in_haste(text)
    assert hasty == in_haste(text)
    assert 0 < len(hasty.split()) < len(text.split())
    assert hasty == hasty.lower()
    assert in_haste("Ab") == "ab"


# --------------------------------------------------------------------------- kept by content


def test_it_is_kept_and_found_by_content(private_home: Path) -> None:
    whole = panel_data()
    first = calibrated(whole)
    kept = list((private_home / "calibrations").iterdir())
    assert len(kept) == 1
    assert calibrated(whole).calibration == first.calibration
    smaller = replace(whole, bank=whole.bank.subset(np.arange(59)))
    assert address_for(smaller) != address_for(whole)
    at_prior = replace(whole, bank=replace(whole.bank, none_prior=0.2))
    assert address_for(at_prior) == address_for(whole)


def test_a_changed_file_is_passed_over(tmp_path: Path, told_apart: Calibration) -> None:
    path = tmp_path / FILE
    keep("one", told_apart, path)
    keep("two", replace(told_apart, sharpness=1.0), path)
    assert read_file(path)["one"] == told_apart
    assert look_up("two", tmp_path) == replace(told_apart, sharpness=1.0)
    path.write_text(path.read_text().replace(f'"sharpness": {told_apart.sharpness}', '"sharpness": 9.0'))
    assert read_file(path) == {}
    path.write_text("{")
    assert read_file(path) == {}
    path.write_text(json.dumps({"calibrations": {"one": {"basis": "guessed"}}}))
    assert read_file(path) == {}


@pytest.mark.parametrize("panel", ["oral-lesions", "symptom-to-diagnosis", "case-reports"])
def test_packaged_panels_are_rehearsed_beforehand(panel: str, private_home: Path) -> None:
    answer = Classifier(panel).fitted.calibration
    assert answer.basis == "rehearsed"
    assert answer.failures() == ()
    assert not (private_home / "calibrations").exists()  # nothing was rehearsed here


def test_a_kept_rehearsal_does_not_hide_a_packaged_calibration(private_home: Path) -> None:
    classifier = Classifier("oral-lesions")
    address, packaged = address_for(classifier.fitted.data), classifier.fitted.calibration
    keep(address, replace(packaged, checked=0, sharpness=9.0))
    assert look_up(address) == packaged
    own = replace(packaged, basis="measured", sharpness=9.0)
    keep(address, own)
    assert look_up(address) == own
