"""Labelled cases move a calibration towards the truth, a few of them a little."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from simdx.errors import BadInput
from simdx.methods.calibration import HeldOutScores, calibrate_on, fit_on, refuse_few
from simdx.methods.calibration_record import Calibration, OutsideScale
from simdx.metrics.calibration import ece
from simdx.types import NONE_OF_THESE, Case

SCALE = OutsideScale((0.0,), (1.0,), 1.5)


def cases(
    n: int, sharpness: float, shift: tuple[float, ...] = (0.0, 0.0, 0.0), seed: int = 0
) -> HeldOutScores:
    """Cases whose labels are drawn from the posterior that these numbers make of their likelihoods."""
    rng = np.random.default_rng(seed)
    likelihood = rng.normal(size=(n, 3)) * 2
    truth = softmax(sharpness * likelihood + np.array(shift), axis=1)
    label = np.array([rng.choice(3, p=p) for p in truth])
    return HeldOutScores(likelihood, label, rng.normal(size=(n, 1)) - 3)


def test_many_cases_find_what_made_them() -> None:
    found = fit_on(cases(4000, 0.6, (0.8, 0.0, -0.8)), Calibration(sharpness=2.0, outside=SCALE))
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
