"""Baselines that fine-tune a small sentence encoder (MiniLM): what a reviewer asks to be compared with.

setfit       contrastive pairs of the bank's texts, then logistic regression on the tuned vectors
             (Tunstall et al. 2022, arXiv 2209.11055)
setfit-real  the same on the labelled cases of `--real` alone: few-shot SetFit, with no simulation
zerogen      the encoder and a linear layer trained on the bank with the cross-entropy, as ZeroGen trains its
             task model (Ye et al. 2022, arXiv 2202.07922)

The training itself is in `tuning`; it runs on a graphics card where torch sees one.
"""

from __future__ import annotations

import numpy as np

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.baselines.tuning import tuned
from simdx.embedders.sentence import SentenceEmbedder
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.material import Material, Observations
from simdx.types import Int

ENCODER = "minilm"


class FineTuned(Fitted):
    """A tuned encoder and what reads its vectors."""

    refits = False
    cheap = False
    proportional = True

    def __init__(self, material: Material, settings: Settings) -> None:
        super().__init__(material)
        texts, labels = self._examples(settings)
        self._n = len(texts)
        self._scores = tuned(
            SentenceEmbedder(ENCODER).model,  # a copy of its own: the embedder's stays as it is
            texts, labels, len(material.panel.names),
            contrastive=settings.method != "zerogen", seed=settings.seed,
        )  # fmt: skip

    def _examples(self, settings: Settings) -> tuple[list[str], Int]:
        """Texts and labels to learn from."""
        bank, real = self.material.bank, self.material.real
        if settings.method != "setfit-real":
            return list(bank.texts), bank.label_index
        if real is None:
            raise BadInput("--method setfit-real learns from labelled cases: give some with --real")
        rows = np.flatnonzero(~real.inferred & (real.label_index < len(bank.labels)))
        if missing := set(range(len(bank.labels))) - set(real.label_index[rows].tolist()):
            raise BadInput(f"--method setfit-real needs a case of '{bank.labels[min(missing)]}' in --real")
        return [real.texts[i] for i in rows], real.label_index[rows]

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        n_labels = len(self.material.panel.names)
        scores = self._scores(observations.texts) if observations.texts else np.zeros((0, n_labels))
        return Inferred(posterior_of(scores, prior, carried_by=float(self._n)))
