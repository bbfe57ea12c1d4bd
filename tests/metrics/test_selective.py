"""Selective prediction against enumeration of tied orders and scikit-learn."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from simdx.errors import BadInput
from simdx.metrics import selective


def average_over_orders(score, error):
    """Mean risk at each coverage over every order that sorts the scores."""
    curves = []
    for order in permutations(range(len(score))):
        if all(score[a] <= score[b] for a, b in pairwise(order)):
            wrong = np.cumsum([error[i] for i in order])
            curves.append(wrong / np.arange(1, len(score) + 1))
    return np.mean(curves, axis=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6))
def test_risk_coverage_is_the_average_over_all_orders_of_tied_cases(rows):
    score, error = [float(s) for s, _ in rows], [e for _, e in rows]
    expected = average_over_orders(score, error)
    np.testing.assert_allclose(selective.risk_coverage(score, error).risk, expected, atol=1e-12)
    assert selective.aurc(score, error).value == pytest.approx(expected.mean())


def test_error_auroc_agrees_with_scikit_learn(predictions):
    p, y = predictions
    score, error = selective.uncertainty(p), selective.errors(p, y)
    assert len(np.unique(score)) < len(score)  # the example has ties
    assert selective.error_auroc(score, error).value == pytest.approx(roc_auc_score(error, score))


def test_best_ranking_has_no_excess_and_the_worst_has_the_most():
    error = np.array([0] * 7 + [1] * 3)
    best = selective.e_aurc(np.arange(10.0), error).value
    worst = selective.e_aurc(-np.arange(10.0), error).value
    assert best == pytest.approx(0.0, abs=1e-12)
    rng = np.random.default_rng(0)
    assert worst >= max(selective.e_aurc(rng.permutation(np.arange(10.0)), error).value for _ in range(300))


def test_best_aurc_by_hand():
    assert selective.best_aurc(4, 2) == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert selective.best_aurc(3, 0) == 0
    assert selective.best_aurc(3, 3) == 1


def test_risk_at_keeps_the_ceiling():
    error = np.array([0, 0, 0, 1, 1, 1, 1])
    assert selective.risk_at(0.8, np.arange(7.0), error).value == pytest.approx(3 / 6)  # ceil(5.6) = 6
    assert selective.risk_at(0.8, np.arange(5.0), error[:5]).value == pytest.approx(1 / 4)  # exactly 4
    assert selective.risk_at(1.0, np.arange(7.0), error).value == pytest.approx(4 / 7)


def test_permuted_probabilities_tie():
    a = np.array([0.1, 0.2, 0.3, 0.4])
    rows = np.array([a[list(order)] for order in permutations(range(4))])
    assert len(np.unique(selective.uncertainty(rows))) == 1


def test_undefined_cases_say_why():
    assert "no case was misclassified" in selective.error_auroc([0.1, 0.2], [0, 0]).reason
    assert "every case" in selective.error_auroc([0.1, 0.2], [1, 1]).reason
    for metric in (selective.aurc, selective.e_aurc, selective.error_auroc):
        assert metric([], []).value is None
    assert selective.risk_at(0.8, [], []).value is None
    assert selective.e_aurc([0.1, 0.2], [0, 0]).value == 0.0
    assert selective.e_aurc([0.1, 0.2], [1, 1]).value == 0.0


@pytest.mark.parametrize(("score", "error"), [([np.nan], [1]), ([0.1], [2])])
def test_bad_input_is_refused(score, error):
    with pytest.raises(BadInput):
        selective.aurc(score, error)
    with pytest.raises(BadInput):
        selective.risk_at(0.0, [0.1], [1])


def test_strata_partition_the_cases_and_an_empty_one_is_undefined(predictions):
    p, y = predictions
    strata = selective.entropy_strata(p, y)
    assert sum(s.n for s in strata) == len(y)
    right = sum(s.n * s.accuracy.value for s in strata)
    assert right == pytest.approx((p.argmax(1) == y).sum())
    assert strata[0].accuracy.value > strata[-1].accuracy.value
    low, middle, high = selective.entropy_strata(np.array([[0.9, 0.1]] * 5), np.zeros(5, int))
    assert (low.n, middle.n, high.n, middle.accuracy.value) == (5, 0, 0, None)
    assert middle.accuracy.reason
