"""Scores against scikit-learn and against sums written out."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss, roc_auc_score

from simdx.errors import BadInput
from simdx.metrics import ood_auroc, out_of_class, scores


def test_accuracy_f1_and_confusion_agree_with_scikit_learn(predictions):
    p, y = predictions
    guess = p.argmax(axis=1)
    assert scores.accuracy(p, y).value == pytest.approx(accuracy_score(y, guess))
    assert scores.macro_f1(p, y).value == pytest.approx(f1_score(y, guess, average="macro"))
    np.testing.assert_array_equal(scores.confusion(p, y), confusion_matrix(y, guess, labels=range(4)))


def test_macro_f1_leaves_out_labels_that_never_occur():
    p = np.array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0]])
    y = np.array([0, 1, 1])
    assert scores.macro_f1(p, y).value == pytest.approx(f1_score(y, p.argmax(1), average="macro"))


def test_brier_is_the_sum_over_labels(predictions):
    p, y = predictions
    by_hand = np.mean([sum((p[i, k] - (y[i] == k)) ** 2 for k in range(4)) for i in range(len(y))])
    assert scores.brier(p, y).value == pytest.approx(by_hand)
    assert scores.brier(np.array([[0.0, 1.0]]), [0]).value == pytest.approx(2.0)


def test_nll_agrees_with_scikit_learn_and_states_its_floor(predictions):
    p, y = predictions
    assert scores.nll(p, y).value == pytest.approx(log_loss(y, p, labels=range(4)))
    assert scores.nll(np.array([[0.0, 1.0]]), [0]).value == pytest.approx(-np.log(1e-6))


def test_entropy_in_bits():
    p = np.array([[0.25] * 4, [1, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert scores.mean_entropy_bits(p).value == pytest.approx(1.0)


def test_class_auroc_agrees_with_scikit_learn_over_the_labels_that_occur(predictions):
    p, y = predictions
    expected = roc_auc_score(y, p, multi_class="ovr", average="macro")
    assert scores.class_auroc(p, y).value == pytest.approx(expected)
    kept = y != 3
    expected = np.mean([roc_auc_score(y[kept] == k, p[kept, k]) for k in range(3)])
    found = scores.class_auroc(p[kept], y[kept])
    assert (found.value, found.reason) == (pytest.approx(expected), "labels without cases left out: 1")


def test_one_class_only_is_undefined_with_a_reason():
    found = scores.class_auroc(np.array([[0.7, 0.3], [0.6, 0.4]]), [0, 0])
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
        scores.accuracy(p, y)
    assert message in str(caught.value)


def test_ood_auroc_agrees_with_scikit_learn(rng):
    inside, outside = np.round(rng.normal(size=50), 1), np.round(rng.normal(0.7, size=30), 1)
    truth = np.r_[np.zeros(50), np.ones(30)]
    assert ood_auroc(inside, outside).value == pytest.approx(
        roc_auc_score(truth, np.concatenate([inside, outside]))
    )
    kinds = ["near"] * 10 + ["far"] * 20
    found = out_of_class(inside, outside, kinds)
    n, near = found.by["near"]
    assert n == 10
    assert near.value == pytest.approx(ood_auroc(inside, outside[:10]).value)
    assert ood_auroc([], outside).value is None
    assert "out-of-class" in ood_auroc(inside, []).reason
