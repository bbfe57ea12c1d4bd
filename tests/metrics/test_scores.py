"""Headline metrics against scikit-learn and sums written out; what is undefined says why."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss, roc_auc_score

from simdx.errors import BadInput
from simdx.metrics import confusion, gold_rank, headline_values, ood_auroc
from simdx.metrics.scores import checked, entropy_strata, errors, kept_at, risk_coverage, uncertainty
from simdx.types import entropy_bits


def value(name, p, y):
    return headline_values(p, y)[name].value


def test_headline_metrics_agree_with_scikit_learn(predictions):
    p, y = predictions
    guess = p.argmax(axis=1)
    expected = {
        "accuracy": accuracy_score(y, guess),
        "macro_f1": f1_score(y, guess, average="macro"),
        "nll": log_loss(y, p, labels=range(4)),
        "brier": np.mean([sum((p[i, k] - (y[i] == k)) ** 2 for k in range(4)) for i in range(len(y))]),
        "auroc": roc_auc_score(y, p, multi_class="ovr", average="macro"),
    }
    found = headline_values(p, y)
    for name, wanted in expected.items():
        assert found[name].value == pytest.approx(wanted), name
    np.testing.assert_array_equal(confusion(p, y), confusion_matrix(y, guess, labels=range(4)))


def test_by_hand():
    sure = np.array([[0.0, 1.0]])
    assert value("brier", sure, [0]) == pytest.approx(2.0)
    assert value("nll", sure, [0]) == pytest.approx(-np.log(1e-6))
    p = np.array([[0.25] * 4, [1, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert value("entropy_bits", p, [0, 0, 1]) == pytest.approx(1.0)
    p, y = np.array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0]]), np.array([0, 1, 1])
    # a label that never occurs is left out
    assert value("macro_f1", p, y) == pytest.approx(f1_score(y, p.argmax(1), average="macro"))


def test_class_auroc_is_over_the_labels_that_occur(predictions):
    p, y = predictions
    kept = y != 3
    p, y = p[kept] / p[kept].sum(axis=1, keepdims=True), y[kept]
    expected = np.mean([roc_auc_score(y == k, p[:, k]) for k in range(3)])
    found = headline_values(p, y)["auroc"]
    assert (found.value, found.reason) == (pytest.approx(expected), "labels without cases left out: 1")
    found = headline_values(np.array([[0.7, 0.3], [0.6, 0.4]]), [0, 0])["auroc"]
    assert found.value is None
    assert "same label" in found.reason


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        ([0.5, 0.5], [0, 1], "(N, K)"),
        ([[0.5, 0.5]], [0, 1], "labels of shape"),
        ([[0.5, 0.5]], [2], "outside 0..1"),
        ([[0.5, 0.2]], [0], "row 0 gives 0.7000"),
        ([[np.nan, 1.0]], [0], "finite"),
        ([[0.5, 0.5]], [0.5], "integer"),
    ],
)
def test_malformed_arrays_are_refused(p, y, message):
    with pytest.raises(BadInput) as caught:
        checked(p, y)
    assert message in str(caught.value)


def test_ood_auroc_agrees_with_scikit_learn(rng):
    inside, outside = np.round(rng.normal(size=50), 1), np.round(rng.normal(0.7, size=30), 1)
    truth = np.r_[np.zeros(50), np.ones(30)]
    expected = roc_auc_score(truth, np.concatenate([inside, outside]))
    assert ood_auroc(inside, outside).value == pytest.approx(expected)
    assert ood_auroc([], outside).value is None
    assert "out-of-class" in ood_auroc(inside, []).reason


def test_rank_of_the_gold_label(predictions):
    p, y = predictions
    rank = gold_rank(p, y)
    assert (rank == 0).mean() == value("accuracy", p, y)  # on tied rows too
    order = np.argsort(-p, axis=1, kind="stable")
    assert (order[np.arange(len(y)), rank] == y).all()


# --------------------------------------------------------------------------- selective prediction


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
    np.testing.assert_allclose(risk_coverage(score, error)[1], expected, atol=1e-12)
    best = average_over_orders(range(len(error)), sorted(error))  # the errors last
    found = headline_values(*answers(score, error))
    assert found["aurc"].value == pytest.approx(expected.mean())
    assert found["e_aurc"].value == pytest.approx(expected.mean() - best.mean(), abs=1e-12)
    assert found["risk_at_80"].value == pytest.approx(expected[kept_at(0.8, len(error)) - 1])


def test_error_auroc_agrees_with_scikit_learn(predictions):
    p, y = predictions
    score, error = uncertainty(p), errors(p, y)
    assert len(np.unique(score)) < len(score)  # the example has ties
    assert headline_values(p, y)["error_auroc"].value == pytest.approx(roc_auc_score(error, score))


def test_kept_cases_are_the_ceiling_and_permuted_probabilities_tie(rng):
    assert [kept_at(0.8, n) for n in (1, 5, 7)] == [1, 4, 6]  # .8 · 5 is exactly 4
    rows = rng.permuted(np.tile(rng.dirichlet(np.ones(7)), (100, 1)), axis=1)
    assert len(np.unique(entropy_bits(rows))) > 1
    assert len(np.unique(uncertainty(rows))) == 1


def test_undefined_cases_say_why():
    right, wrong = (headline_values(*answers([0, 1], [e, e])) for e in (0, 1))
    assert "no case was misclassified" in right["error_auroc"].reason
    assert "every case" in wrong["error_auroc"].reason
    assert right["e_aurc"].value == wrong["e_aurc"].value == 0.0


def test_strata_partition_the_cases_and_an_empty_one_is_undefined(predictions):
    p, y = predictions
    strata = entropy_strata(p, y)
    assert sum(s["n"] for s in strata) == len(y)
    assert sum(s["n"] * s["accuracy"] for s in strata) == pytest.approx((p.argmax(1) == y).sum())
    assert strata[0]["accuracy"] > strata[-1]["accuracy"]
    low, middle, high = entropy_strata(np.array([[0.9, 0.1]] * 5), np.zeros(5, int))
    assert (low["n"], middle["n"], high["n"], middle["accuracy"]) == (5, 0, 0, None)
