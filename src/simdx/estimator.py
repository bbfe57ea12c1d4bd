"""A scikit-learn estimator around the front door: parameters in the constructor, everything slow in `fit`.

>>> model = SimulationClassifier("oral-lesions").fit()          # the panel and its bank: no labelled case
>>> model = SimulationClassifier("oral-lesions").fit(X, y)      # labelled cases beside the bank
>>> cross_val_score(SimulationClassifier("oral-lesions", closed=True), X, y, scoring="neg_log_loss")

`classes_`, and with it the columns of `predict_proba`, is sorted: scikit-learn's log loss and AUROC take
the columns of a classifier to be in that order and do not look. `Classifier` keeps the panel's order, none of
these last. Scores that need a case of every class need `closed`, where no case is none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from simdx.classifier import Classifier, PriorLike
from simdx.embedders.base import Embedder
from simdx.errors import BadInput
from simdx.types import Bank, Case, Float, Panel


class SimulationClassifier(ClassifierMixin, BaseEstimator):
    """Texts in, probabilities of a panel's labels out, by scikit-learn's conventions.

    Where none of these is weighed it is one of `classes_`.

    Args:
        panel: A packaged panel's name, the path of a panel file, or a `Panel`.
        bank: A bank folder, a JSONL file, or a `Bank`; the panel's own when left out.
        method: `auto` (the shipped recipe), `m-smc`, `d-smc`, `abi`, or a baseline.
        embedder: A name such as `wordllama+minilm`, or an object; the panel's own when left out.
        prior: Prior probabilities of the labels; uniform when left out.
        labelled: What the labelled cases of `fit` are for. `compare`: they stand beside the bank, any
            number of them. `calibrate`: 20 or more say how sure answers should be, and no more.
        labelled_weight: Simulations that one labelled case counts as, under `compare`.
        none_prior: Prior probability that a case has none of the labels; the panel's own when left out.
        closed: The labels are all there is: none of these is not weighed.
        allow_remote: Whether case text may leave this machine.
        seed: Seed of all random streams.
        settings: The other fields of `simdx.methods.Settings`, such as `engine` or `kernel`.
    """

    def __init__(
        self,
        panel: str | Path | Panel,
        bank: str | Path | Bank | None = None,
        *,
        method: str = "auto",
        embedder: str | Embedder | None = None,
        prior: PriorLike = None,
        labelled: Literal["compare", "calibrate"] = "compare",
        labelled_weight: float | None = None,
        none_prior: float | None = None,
        closed: bool = False,
        allow_remote: bool = False,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.panel = panel
        self.bank = bank
        self.method = method
        self.embedder = embedder
        self.prior = prior
        self.labelled = labelled
        self.labelled_weight = labelled_weight
        self.none_prior = none_prior
        self.closed = closed
        self.allow_remote = allow_remote
        self.seed = seed
        self.settings = settings

    def fit(self, X: Sequence[str] | None = None, y: Sequence[str] | None = None) -> SimulationClassifier:
        """Fit to the bank; labelled cases are learned from, and texts without labels as an archive is."""
        if self.labelled not in ("compare", "calibrate"):
            raise BadData(f"labelled is {self.labelled!r}: choose compare or calibrate")
        given: dict[str, Any] = {}
        if y is not None:
            cases = _cases(X, y)
            if self.labelled == "calibrate":
                given["calibration_cases"] = cases
            else:
                given |= {"real_cases": cases, "real_weight": self.labelled_weight}
        elif X is not None:
            given["unlabelled"] = _texts(X)
        self.classifier_ = Classifier(
            self.panel, self.bank, method=self.method, embedder=self.embedder, none_prior=self.none_prior,
            closed=self.closed, allow_remote=self.allow_remote, seed=self.seed, **given,
            **(self.settings or {}),
        )  # fmt: skip
        self.classifier_.prior(self.prior)  # one that does not fit the panel is refused here
        names = self.classifier_.classes_.astype(str)
        self._order = np.argsort(names, kind="stable")
        self.classes_ = names[self._order]
        return self

    def predict_proba(self, X: Sequence[str]) -> Float:
        """(N, outcomes) posterior probabilities, columns in the order of `classes_`."""
        check_is_fitted(self)
        return self.classifier_.predict_proba(_texts(X), self.prior)[:, self._order]

    def predict(self, X: Sequence[str]) -> Any:
        """(N,) the outcome of the largest probability; of equal ones the first of `classes_`."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = False
        return tags


class BadData(BadInput, ValueError):
    """What scikit-learn expects of data that cannot be used is a ValueError."""


def _texts(X: Sequence[str]) -> list[str]:
    given = np.asarray(X, dtype=object)
    column = given.ndim == 2 and given.shape[1] == 1
    if given.ndim != 1 and not column:
        raise BadData("X is not a list of texts")
    for i, text in enumerate(texts := given.ravel().tolist()):
        if not isinstance(text, str):
            raise BadData(f"text {i + 1} of X is not a string")
    return texts


def _cases(X: Sequence[str] | None, y: Sequence[str]) -> list[Case]:
    if X is None:
        raise BadData("labels were given without texts")
    texts, labels = _texts(X), np.asarray(y, dtype=object)
    if not texts:
        raise BadData("X is empty: leave it out, or give labelled cases")
    if labels.shape != (len(texts),):
        raise BadData(f"y has shape {labels.shape} for {len(texts)} texts: give one label for each")
    # A number is no position in the panel: who encoded it, and with which labels at hand, is not known here.
    if not all(isinstance(label, str) for label in labels):
        raise BadData("y holds something that is not a string: give the panel's own label names")
    return [Case(text, label=str(label)) for text, label in zip(texts, labels, strict=True)]
