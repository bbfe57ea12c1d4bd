"""Tolerances from the bank: the shortcut is the long way, and absolute ones show atypical cases."""

from __future__ import annotations

import numpy as np
import pytest

from simdx.abc.dirichlet_tolerance import bank_tolerance, leave_one_out_tolerances
from simdx.abc.exact import dirichlet
from simdx.abc.prior import Prior
from simdx.errors import BadInput
from tests.abc.toys import Toy, toy


@pytest.mark.parametrize("probabilities", [[0.3, 0.4, 0.3], [0.5, 0.5, 0.0]])
def test_leaving_out_is_recomputing_the_class_mean(probabilities):
    problem = toy((5, 6, 7), d=9, seed=0)
    prior = Prior(np.array(probabilities), 2.5)
    got = leave_one_out_tolerances(problem.bank, problem.labels, 3, prior, seed=4, draws=20, populations=3)
    expected = []
    for i, label in enumerate(problem.labels):
        if probabilities[label] == 0:
            continue
        rest = np.arange(problem.labels.size) != i
        left = Toy(problem.bank[rest], problem.labels[rest], 3, problem.cases, problem.truth, problem.centres)
        answer = dirichlet(left.means, problem.bank[i], prior, seed=4, draws=20, populations=3)
        expected.append(answer.tolerance[0])
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_an_absolute_tolerance_raises_epistemic_uncertainty_out_of_class():
    problem = toy((60, 60, 60), n_cases=40, d=24, spread=1.0, seed=1)
    prior = Prior.uniform(3)
    rng = np.random.default_rng(2)
    strange = rng.standard_normal((40, 24))
    strange /= np.linalg.norm(strange, axis=1, keepdims=True)
    tolerance = bank_tolerance(problem.bank, problem.labels, 3, prior, seed=0)
    bits = {}
    for name, options in (("quantile", {}), ("absolute", {"tolerance": tolerance})):
        inside = dirichlet(problem.means, problem.cases, prior, seed=0, **options).second_order
        outside = dirichlet(problem.means, strange, prior, seed=0, **options).second_order
        bits[name] = (np.median(inside.epistemic_bits), np.median(outside.epistemic_bits))
    assert bits["absolute"][1] > 1.5 * bits["absolute"][0]
    assert bits["absolute"][1] > bits["quantile"][1]


def test_what_cannot_be_left_out_is_refused():
    single = toy((1, 1), seed=3)
    with pytest.raises(BadInput, match="two simulations"):
        leave_one_out_tolerances(single.bank, single.labels, 2, Prior.uniform(2), seed=0)
    with pytest.raises(BadInput, match="quantile"):
        bank_tolerance(single.bank, single.labels, 2, Prior.uniform(2), seed=0, quantile=2)
