"""A distilled student: words and one linear layer that answer as the recipe does, for other programs.

    bank texts, each answered by a fit without it ─┐
    background texts, none of these                ├─► TF-IDF ─► logistic regression ─► temperature ─► ONNX
    an archive of real texts, as the recipe answers┘

It learns the recipe's probabilities, not only its labels. What it loses is measured on a fifth of the bank's
texts that it is not given, and on labelled cases where there are some. The temperature, found there against
the recipe's probabilities, is part of the file. It has no evidence, alarm, second order or prior of its own:
a prior multiplies its probabilities.
Words are runs of ASCII letters and digits, in lower case, so that the file reads text as Python does.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx import __version__
from simdx.decide.tune import cross_fitted
from simdx.disk import filling, make_folder, refuse_occupied, write_atomically
from simdx.errors import BadInput, MissingExtra
from simdx.metrics import apply_temperature, headline_values
from simdx.types import NONE_OF_THESE, Float, Int

if TYPE_CHECKING:
    from simdx.classifier import Classifier

MODEL, CARD = "student.onnx", "student.json"
HELD = 5  # one of so many of the bank's texts is left out to measure on
LEAST = 0.01  # of a probability that is worth a row of training
MEASURED = ("accuracy", "brier", "nll", "ece")


@dataclass(frozen=True, slots=True)
class Student:
    """The file and what is known of it."""

    folder: Path
    card: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Student:
        path = Path(folder) / CARD
        try:
            card = json.loads(path.read_text("utf-8"))
            if not isinstance(card["labels"], list) or not (path.parent / MODEL).is_file():
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise BadInput(f"{folder} holds no student: make one with 'simdx distil'") from None
        return cls(path.parent, card)

    @property
    def labels(self) -> tuple[str, ...]:
        """In the order of the columns; the last may be none of these."""
        return tuple(self.card["labels"])

    def predict_proba(self, texts: Sequence[str]) -> Float:
        """(N, K) probabilities, by onnxruntime."""
        if not len(texts):
            return np.zeros((0, len(self.labels)))
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("a distilled student", "onnx") from None
        session = onnxruntime.InferenceSession(
            os.fspath(self.folder / MODEL), providers=["CPUExecutionProvider"]
        )
        column = np.array([[text] for text in texts], dtype=object).reshape(-1, 1)
        return np.asarray(session.run(["probabilities"], {"text": column})[0], dtype=float)


def distil(classifier: Classifier, out: str | Path, archive: Sequence[str] = ()) -> Student:
    """Train a student of this classifier's answers and write it into a new folder."""
    folder = Path(out)
    refuse_occupied(folder)
    to_onnx()  # what is missing is said before the work
    data, names = classifier.data, classifier.panel.names
    rows, answers = cross_fitted(data.without_archive(), classifier.settings)
    if answers is None:
        raise BadInput("the bank has one text for each label: there is nothing to learn from")
    texts, truth = [data.bank.texts[i] for i in rows], data.bank.label_index[rows]
    outside = answers.out_of_class
    labels = names if outside is None else (*names, NONE_OF_THESE)
    wanted = _joint(answers.posterior_in_class, outside)
    others = list(data.bank.background) if outside is not None else []
    more = [*others, *archive]
    targets = np.eye(len(labels))[np.full(len(others), len(labels) - 1, dtype=np.int64)]
    if archive:
        told = classifier.infer_batch(list(archive))
        targets = np.concatenate([targets, _joint(told.posterior_in_class, told.out_of_class)])
    held = _held(truth)
    kept = np.flatnonzero(~held)
    trial = _fit([*(texts[i] for i in kept), *more], np.concatenate([wanted[kept], targets]))
    apart = [texts[i] for i in np.flatnonzero(held)]
    found = trial.predict_proba(apart)
    temperature = _temperature(found, wanted[held])
    loss = _loss(apply_temperature(found, temperature), wanted[held], truth[held], len(names))
    final = _fit([*texts, *more], np.concatenate([wanted, targets]))
    head = final.named_steps["head"]
    head.coef_, head.intercept_ = head.coef_ / temperature, head.intercept_ / temperature
    card = {
        "format": 1,
        "labels": list(labels),
        "panel": classifier.panel.name,
        "teacher": {
            "method": classifier.settings.method,
            "bank": f"{classifier.bank.name}@{classifier.bank.identity[:16]}",
            "embedder": classifier.embedder.id,
        },
        "trained_on": {"bank": len(texts), "background": len(others), "archive": len(archive)},
        "prior": "uniform over the labels",
        "temperature": temperature,
        "simulated_text": loss,
        "version": __version__,
    }
    make_folder(folder)
    with filling(folder, MODEL, CARD):
        write_atomically(folder / MODEL, to_onnx(final))
        write_atomically(folder / CARD, json.dumps(card, ensure_ascii=False, indent=1) + "\n")
    return Student(folder, card)


def _temperature(found: Float, wanted: Float) -> float:
    """The one under which the student's probabilities are nearest to the teacher's, by cross-entropy."""
    from scipy.optimize import minimize_scalar

    def loss(log_t: float) -> float:
        p = apply_temperature(found, float(np.exp(log_t)))
        return float(-(wanted * np.log(np.maximum(p, 1e-12))).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))


def _joint(in_class: Float, outside: Float | None) -> Float:
    """Probabilities of the labels, and of none of these where the teacher gives one."""
    if outside is None:
        return in_class
    return np.column_stack([in_class * (1 - outside)[:, None], outside])


def _held(truth: Int) -> Any:
    """Every fifth text of each label."""
    held = np.zeros(len(truth), dtype=bool)
    for label in np.unique(truth):
        held[np.flatnonzero(truth == label)[HELD - 1 :: HELD]] = True
    if not held.any():
        raise BadInput(f"no label has {HELD} texts: a student could not be measured")
    return held


def _fit(texts: list[str], targets: Float) -> Any:
    """A pipeline that gives these probabilities: a text stands once for each label it may have, weighted."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    row, label = np.nonzero(targets > LEAST)
    words = TfidfVectorizer(token_pattern="[a-zA-Z0-9_]+")
    pipeline = Pipeline([("words", words), ("head", LogisticRegression(C=10.0, max_iter=2000))])
    return pipeline.fit([texts[i] for i in row], label, head__sample_weight=targets[row, label])


def _loss(found: Float, teacher: Float, truth: Int, n_labels: int) -> dict[str, Any]:
    """Both against the labels the texts were simulated for, among the labels; and against each other."""
    parts = [p[:, :n_labels] for p in (found, teacher)]
    inside = [p / np.maximum(p.sum(axis=1, keepdims=True), 1e-12) for p in parts]
    values = [headline_values(p, truth) for p in inside]
    return {
        "n": len(truth),
        "student": {name: values[0][name].value for name in MEASURED},
        "teacher": {name: values[1][name].value for name in MEASURED},
        "same_label": float((inside[0].argmax(axis=1) == inside[1].argmax(axis=1)).mean()),
        "total_variation": float(np.abs(found - teacher).sum(axis=1).mean() / 2),
    }


def to_onnx(pipeline: Any = None) -> bytes:
    """The file's bytes; without a pipeline only whether it could be made."""
    try:
        import onnxruntime  # noqa: F401
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import StringTensorType
    except ImportError:
        raise MissingExtra("a distilled student", "onnx") from None
    if pipeline is None:
        return b""
    # The C locale is on every machine; words are ASCII, so that it lowers them as Python does.
    steps = pipeline.named_steps
    options = {id(steps["words"]): {"locale": "C"}, id(steps["head"]): {"zipmap": False}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = convert_sklearn(pipeline, "student", [("text", StringTensorType([None, 1]))], options=options)
    return bytes(made.SerializeToString())
