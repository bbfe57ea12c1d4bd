"""Labelled cases move a calibration towards the truth, a few of them a little."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from simdx.errors import BadInput
from simdx.methods.calibration import HeldOutScores, calibrate_on, fit_on
from simdx.methods.calibration_record import Calibration, OutsideScale
from simdx.metrics.calibration import ece

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
    assert "measured on 60 labelled cases" in found.sentence()


def test_cases_inside_raise_the_threshold_and_cases_outside_hold_it() -> None:
    base = Calibration(sharpness=1.0, outside=SCALE)
    inside = replace(cases(60, 1.0), features=np.full((60, 1), 1.6))
    beyond = replace(cases(30, 1.0, seed=2), features=np.full((30, 1), 1.6))
    alone, held = fit_on(inside, base), fit_on(inside, base, beyond)
    assert alone.outside.threshold > held.outside.threshold
    assert alone.outside.threshold > SCALE.threshold


def test_too_few_are_refused() -> None:
    with pytest.raises(BadInput, match="too few"):
        calibrate_on(cases(19, 1.0), Calibration())


def test_a_wide_interval_never_accepts() -> None:
    found = replace(Calibration(outside=SCALE), basis="measured", ece=0.1, ece_interval=(0.02, 0.31))
    assert any("0.31" in reason for reason in found.failures())
