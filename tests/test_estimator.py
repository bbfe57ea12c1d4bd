"""The scikit-learn estimator: their own checks, their tools, and columns that stay where they are."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from simdx import BadInput, Classifier, SimulationClassifier
from simdx.types import Bank, Label, Panel
from tests import builders

WORDS = {name: builders.WORDS[name] for name in ("river", "apple", "engine")}  # not in alphabetical order


def drawn(n: int, seed: int) -> tuple[list[str], list[str]]:
    """n texts of six words for each label, and the labels."""
    texts, index = builders.toy_texts(n, seed, WORDS)
    return list(texts), [[*WORDS][i] for i in index]


def panel_of(names: tuple[str, ...]) -> Panel:
    labels = tuple(Label(name) for name in names)
    return Panel(name="toy", labels=labels, register="plain", embedder="hashing")


def bank_of(names: tuple[str, ...]) -> Bank:
    texts, labels = drawn(12, 7)
    return Bank("toy", names, tuple(texts), np.array([names.index(label) for label in labels]), name="toy")


NAMES = tuple(WORDS)
PANEL, BANK = panel_of(NAMES), bank_of(NAMES)
X, Y = drawn(8, 1)


# --------------------------------------------------------------------------- scikit-learn's own checks


class AsIfOfTables(SimulationClassifier):
    """Says that it takes tables, without which scikit-learn leaves out nearly all of its checks."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


NUMBERS = "the check gives rows of numbers, and a case is a text"
CANNOT = {
    NUMBERS: (
        "check_fit_score_takes_y check_estimators_overwrite_params check_dont_overwrite_parameters "
        "check_estimators_fit_returns_self check_readonly_memmap_input check_positive_only_tag_during_fit "
        "check_estimators_dtypes check_dtype_object check_pipeline_consistency check_estimators_pickle "
        "check_f_contiguous_array_estimator check_classifier_data_not_an_array check_classifiers_classes "
        "check_classifiers_train check_supervised_y_2d check_methods_sample_order_invariance "
        "check_methods_subset_invariance check_fit2d_1sample check_fit2d_1feature check_dict_unchanged "
        "check_fit_idempotent check_fit_check_is_fitted check_fit2d_predict1d check_classifiers_one_label"
    ),
    "a text has no number of features": "check_n_features_in check_n_features_in_after_fitting",
    "a text is refused in other words than a table that is empty, complex, sparse or holds NaN": (
        "check_complex_data check_estimators_empty_data_messages check_estimators_nan_inf "
        "check_estimator_sparse_tag check_estimator_sparse_array check_estimator_sparse_matrix"
    ),
    "a label that is a number is refused in other words": ("check_classifiers_regression_target"),
}
REASONS = {check: reason for reason, checks in CANNOT.items() for check in checks.split()}


@parametrize_with_checks(
    [AsIfOfTables("oral-lesions")], expected_failed_checks=lambda _: REASONS, xfail_strict=True
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks(estimator: SimulationClassifier, check: Any) -> None:
    check(estimator)


# --------------------------------------------------------------------------- its tools


def test_fit_predict_and_clone() -> None:
    model = SimulationClassifier(PANEL, BANK, prior={"river": 0.5}, seed=3)
    assert model.fit() is model
    p = model.predict_proba(X)
    own = Classifier(PANEL, BANK, seed=3)
    assert p == pytest.approx(own.predict_proba(X, {"river": 0.5})[:, [1, 2, 0]])
    again = clone(model)
    params, others = ({**one.get_params(), "bank": one.bank.hash} for one in (model, again))
    assert params == others
    assert not hasattr(again, "classes_")
    assert np.array_equal(again.fit().predict_proba(X), p)
    assert model.predict_proba(np.array(X)[:, None]) == pytest.approx(p)  # a column of a table


def test_labelled_cases_are_learned_from() -> None:
    plain = SimulationClassifier(PANEL, BANK).fit()
    odd = ["zebra quagga okapi"] * 6
    texts, labels = [*odd, "red sweet fruit", "boat on the water"], [*["engine"] * 6, "apple", "river"]
    beside = SimulationClassifier(PANEL, BANK, labelled_weight=5).fit(texts, labels)
    at = plain.classes_.tolist().index("engine")
    assert beside.predict_proba(odd[:1])[0, at] > plain.predict_proba(odd[:1])[0, at] + 0.2
    basis = [
        SimulationClassifier(PANEL, BANK, labelled=how).fit(X, Y).classifier_.fitted.calibration.basis
        for how in ("compare", "calibrate")
    ]
    assert basis[0] != "measured" == basis[1]
    archive = SimulationClassifier(PANEL, BANK).fit(X)
    assert archive.classifier_.data.has_archive


def test_pipeline_search_and_scores() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    model = make_pipeline(lower, SimulationClassifier(PANEL, BANK))
    folds = StratifiedKFold(2)
    shouted = [text.upper() for text in X]
    assert cross_val_score(model, shouted, Y, cv=folds).min() > 0.8
    # scikit-learn's log loss takes the columns to be sorted by label; ours, computed by name, is the same
    scored = cross_val_score(model, shouted, Y, cv=folds, scoring="neg_log_loss")
    own = []
    for train, test in folds.split(X, Y):
        fitted = clone(model).fit([shouted[i] for i in train], [Y[i] for i in train])
        p = fitted.predict_proba([shouted[i] for i in test])
        column = {name: k for k, name in enumerate(fitted.classes_)}
        own.append(np.mean([np.log(p[r, column[Y[i]]]) for r, i in enumerate(test)]))
        assert log_loss([Y[i] for i in test], p) == pytest.approx(-own[-1])
    assert scored == pytest.approx(own)
    search = GridSearchCV(SimulationClassifier(PANEL, BANK), {"labelled_weight": [1, 3]}, cv=folds)
    assert search.fit(X, Y).best_params_["labelled_weight"] in (1, 3)


@settings(max_examples=5, deadline=None)
@given(st.permutations(NAMES), st.lists(st.integers(0, len(X) - 1), min_size=1, max_size=6, unique=True))
def test_columns_never_reorder_and_predict_is_their_arg_max(names: list[str], chosen: list[int]) -> None:
    """Whatever the panel's order, and whichever labelled cases come, in whichever order."""
    order = tuple(names)
    model = SimulationClassifier(panel_of(order), bank_of(order))
    model.fit([X[i] for i in chosen], [Y[i] for i in chosen])
    same = SimulationClassifier(PANEL, BANK).fit([X[i] for i in chosen], [Y[i] for i in chosen])
    p = model.predict_proba(X)
    assert model.classes_.tolist() == sorted(NAMES)
    assert p == pytest.approx(same.predict_proba(X), abs=1e-6)
    assert p == pytest.approx(model.predict_proba(X[::-1])[::-1], abs=1e-6)
    assert model.predict(X).tolist() == model.classes_[p.argmax(axis=1)].tolist()


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (None, Y, "without texts"),
        (X, Y[:-1], "one label for each"),
        (X, list(range(len(X))), "label names"),
        (X, ["pear"] * len(X), "no label of panel"),
        ([], [], "empty"),
        ("one text", ["apple"], "not a list"),
        ([1.5], ["apple"], "text 1"),
    ],
)
def test_what_cannot_be_fitted(x: Any, y: Any, said: str) -> None:
    for how in ("compare", "calibrate"):
        with pytest.raises(BadInput, match=said):
            SimulationClassifier(PANEL, BANK, labelled=how).fit(x, y)
