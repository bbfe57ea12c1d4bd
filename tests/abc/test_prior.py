"""Priors as the command line promises them."""

import math

import numpy as np
import pytest

from simdx.abc.prior import Prior, prior_rows
from simdx.errors import BadInput

LABELS = ("a", "b", "c", "d")


def test_uniform_makes_a_flat_dirichlet():
    assert Prior.uniform(4).alpha.tolist() == [1, 1, 1, 1]
    assert Prior.uniform(4, alpha0=2).alpha.tolist() == [0.5] * 4
    for alpha0 in (0, -1, math.nan, math.inf):
        with pytest.raises(BadInput, match="alpha0"):
            Prior.uniform(3, alpha0=alpha0)


@pytest.mark.parametrize(
    ("mapping", "probabilities"),
    [
        ({"a": 0.7}, [0.7, 0.1, 0.1, 0.1]),  # labels not named share the rest
        ({}, [0.25] * 4),
        ({"d": 0}, [1 / 3] * 3 + [0]),
        ({"a": 0.4, "b": 0.6}, [0.4, 0.6, 0, 0]),
        ({"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.1009}, np.array([0.3, 0.3, 0.3, 0.1009]) / 1.0009),
        ({"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.0991}, np.array([0.3, 0.3, 0.3, 0.0991]) / 0.9991),
    ],
)
def test_probabilities_by_name(mapping, probabilities):
    prior = Prior.from_probabilities(LABELS, mapping)
    np.testing.assert_allclose(prior.probabilities, probabilities)
    assert prior.alpha0 == 4
    assert prior.probabilities.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"x": 0.5}, "'x' is not a label"),
        ({"a": math.nan}, "'a'"),
        ({"a": math.inf}, "'a'"),
        ({"a": -0.1}, "at least 0"),
        ({"a": 1.2}, "between 0 and 1"),
        ({"a": 0.7, "b": 0.7}, "at most 1"),
        ({"a": 0.7, "b": 0.3001}, "at most 1"),
        ({"a": 0, "b": 0, "c": 0, "d": 0}, "every label has prior 0"),
        ({"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.2}, "sum to 1"),
        ({"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.098}, "sum to 1"),
        ({"a": "much"}, "'a'"),
    ],
)
def test_bad_priors_are_refused_by_name(mapping, says):
    with pytest.raises(BadInput, match=says):
        Prior.from_probabilities(LABELS, mapping)


def test_counts_are_dirichlet_parameters():
    prior = Prior.from_counts(LABELS, {"a": 5, "d": 0})
    assert prior.alpha.tolist() == [5, 1, 1, 0]
    assert prior.alpha0 == 7
    with pytest.raises(BadInput, match="not a label"):
        Prior.from_counts(LABELS, {"z": 1})
    with pytest.raises(BadInput, match="every label"):
        Prior.from_counts(LABELS, dict.fromkeys(LABELS, 0))
    with pytest.raises(BadInput, match="'b'"):
        Prior.from_counts(LABELS, {"b": -1})


def test_an_odds_multiplier_multiplies_the_odds():
    base = Prior.from_probabilities(LABELS, {"a": 0.2, "b": 0.3})
    moved = Prior.from_prevalence(LABELS, {"a": 0.2, "b": 0.3}, {"a": 3.0})
    odds = lambda p: p / (1 - p)  # noqa: E731
    assert odds(moved.probabilities[0]) == pytest.approx(3 * odds(base.probabilities[0]))
    np.testing.assert_allclose(
        moved.probabilities[1:] / moved.probabilities[1:].sum(), base.probabilities[1:] / 0.8
    )
    assert Prior.from_prevalence(LABELS, {}, {"b": 0}).probabilities[1] == 0
    with pytest.raises(BadInput, match="no label possible"):
        Prior.from_prevalence(LABELS, {}, dict.fromkeys(LABELS, 0))


def test_rows_are_checked_against_the_bank_and_the_cases():
    assert prior_rows(Prior.uniform(3), 3, 5).shape == (1, 3)
    assert prior_rows(np.ones((5, 3)), 3, 5).shape == (5, 3)
    with pytest.raises(BadInput, match="labels"):
        prior_rows(Prior.uniform(3), 4, 5)
    with pytest.raises(BadInput, match="one per case"):
        prior_rows(np.ones((2, 3)), 3, 5)
    with pytest.raises(BadInput, match="not all"):
        prior_rows(np.array([[0.0, 0.0], [1.0, 0.0]]), 2, 2)
