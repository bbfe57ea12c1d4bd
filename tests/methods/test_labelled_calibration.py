"""Labelled cases move a calibration towards the truth, a few of them a little."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax

from simdx.abc.prior import Prior
from simdx.bank.files import packaged_bank
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import PanelData, Settings
from simdx.methods.calibration import (
    RESIDUAL_SPREAD,
    SHIFT_SPREAD,
    HeldOutScores,
    calibrate_on,
    calibrated_on,
    fit_on,
    refuse_few,
    scores_of,
)
from simdx.methods.calibration_record import Calibration, OutsideScale
from simdx.methods.recipe import Recipe
from simdx.metrics.calibration import ece
from simdx.panels import load_source
from simdx.types import NONE_OF_THESE, Case

SCALE = OutsideScale((0.0,), (1.0,), 1.5)


def cases(n: int, sharpness: float, seed: int = 0) -> HeldOutScores:
    """Cases whose labels are drawn from the posterior that this sharpness makes of their likelihoods."""
    rng = np.random.default_rng(seed)
    likelihood = rng.normal(size=(n, 3)) * 2
    truth = softmax(sharpness * likelihood, axis=1)
    label = np.array([rng.choice(3, p=p) for p in truth])
    return HeldOutScores(likelihood, label, rng.normal(size=(n, 1)) - 3)


def test_many_cases_find_what_made_them() -> None:
    """Normal signs of three labels, told 1 / .6 times too surely and with a bias, of which a label's share of
    the cases says nothing."""
    rng, shift = np.random.default_rng(0), np.array([0.8, 0.0, -0.8])
    label = rng.choice(3, size=4000, p=(0.2, 0.3, 0.5))
    true = 1.5 * (1.5 * np.eye(3)[label] + rng.normal(size=(4000, 3)))
    told = HeldOutScores((true - shift) / 0.6, label, rng.normal(size=(4000, 1)) - 3)
    found = fit_on(told, Calibration(sharpness=2.0, outside=SCALE))
    assert found.sharpness == pytest.approx(0.6, rel=0.1)
    assert found.shift == pytest.approx((0.8, 0.0, -0.8), abs=0.12)


def test_few_cases_move_less_than_many() -> None:
    base = Calibration(sharpness=2.0, outside=SCALE)
    few, many = (abs(np.log(fit_on(cases(n, 0.4), base).sharpness / 2.0)) for n in (20, 2000))
    assert 0 < few < many


def test_the_error_falls_on_other_cases() -> None:
    base, other = Calibration(sharpness=2.5, outside=SCALE), cases(2000, 0.5, seed=1)
    before = ece(other.posterior(base), other.label_index).value
    after = ece(other.posterior(fit_on(cases(50, 0.5), base)), other.label_index).value
    assert after < before / 2


def test_what_is_reported_is_cross_fitted_with_an_interval() -> None:
    found = calibrate_on(cases(60, 0.5), Calibration(sharpness=2.5, outside=SCALE))
    assert (found.basis, found.n) == ("measured", 60)
    assert found.ece_interval[0] <= found.ece <= found.ece_interval[1] + 0.05
    assert "on 60 labelled cases" in found.sentence()


def test_cases_inside_raise_the_threshold_and_cases_outside_hold_it() -> None:
    base = Calibration(sharpness=1.0, outside=SCALE)
    inside = replace(cases(60, 1.0), features=np.full((60, 1), 1.6))
    beyond = replace(cases(30, 1.0, seed=2), features=np.full((30, 1), 1.6))
    alone, held = fit_on(inside, base), fit_on(inside, base, beyond)
    assert alone.outside.threshold > held.outside.threshold
    assert alone.outside.threshold > SCALE.threshold


def test_too_few_are_refused() -> None:
    with pytest.raises(BadInput, match="too few"):
        refuse_few([Case("fever", label="flu")] * 7)
    with pytest.raises(BadInput, match="2 of the 9"):
        refuse_few([*[Case("a rash", label=NONE_OF_THESE)] * 7, *[Case("fever", label="flu")] * 2])
    refuse_few([Case("fever", label="flu")] * 8)


def test_a_dozen_cases_calibrate_but_state_no_error_and_accept_nothing() -> None:
    found = calibrate_on(cases(12, 0.5), Calibration(sharpness=2.0, spread=0.25, outside=SCALE))
    assert found.sharpness < 2.0
    assert (found.ece, found.ece_interval) == (None, None)
    assert "too few to say" in found.sentence()
    assert any("12 labelled cases" in reason for reason in found.failures())


def test_what_is_known_of_the_sharpness_shrinks_its_spread() -> None:
    base = Calibration(sharpness=0.5, spread=0.25, outside=SCALE)
    few, many = (fit_on(cases(n, 0.5), base).spread for n in (10, 400))
    assert 0 < many < few <= 0.25


def test_labels_choose_the_expert_that_is_right() -> None:
    """The second expert tells the label, the first says something else."""
    told, base = cases(60, 1.0), Calibration(sharpness=1.0, spread=0.25, weight=0.5, outside=SCALE)
    noise = np.random.default_rng(5).normal(size=told.likelihood.shape)
    better = fit_on(replace(told, likelihood=noise, second=told.likelihood), base)
    worse = fit_on(replace(told, second=noise), base)
    assert better.weight > 0.5 > worse.weight


def test_a_wide_interval_never_accepts() -> None:
    found = replace(Calibration(outside=SCALE), basis="measured", ece=0.1, ece_interval=(0.02, 0.31))
    assert any("0.31" in reason for reason in found.failures())


def told_by_direction(n: int, seed: int = 0, per_label: tuple[float, ...] = (1, 1, 1)) -> HeldOutScores:
    """Cases of which the experts know nothing, and the direction everything."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, size=n, p=np.array(per_label) / sum(per_label))
    towards = np.eye(8)[label] + 0.3 * rng.normal(size=(n, 8))
    direction = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    return HeldOutScores(np.zeros((n, 3)), label, rng.normal(size=(n, 1)) - 3, direction=direction)


def test_a_text_like_a_labelled_one_is_drawn_to_its_label() -> None:
    base, new = Calibration(sharpness=1.0, spread=0.25, outside=SCALE), told_by_direction(300, seed=1)
    own = np.arange(300), new.label_index
    few, many = (new.among_labels(fit_on(told_by_direction(n), base))[own].mean() for n in (12, 60))
    assert 0.4 < few < many


def test_how_often_a_label_was_given_is_left_to_the_prior() -> None:
    """Nine cases in ten are of the first label, and nothing tells the labels apart."""
    rng = np.random.default_rng(0)
    label = rng.choice(3, size=60, p=(0.9, 0.05, 0.05))
    found = fit_on(HeldOutScores(np.zeros((60, 3)), label, None), Calibration(sharpness=1.0, spread=0.25))
    assert found.shift == pytest.approx((0.0, 0.0, 0.0), abs=0.15)


def test_residuals_are_those_of_a_gaussian_process() -> None:
    """Among two labels of which the experts know nothing: Newton's method on the process itself, whose
    covariance is the cosine."""
    given, new = (
        told_by_direction(40, per_label=(1, 1, 0)),
        told_by_direction(50, seed=1, per_label=(1, 1, 0)),
    )
    two = [replace(h, likelihood=np.zeros((len(h.likelihood), 2))) for h in (given, new)]
    found = fit_on(two[0], Calibration(sharpness=1.0, spread=0.25))
    counts = np.bincount(given.label_index)
    # The log odds of the two labels: a difference of two processes and of two shifts.
    prior = 2 * (RESIDUAL_SPREAD**2 * given.direction @ given.direction.T + SHIFT_SPREAD**2)
    offset, truth, f = np.log((counts[1] + 1) / (counts[0] + 1)), given.label_index, np.zeros(40)
    for _ in range(50):
        p = expit(f + offset)
        weight = p * (1 - p)
        f = prior @ np.linalg.solve(np.eye(40) + weight[:, None] * prior, weight * f + truth - p)
    across = 2 * (RESIDUAL_SPREAD**2 * new.direction @ given.direction.T + SHIFT_SPREAD**2)
    expected = expit(across @ np.linalg.solve(prior, f))
    assert two[1].among_labels(replace(found, spread=0.0))[:, 1] == pytest.approx(expected, abs=2e-3)


def test_a_text_like_those_of_none_of_the_labels_is_none_of_them() -> None:
    base, cases = Calibration(sharpness=1.0, spread=0.25, outside=SCALE), told_by_direction(30)
    elsewhere = np.tile(np.eye(8)[7], (10, 1))
    features = np.full((10, 1), -1.0)
    beyond = HeldOutScores(np.zeros((10, 3)), np.zeros(10, dtype=np.int64), features, direction=elsewhere)
    found = fit_on(cases, base, beyond)
    assert found.residual_weights is not None
    assert (beyond.outside(found) > 0.8).all()
    assert beyond.outside(fit_on(cases, base, replace(beyond, direction=None))).mean() < 0.8
    assert cases.outside(found).mean() < 0.05


def test_two_cases_of_no_label_mend_a_threshold_that_is_far_off() -> None:
    rng = np.random.default_rng(0)
    far = replace(SCALE, threshold=SCALE.threshold + 1.5)
    base, near = (Calibration(sharpness=1.0, spread=0.25, outside=scale) for scale in (far, SCALE))

    def some(n: int, middle: float) -> HeldOutScores:
        label, features = rng.integers(0, 3, n), rng.normal(middle, 0.5, size=(n, 1))
        return HeldOutScores(3 * np.eye(3)[label], label, features)

    inside, outside = SCALE.threshold - 2, SCALE.threshold + 1
    given, others, new = some(10, inside), some(2, outside), some(200, outside)
    found = fit_on(given, base, others)
    assert new.outside(base).mean() < 0.25
    assert new.outside(found).mean() > 0.6
    # Ten cases of the labels that fit well say nothing against the threshold.
    kept = fit_on(given, near).outside
    assert kept is not None
    assert kept.threshold == pytest.approx(SCALE.threshold, abs=0.1)


def test_labelled_answers_of_the_recipe_use_the_residual() -> None:
    """The front door answers as the scores under the same calibration do. The labels given are wrong, so that
    there is something to learn."""
    source = load_source("oral-lesions")
    data = PanelData.prepare(source.panel, packaged_bank(source), get_embedder("wordllama"))
    texts = [t for i, t in enumerate(data.bank.texts) if i % 97 == 0][:12]
    labels = [data.panel.names[data.bank.label_index[data.bank.texts.index(t)] - 1] for t in texts]
    others = data.bank.texts[50:400:70]
    given = [Case(t, label=name) for t, name in zip(texts, labels, strict=True)]
    measured = calibrated_on(data, [*given, *(Case(t, label=NONE_OF_THESE) for t in others)])
    assert measured.calibration is not None
    weights = measured.calibration.residual_weights
    assert weights is not None
    assert weights.shape == (4, 256)
    assert np.abs(weights).max(axis=1).min() > 0.01
    fitted, asked = Recipe(measured, Settings()), data.observe(["A white patch on the side of the tongue."])
    answer = fitted.answer(asked, Prior.uniform(3))
    expected = scores_of(measured, asked).posterior(measured.calibration)
    assert answer.posterior == pytest.approx(expected, abs=1e-9)
    plain = Recipe(replace(measured, calibration=replace(measured.calibration, residual=())), Settings())
    assert np.abs(plain.answer(asked, Prior.uniform(3)).posterior - answer.posterior).max() > 1e-4
