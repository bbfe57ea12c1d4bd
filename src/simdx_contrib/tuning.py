"""Baselines that fine-tune a small sentence encoder (MiniLM): what a reviewer asks to be compared with.

setfit       contrastive pairs of the bank's texts, then logistic regression on the tuned vectors
             (Tunstall et al. 2022, arXiv 2209.11055)
setfit-real  the same on the labelled cases of `--real` alone: few-shot SetFit, with no simulation
zerogen      the encoder and a linear layer trained on the bank with the cross-entropy, as ZeroGen trains its
             task model (Ye et al. 2022, arXiv 2202.07922)

Rates and sizes are those of the papers' code where it states them; nothing is chosen on cases. A text longer
than the encoder's window is cut at it, as these methods do. Labels count alike, so that scores are
probabilities under a uniform prior. It runs on a graphics card where torch sees one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.embedders.sentence import SentenceEmbedder
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.logistic import choose_penalty, fit_logistic
from simdx.methods.panel_data import Observations, PanelData
from simdx.types import Float, Int

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 16  # pairs, or twice as many texts
RATE = 2e-5
ROUNDS = 5  # in each, every text is in one pair of its own label and in one with another
EPOCHS = 20  # of the cross-entropy: what small sets need (Mosbach et al. 2021, arXiv 2006.04884)


class FineTuned(Fitted):
    speed = "slow"
    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        texts, labels = self._examples(settings)
        self._n = len(texts)
        self._scores = tuned(
            SentenceEmbedder("minilm").model,  # a copy of its own: the embedder's stays as it is
            texts, labels, len(data.panel.names),
            contrastive=settings.method != "zerogen", seed=settings.seed,
        )  # fmt: skip

    def _examples(self, settings: Settings) -> tuple[list[str], Int]:
        bank, real = self.data.bank, self.data.real
        if settings.method != "setfit-real":
            return list(bank.texts), bank.label_index
        if real is None:
            raise BadInput("--method setfit-real learns from labelled cases: give some with --real")
        rows = np.flatnonzero(~real.inferred & (real.label_index < len(bank.labels)))
        if missing := set(range(len(bank.labels))) - set(real.label_index[rows].tolist()):
            raise BadInput(f"--method setfit-real needs a case of '{bank.labels[min(missing)]}' in --real")
        return [real.texts[i] for i in rows], real.label_index[rows]

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        n_labels = len(self.data.panel.names)
        scores = self._scores(observations.texts) if observations.texts else np.zeros((0, n_labels))
        return Inferred(posterior_of(scores, prior, carried_by=float(self._n)))


def tuned(
    encoder: Any, texts: list[str], labels: Int, n_labels: int, *, contrastive: bool, seed: int
) -> Callable[[Sequence[str]], Float]:
    """Tune the encoder in place; texts -> (N, K) probabilities."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        if not contrastive:
            layer = _cross_entropy(encoder, texts, labels, n_labels, rng)

            def scores(cases: Sequence[str]) -> Float:
                with torch.no_grad():
                    found = layer(_encoded(encoder, cases))
                    return torch.softmax(found, dim=1).cpu().numpy().astype(float)

            return scores
        _contrast(encoder, texts, labels, rng)
    x = _rows(encoder, texts)
    head = fit_logistic(x, labels, n_labels, choose_penalty(x, labels, n_labels, seed))
    return lambda cases: head.probabilities(_rows(encoder, cases))


def _contrast(encoder: Any, texts: list[str], labels: Int, rng: np.random.Generator) -> None:
    """Cosines of pairs are drawn to 1 within a label and to 0 between two."""
    import torch

    def loss(pairs: list[tuple[int, int, float]]) -> Tensor:
        left = _vectors(encoder, [texts[i] for i, _, _ in pairs])
        right = _vectors(encoder, [texts[j] for _, j, _ in pairs])
        wanted = torch.tensor([pair[2] for pair in pairs], device=left.device)
        return torch.nn.functional.mse_loss(torch.cosine_similarity(left, right), wanted)

    pairs = [pair for _ in range(ROUNDS) for pair in _pairs(labels, rng)]
    shuffled = [pairs[i] for i in rng.permutation(len(pairs))]
    _descend(encoder, list(encoder.parameters()), shuffled, BATCH, loss)


def _pairs(labels: Int, rng: np.random.Generator) -> Iterator[tuple[int, int, float]]:
    for i, label in enumerate(labels.tolist()):
        same, other = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        same = same[same != i]
        if same.size:
            yield i, int(rng.choice(same)), 1.0
        if other.size:
            yield i, int(rng.choice(other)), 0.0


def _cross_entropy(
    encoder: Any, texts: list[str], labels: Int, n_labels: int, rng: np.random.Generator
) -> Any:
    """A linear layer on the encoder, both trained; every label weighs the same."""
    import torch

    counts = np.maximum(np.bincount(labels, minlength=n_labels), 1)
    device = next(encoder.parameters()).device
    layer = torch.nn.Linear(int(encoder.get_embedding_dimension()), n_labels).to(device)
    weight = torch.tensor(len(labels) / (n_labels * counts), dtype=torch.float32, device=device)

    def loss(rows: list[int]) -> Tensor:
        truth = torch.tensor(labels[rows], device=device)
        found = layer(_vectors(encoder, [texts[i] for i in rows]))
        return torch.nn.functional.cross_entropy(found, truth, weight=weight)

    order = [int(i) for _ in range(EPOCHS) for i in rng.permutation(len(texts))]
    _descend(encoder, [*encoder.parameters(), *layer.parameters()], order, 2 * BATCH, loss)
    return layer


def _descend(
    encoder: Any, parameters: list[Any], examples: list[Any], size: int, loss: Callable[[list[Any]], Tensor]
) -> None:
    """One pass over the examples; AdamW with a linear decay."""
    import torch

    optimiser = torch.optim.AdamW(parameters, lr=RATE)
    steps = range(0, len(examples), size)
    decay = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=max(len(steps), 1))
    encoder.train()
    for start in steps:
        optimiser.zero_grad()
        loss(examples[start : start + size]).backward()
        optimiser.step()
        decay.step()
    encoder.eval()


def _vectors(encoder: Any, texts: list[str]) -> Tensor:
    """(N, d) with a gradient."""
    device = next(encoder.parameters()).device
    tokens = {k: part.to(device) for k, part in encoder.preprocess(texts).items() if hasattr(part, "to")}
    found: Tensor = encoder(tokens)["sentence_embedding"]
    return found


def _encoded(encoder: Any, texts: Sequence[str]) -> Tensor:
    """(N, d) without a gradient; texts of like length together, since all of a part are as long as its
    longest."""
    import torch

    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    with torch.no_grad():
        parts = [
            _vectors(encoder, [texts[i] for i in order[start : start + BATCH]])
            for start in range(0, len(order), BATCH)
        ]
        return torch.cat(parts)[np.argsort(order)]


def _rows(encoder: Any, texts: Sequence[str]) -> Float:
    return np.asarray(_encoded(encoder, texts).cpu().numpy(), dtype=float)
