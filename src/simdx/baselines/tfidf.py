"""Words only: TF-IDF cosine between a case and the mean of each label's simulations.

Inverse document frequencies come from the bank, smoothed as if one more document held every word; words
the bank never uses are ignored. A case that shares no word with the bank is answered by the prior.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from simdx.abc.prior import Prior
from simdx.baselines.centroid import unit_rows
from simdx.baselines.scores import posterior_of, similarity_scores
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Float, Posterior, Trace

_WORD = re.compile(r"\w\w+")


def fit_tfidf(material: Material, settings: Settings) -> Infer:
    bank = material.bank
    model = TfIdf(bank.texts)
    one_hot = np.eye(len(bank.labels))[bank.label_index]
    means = unit_rows((model.transform(bank.texts).T @ one_hot).T)

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        cosine = model.transform(observations.texts) @ means.T
        silent = ~cosine.any(axis=1)
        scores = similarity_scores(cosine, settings.kernel, settings.bandwidth)
        scores[silent] = 0.0  # no word in common: nothing was said, also under a softmax
        return posterior_of(scores, prior, carried_by=np.where(silent, 0.0, len(bank.texts))), None

    return infer


class TfIdf:
    """A vocabulary with its inverse document frequencies; rows come out with unit length."""

    def __init__(self, texts: Sequence[str]) -> None:
        documents = Counter(word for text in texts for word in set(words(text)))
        self.vocabulary = {word: i for i, word in enumerate(sorted(documents))}
        counts = np.array([documents[word] for word in self.vocabulary], dtype=float)
        self.idf: Float = np.log((1 + len(texts)) / (1 + counts)) + 1

    def transform(self, texts: Sequence[str]) -> csr_matrix:
        data: list[float] = []
        columns: list[int] = []
        ends = [0]
        for text in texts:
            found = Counter(word for word in words(text) if word in self.vocabulary)
            row = np.array([count * self.idf[self.vocabulary[word]] for word, count in found.items()])
            data += (row / np.linalg.norm(row)).tolist() if len(row) else []
            columns += [self.vocabulary[word] for word in found]
            ends.append(len(columns))
        return csr_matrix((data, columns, ends), shape=(len(texts), len(self.vocabulary)))


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
