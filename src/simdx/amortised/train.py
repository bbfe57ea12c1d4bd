"""Training the network: Adam on D-SMC's answers to simulated observations.

The network is trained on whitened coordinates (and, if conditioned, on log prior parameters) and folded
into layers on the embedding itself at the end. Early stopping keeps the weights with the lowest loss on
a tenth of the observations, whose blocks of draws the rest never saw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from simdx import __version__
from simdx.abc.dirichlet import prepare
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised import observations
from simdx.amortised.network import HIDDEN, Card, Network, TrainingPrior, on_sphere
from simdx.amortised.targets import (
    OBJECTIVES,
    Objective,
    TrainingSet,
    make_training_set,
    targets_for,
)
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.methods.material import Material
from simdx.types import Float

# The divergence between Dirichlets weighs the *relative* error of every parameter, so that labels of next to
# no probability cost as much as the leading ones. Under many priors, where no network of this size is exact,
# the cross-entropy of the means is added with this weight: it has the same optimum and decides which label
# leads when prior and evidence pull apart. It costs some fidelity of the spread (results/abi_fidelity.md).
MEAN_WEIGHT = 300.0


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What a user may choose about training; None is what suits a network for one prior or for many."""

    objective: Objective = "kl"
    prior_conditioned: bool = False
    populations: int = 5
    count: int | None = None  # observations; None: 40,000, or 240,000 when conditioned
    epochs: int | None = None  # at most; None: 60, or 30 when conditioned
    batch: int | None = None  # None: 256, or 512 when conditioned
    learning_rate: float | None = None  # None: .003, or .005 when conditioned
    patience: int = 12
    seed: int = 0
    threads: int = 2


@dataclass(frozen=True, slots=True)
class Amount:
    """How much training a network gets."""

    count: int
    epochs: int
    batch: int
    learning_rate: float

    @classmethod
    def of(cls, settings: TrainSettings) -> Amount:
        usual = FOR_MANY_PRIORS if settings.prior_conditioned else FOR_ONE_PRIOR
        chosen = {name: getattr(settings, name) for name in cls.__slots__}
        return replace(usual, **{name: value for name, value in chosen.items() if value is not None})


FOR_ONE_PRIOR = Amount(count=40_000, epochs=60, batch=256, learning_rate=3e-3)
# Under a strong prior D-SMC's two leading labels are often within .02 of each other, so the means must be
# right to about .01: that takes twice as many observations as steps alone would ask for. The larger batch
# takes them in the same time.
FOR_MANY_PRIORS = Amount(count=240_000, epochs=30, batch=512, learning_rate=5e-3)


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Where training is: shown live, and kept as its record."""

    stage: str  # "targets" | "training"
    done: int
    of: int
    loss: float = math.nan
    held_out: float = math.nan


OnProgress = Callable[[TrainingProgress], None]


def train(
    material: Material,
    settings: TrainSettings,
    *,
    prior: Prior | None = None,
    vectors: Float | None = None,
    source: str = "bank",
    spread: bool = True,
    on_progress: OnProgress | None = None,
) -> Network:
    """A network for the material's panel, bank and embedder.

    `prior` is the one prior it will answer for (uniform when None; ignored when conditioned). `vectors`
    are raw embeddings of unlabelled texts to train on instead of the bank; `source` says where from. Without
    `spread` they are taken as they are, each once (the paper's way).
    """
    _check(material, settings)
    torch = _torch()
    started = time.perf_counter()
    space = Space.fit(material.embedded, centre=False)
    base = observations.from_bank(space) if vectors is None else observations.from_vectors(space, vectors)
    fixed = None if settings.prior_conditioned else (prior or Prior.uniform(space.n_labels))
    _refuse_one_class(space, base, fixed, settings)
    amount = Amount.of(settings)
    report = on_progress or (lambda progress: None)
    data = make_training_set(
        space.class_means,
        lambda rng, n: (
            observations.spread(rng, base, n) if spread else base[np.resize(rng.permutation(len(base)), n)]
        ),
        amount.count,
        prior=fixed,
        populations=settings.populations,
        seed=settings.seed,
        threads=settings.threads,
        on_block=lambda done: report(TrainingProgress("targets", done, amount.count)),
    )
    made = time.perf_counter() - started
    fold = _Fold(space.class_means, data, settings.prior_conditioned)
    card = _card(material, settings, fixed, source)
    best, history = _fit(torch, fold, data, settings, amount, report)
    card = card.model_copy(
        update={
            "metrics": {
                "held_out_loss": min(h.held_out for h in history),
                "loss": history[-1].loss,
                "epochs": len(history),
                "observations": amount.count,
                "seconds_for_targets": round(made, 2),
                "seconds": round(time.perf_counter() - started, 2),
            }
        }
    )
    return fold.network(best, card)


# --------------------------------------------------------------------------- optimisation


def _fit(
    torch: Any,
    fold: _Fold,
    data: TrainingSet,
    settings: TrainSettings,
    amount: Amount,
    report: OnProgress,
) -> tuple[list[tuple[Float, Float]], list[TrainingProgress]]:
    """The layers with the lowest held-out loss, and the loss of every epoch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)  # layers this small lose more to waiting for a second thread than it gives
    generator = torch.Generator().manual_seed(settings.seed)
    conditioned = settings.prior_conditioned
    helped = settings.objective == "kl" and conditioned
    columns = fold.inputs(data), data.statistic(settings.objective), data.mean, fold.unit(data)
    rows_of = [torch.as_tensor(column, dtype=torch.float32) for column in columns]
    held = max(1, len(data.mean) // 10)  # the last blocks, so that no held-out row shares its draws
    seen, unseen = ([t[part].to(device) for t in rows_of] for part in (slice(-held), slice(-held, None)))
    sizes = (columns[0].shape[1], HIDDEN, HIDDEN, data.mean.shape[1])
    parameters = []
    for fan_in, fan_out in pairwise(sizes):
        scale = math.sqrt(2 / fan_in)
        weight = torch.randn(fan_in, fan_out, generator=generator) * scale
        parameters += [weight.to(device), torch.zeros(fan_out, device=device)]
    parameters = [p.requires_grad_() for p in parameters]
    optimiser = torch.optim.Adam(parameters, lr=amount.learning_rate, fused=True)
    batches = max(1, len(seen[0]) // amount.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, amount.epochs * batches)

    def loss_of(rows: Any, wanted: Any, wanted_mean: Any, unit: Any) -> Any:
        h = torch.relu(rows @ parameters[0] + parameters[1])
        h = torch.relu(h @ parameters[2] + parameters[3])
        alpha = (torch.nn.functional.softplus(h @ parameters[4] + parameters[5]) + 1e-6) * unit
        density = torch.lgamma(alpha.sum(1)) - torch.lgamma(alpha).sum(1) + ((alpha - 1) * wanted).sum(1)
        if not helped:
            return -density.mean()
        share = torch.log(alpha) - torch.log(alpha.sum(1, keepdim=True))
        return -(density + MEAN_WEIGHT * (wanted_mean * share).sum(1)).mean()

    history: list[TrainingProgress] = []
    best, best_loss, since = None, math.inf, 0
    for epoch in range(1, amount.epochs + 1):
        order = torch.randperm(len(seen[0]), generator=generator).to(device)
        total = 0.0
        for i in range(batches):
            rows = order[i * amount.batch : (i + 1) * amount.batch]
            loss = loss_of(*(t[rows] for t in seen))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.detach()
        mean_loss = float(total) / batches
        with torch.no_grad():
            held_loss = float(loss_of(*unseen))
        if not (math.isfinite(mean_loss) and math.isfinite(held_loss)):
            raise RunFailed(
                f"training diverged in epoch {epoch} (the loss is not finite): lower --learning-rate "
                f"from {amount.learning_rate:g}; nothing was saved"
            )
        history.append(TrainingProgress("training", epoch, amount.epochs, mean_loss, held_loss))
        report(history[-1])
        if held_loss < best_loss:
            best, best_loss, since = _arrays(parameters), held_loss, 0
        else:
            since += 1
            if since >= settings.patience:
                break
    assert best is not None
    return best, history


def _arrays(parameters: list[Any]) -> list[tuple[Float, Float]]:
    flat = [p.detach().cpu().double().numpy().copy() for p in parameters]
    return list(zip(flat[::2], flat[1::2], strict=True))


class _Fold:
    """Whitened coordinates in training, the embedding itself afterwards: the same function of both.

    For a conditioned network, whose outputs multiply the prior's parameters, coordinates have unit length.
    """

    def __init__(self, class_means: Float, data: TrainingSet, conditioned: bool) -> None:
        self.class_means = class_means
        self.conditioned = conditioned
        coordinates = self._coordinates(data)
        self.centre = coordinates.mean(axis=0)
        covariance = np.cov(coordinates, rowvar=False)
        values, vectors = np.linalg.eigh(covariance)
        self.whiten = vectors / np.sqrt(np.maximum(values, 1e-6 * values.max()))
        self.prior_centre = data.told.mean(axis=0)
        self.prior_scale = np.maximum(data.told.std(axis=0), 1e-3)

    def _coordinates(self, data: TrainingSet) -> Float:
        return (
            on_sphere(data.coordinates, np.eye(len(self.class_means)))
            if self.conditioned
            else data.coordinates
        )

    def inputs(self, data: TrainingSet) -> Float:
        x = (self._coordinates(data) - self.centre) @ self.whiten
        if not self.conditioned:
            return x
        return np.concatenate([x, (data.told - self.prior_centre) / self.prior_scale], axis=1)

    def unit(self, data: TrainingSet) -> Float:
        """(N, K) what an output of one means: the prior's parameter, or one."""
        return data.told_alpha if self.conditioned else np.ones_like(data.mean)

    def network(self, trained: list[tuple[Float, Float]], card: Card) -> Network:
        axes = self.class_means.astype(np.float32) if self.conditioned else None
        return Network(self.layers(trained), card, axes)

    def layers(self, trained: list[tuple[Float, Float]]) -> tuple[tuple[Float, Float], ...]:
        (weight, bias), *rest = trained
        k = len(self.centre)
        from_coordinates = self.whiten @ weight[:k]
        bias = bias - self.centre @ from_coordinates
        first = self.class_means.T @ from_coordinates
        if self.conditioned:
            from_prior = weight[k:] / self.prior_scale[:, None]
            bias = bias - self.prior_centre @ from_prior
            first = np.concatenate([first, from_prior])
        return tuple(
            (np.ascontiguousarray(w, dtype=np.float32), b.astype(np.float32))
            for w, b in [(first, bias), *rest]
        )


# --------------------------------------------------------------------------- checks and identity


def _check(material: Material, settings: TrainSettings) -> None:
    if settings.objective not in OBJECTIVES:
        raise BadInput(f"unknown objective '{settings.objective}': choose one of {', '.join(OBJECTIVES)}")
    if len(material.panel.names) < 2:
        raise BadInput("a network needs at least two labels to tell apart; this panel has one")
    if not 1 <= settings.populations <= 12:
        raise BadInput(f"--populations is {settings.populations}: give a number from 1 to 12 for a network")
    amount = Amount.of(settings)
    if not (math.isfinite(amount.learning_rate) and amount.learning_rate > 0):
        raise BadInput(f"--learning-rate is {amount.learning_rate:g}: give a finite number above 0")
    for name, value in (
        ("--count", settings.count),
        ("--epochs", settings.epochs),
        ("--seed", settings.seed),
    ):
        if value is not None and value < (0 if name == "--seed" else 1):
            raise BadInput(f"{name} is {value}: give a larger number")
    if amount.count < 2 * amount.batch:
        raise BadInput(f"--count is {amount.count}: train on at least {2 * amount.batch} observations")


def _refuse_one_class(space: Space, base: Float, prior: Prior | None, settings: TrainSettings) -> None:
    """Observations that D-SMC all calls the same teach a network to say that, whatever it is shown."""
    judge = prior or Prior.uniform(space.n_labels)
    shared = prepare(
        space.class_means, judge, seed=settings.seed, draws=100, populations=settings.populations
    )
    tops = targets_for(shared, base, judge, 100).mean.argmax(axis=1)
    if len(np.unique(tops)) < 2:
        raise BadInput(
            "all training observations belong to one class under D-SMC: give observations of several labels"
        )


def _card(material: Material, settings: TrainSettings, prior: Prior | None, source: str) -> Card:
    k = len(material.panel.names)
    told = prior or Prior.uniform(k)
    return Card(
        panel=material.panel.name,
        panel_hash=material.panel.hash,
        labels=material.panel.names,
        bank=material.bank.name,
        bank_hash=material.bank.hash,
        embedder=material.embedder.id,
        blocks=tuple(material.embedder.blocks),
        populations=settings.populations,
        prior_conditioned=settings.prior_conditioned,
        relative=settings.prior_conditioned,
        prior=TrainingPrior(probabilities=tuple(told.probabilities.tolist()), alpha0=told.alpha0),
        objective=settings.objective,
        observations=source,
        settings=asdict(settings) | asdict(Amount.of(settings)),
        version=__version__,
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("training a network", "abi") from None
    return torch
