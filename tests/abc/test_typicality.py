"""Typicality: calibrated for what the bank would have simulated, small for what it would not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from simdx.abc.typicality import Typicality
from simdx.errors import BadInput
from tests.abc.toys import toy, unit


def test_p_values_of_fresh_simulations_are_uniform():
    problem = toy((400, 400), n_cases=400, d=8, seed=0)
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1], 200)
    fresh = unit(problem.centres[truth] + rng.standard_normal((400, 8)))
    p = Typicality.fit(problem.bank).p_value(fresh)
    assert np.all((p > 0) & (p <= 1))
    assert kstest(p, "uniform").pvalue > 1e-3


def test_a_text_unlike_everything_is_atypical():
    problem = toy((50, 50), n_cases=10, d=16, seed=2)
    typical = Typicality.fit(problem.bank)
    assert np.all(typical.p_value(-problem.cases) == 1 / 101)
    assert np.median(typical.p_value(problem.cases)) > 0.1


def test_the_reference_is_leave_one_out():
    problem = toy((6, 5), d=5, seed=3)
    typical = Typicality.fit(problem.bank, neighbours=2)
    expected = []
    for i, row in enumerate(problem.bank.astype(float)):
        others = np.delete(problem.bank.astype(float), i, axis=0)
        expected.append(np.sort(1 - others @ row)[:2].mean())
    np.testing.assert_allclose(typical.reference, np.sort(expected), atol=1e-6)


def test_repeated_rows_do_not_look_typical():
    problem = toy((20, 20), d=6, seed=4)
    once = Typicality.fit(problem.bank)
    twice = Typicality.fit(np.tile(problem.bank, (2, 1)))
    np.testing.assert_allclose(once.p_value(problem.cases), twice.p_value(problem.cases))


def test_small_banks_and_bad_settings():
    assert Typicality.fit(np.eye(2), neighbours=5).neighbours == 1
    with pytest.raises(BadInput, match="two different"):
        Typicality.fit(np.ones((3, 2)))
    with pytest.raises(BadInput, match="neighbour"):
        Typicality.fit(np.eye(3), neighbours=0)
    with pytest.raises(BadInput, match="quantile"):
        Typicality.fit(np.eye(3)).tolerance(1.5)
    typical = Typicality.fit(toy((20, 20), d=6, seed=5).bank)
    assert (typical.tolerance(0), typical.tolerance(1)) == (typical.reference[0], typical.reference[-1])
