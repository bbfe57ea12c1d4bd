"""Selective prediction against enumeration of tied orders and scikit-learn."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from simdx.metrics import headline_values, selective
from simdx.types import entropy_bits


def average_over_orders(score, error):
    """Mean risk at each coverage over every order that sorts the scores."""
    curves = []
    for order in permutations(range(len(score))):
        if all(score[a] <= score[b] for a, b in pairwise(order)):
            wrong = np.cumsum([error[i] for i in order])
            curves.append(wrong / np.arange(1, len(score) + 1))
    return np.mean(curves, axis=0)


def answers(score, error):
    """The first of two labels is predicted, with an entropy that rises with the score; wrong at an error."""
    top = 0.99 - 0.4 * np.asarray(score, dtype=float) / max(1, *score)
    return np.column_stack([top, 1 - top]), np.asarray(error, dtype=int)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6))
def test_risks_are_averages_over_all_orders_of_tied_cases(rows):
    score, error = [s for s, _ in rows], [e for _, e in rows]
    expected = average_over_orders(score, error)
    np.testing.assert_allclose(selective.risk_coverage(score, error).risk, expected, atol=1e-12)
    best = average_over_orders(range(len(error)), sorted(error))  # the errors last
    found = headline_values(*answers(score, error))
    assert found["aurc"].value == pytest.approx(expected.mean())
    assert found["e_aurc"].value == pytest.approx(expected.mean() - best.mean(), abs=1e-12)
    assert found["risk_at_80"].value == pytest.approx(expected[selective.kept_at(0.8, len(error)) - 1])


def test_error_auroc_agrees_with_scikit_learn(predictions):
    p, y = predictions
    score, error = selective.uncertainty(p), selective.errors(p, y)
    assert len(np.unique(score)) < len(score)  # the example has ties
    assert headline_values(p, y)["error_auroc"].value == pytest.approx(roc_auc_score(error, score))


def test_kept_cases_are_the_ceiling():
    assert [selective.kept_at(0.8, n) for n in (1, 5, 7)] == [1, 4, 6]  # .8 · 5 is exactly 4
    assert selective.kept_at(1.0, 7) == 7


def test_permuted_probabilities_tie(rng):
    rows = rng.permuted(np.tile(rng.dirichlet(np.ones(7)), (100, 1)), axis=1)
    assert len(np.unique(entropy_bits(rows))) > 1
    assert len(np.unique(selective.uncertainty(rows))) == 1


def test_undefined_cases_say_why():
    right, wrong = (headline_values(*answers([0, 1], [e, e])) for e in (0, 1))
    assert "no case was misclassified" in right["error_auroc"].reason
    assert "every case" in wrong["error_auroc"].reason
    assert right["e_aurc"].value == wrong["e_aurc"].value == 0.0


def test_strata_partition_the_cases_and_an_empty_one_is_undefined(predictions):
    p, y = predictions
    strata = selective.entropy_strata(p, y)
    assert sum(s["n"] for s in strata) == len(y)
    assert sum(s["n"] * s["accuracy"] for s in strata) == pytest.approx((p.argmax(1) == y).sum())
    assert strata[0]["accuracy"] > strata[-1]["accuracy"]
    low, middle, high = selective.entropy_strata(np.array([[0.9, 0.1]] * 5), np.zeros(5, int))
    assert (low["n"], middle["n"], high["n"], middle["accuracy"]) == (5, 0, 0, None)
