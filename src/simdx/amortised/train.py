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
from scipy.linalg import block_diag

from simdx import __version__
from simdx.abc.dirichlet import prepare
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised import training_set
from simdx.amortised.network import HIDDEN, Card, Layers, Network, TrainingPrior, on_sphere
from simdx.amortised.training_set import (
    OBJECTIVES,
    Objective,
    TrainingSet,
    accepted_moments,
    make_training_set,
)
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.methods.panel_data import PanelData
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


FOR_ONE_PRIOR = {"count": 40_000, "epochs": 60, "batch": 256, "learning_rate": 3e-3}
# Under a strong prior D-SMC's two leading labels are often within .02 of each other, so the means must be
# right to about .01: that takes twice as many observations as steps alone would ask for. The larger batch
# takes them in the same time.
FOR_MANY_PRIORS = {"count": 240_000, "epochs": 30, "batch": 512, "learning_rate": 5e-3}


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
    panel_data: PanelData,
    settings: TrainSettings,
    *,
    prior: Prior | None = None,
    vectors: Float | None = None,
    source: str = "bank",
    spread: bool = True,
    on_progress: OnProgress | None = None,
) -> Network:
    """A network for the panel data's panel, bank and embedder.

    `prior` is the one prior it will answer for (uniform when None; ignored when conditioned). `vectors`
    are raw embeddings of unlabelled texts to train on instead of the bank; `source` says where from. Without
    `spread` they are taken as they are, each once (the paper's way).
    """
    chosen = _settled(panel_data, settings)
    try:
        import torch
    except ImportError:
        raise MissingExtra("training a network", "abi") from None
    started = time.perf_counter()
    space = Space.fit(panel_data.embedded, centre=False)
    base = training_set.from_bank(space) if vectors is None else training_set.from_vectors(space, vectors)
    fixed = None if chosen.prior_conditioned else (prior or Prior.uniform(space.n_labels))
    _refuse_one_class(space, base, fixed, chosen)
    count, report = chosen.count, on_progress or (lambda progress: None)

    def sample(rng: np.random.Generator, n: int) -> Float:
        return training_set.spread(rng, base, n) if spread else base[np.resize(rng.permutation(len(base)), n)]

    data = make_training_set(
        space.class_means, sample, count, prior=fixed, populations=chosen.populations, seed=chosen.seed,
        threads=chosen.threads, on_block=lambda done: report(TrainingProgress("targets", done, count)),
    )  # fmt: skip
    made = time.perf_counter() - started
    inputs = _inputs(data, chosen.prior_conditioned)
    centre, transform = _whitening(inputs, space.n_labels)
    best, history = _fit(torch, (inputs - centre) @ transform, data, chosen, report)
    told = fixed or Prior.uniform(space.n_labels)
    card = Card(
        panel=panel_data.panel.name,
        panel_hash=panel_data.panel.hash,
        labels=panel_data.panel.names,
        bank=panel_data.bank.name,
        bank_hash=panel_data.bank.hash,
        embedder=panel_data.embedder.id,
        blocks=tuple(panel_data.embedder.blocks),
        populations=chosen.populations,
        prior_conditioned=chosen.prior_conditioned,
        prior=TrainingPrior(probabilities=tuple(told.probabilities.tolist()), alpha0=told.alpha0),
        objective=chosen.objective,
        observations=source,
        settings=asdict(chosen),
        metrics={
            "held_out_loss": min(h.held_out for h in history),
            "loss": history[-1].loss,
            "epochs": len(history),
            "observations": count,
            "seconds_for_targets": round(made, 2),
            "seconds": round(time.perf_counter() - started, 2),
        },
        version=__version__,
    )
    axes = space.class_means.astype(np.float32) if chosen.prior_conditioned else None
    return Network(_folded(best, space.class_means, centre, transform), card, axes)


# --------------------------------------------------------------------------- optimisation


def _fit(
    torch: Any, inputs: Float, data: TrainingSet, settings: Any, report: OnProgress
) -> tuple[Layers, list[TrainingProgress]]:
    """The layers with the lowest held-out loss, and the loss of every epoch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)  # layers this small lose more to waiting for a second thread than it gives
    generator = torch.Generator().manual_seed(settings.seed)
    epochs, size, rate = settings.epochs, settings.batch, settings.learning_rate
    helped = settings.objective == "kl" and settings.prior_conditioned
    # What an output of one means: the prior's parameter, or one.
    unit = data.told_alpha if settings.prior_conditioned else np.ones_like(data.mean)
    columns = inputs, data.statistic(settings.objective), data.mean, unit
    rows_of = [torch.as_tensor(column, dtype=torch.float32) for column in columns]
    held = max(1, len(data.mean) // 10)  # the last blocks, so that no held-out row shares its draws
    seen, unseen = ([t[part].to(device) for t in rows_of] for part in (slice(-held), slice(-held, None)))
    sizes = (inputs.shape[1], HIDDEN, HIDDEN, data.mean.shape[1])
    parameters = []
    for fan_in, fan_out in pairwise(sizes):
        weight = torch.randn(fan_in, fan_out, generator=generator) * math.sqrt(2 / fan_in)
        parameters += [weight.to(device), torch.zeros(fan_out, device=device)]
    parameters = [p.requires_grad_() for p in parameters]
    optimiser = torch.optim.Adam(parameters, lr=rate, fused=True)
    batches = max(1, len(seen[0]) // size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)

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
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(seen[0]), generator=generator).to(device)
        total = 0.0
        for i in range(batches):
            rows = order[i * size : (i + 1) * size]
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
                f"from {rate:g}; nothing was saved"
            )
        history.append(TrainingProgress("training", epoch, epochs, mean_loss, held_loss))
        report(history[-1])
        if held_loss < best_loss:
            flat = [p.detach().cpu().double().numpy().copy() for p in parameters]
            best, best_loss, since = tuple(zip(flat[::2], flat[1::2], strict=True)), held_loss, 0
        else:
            since += 1
            if since >= settings.patience:
                break
    assert best is not None
    return best, history


def _inputs(data: TrainingSet, conditioned: bool) -> Float:
    """(N, K) coordinates, of unit length where outputs multiply the prior's parameters; these beside them."""
    if not conditioned:
        return data.coordinates
    on_unit_sphere = on_sphere(data.coordinates, np.eye(data.coordinates.shape[1]))
    return np.concatenate([on_unit_sphere, data.told], axis=1)


def _whitening(inputs: Float, k: int) -> tuple[Float, Float]:
    """Centre and transform under which K coordinates are white, and what follows them has unit spread."""
    values, vectors = np.linalg.eigh(np.cov(inputs[:, :k], rowvar=False))
    whiten = vectors / np.sqrt(np.maximum(values, 1e-6 * values.max()))
    spreads = np.maximum(inputs[:, k:].std(axis=0), 1e-3)
    return inputs.mean(axis=0), block_diag(whiten, np.diag(1 / spreads))


def _folded(trained: Layers, class_means: Float, centre: Float, transform: Float) -> Layers:
    """Layers on the embedding itself: the same function as that trained on whitened coordinates."""
    (weight, bias), *rest = trained
    weight, k = transform @ weight, len(class_means)
    first = np.concatenate([class_means.T @ weight[:k], weight[k:]]), bias - centre @ weight
    return tuple((np.ascontiguousarray(w, dtype=np.float32), b.astype(np.float32)) for w, b in [first, *rest])


# --------------------------------------------------------------------------- checks and identity


def _settled(panel_data: PanelData, settings: TrainSettings) -> Any:
    """The settings with no None left, which their types cannot say; refused where they make no sense."""
    usual = FOR_MANY_PRIORS if settings.prior_conditioned else FOR_ONE_PRIOR
    left_open = {name: value for name, value in usual.items() if getattr(settings, name) is None}
    found: Any = replace(settings, **left_open)  # type: ignore[arg-type]
    if found.objective not in OBJECTIVES:
        raise BadInput(f"unknown objective '{found.objective}': choose one of {', '.join(OBJECTIVES)}")
    if len(panel_data.panel.names) < 2:
        raise BadInput("a network needs at least two labels to tell apart; this panel has one")
    if not 1 <= found.populations <= 12:
        raise BadInput(f"--populations is {found.populations}: give a number from 1 to 12 for a network")
    if not (math.isfinite(found.learning_rate) and found.learning_rate > 0):
        raise BadInput(f"--learning-rate is {found.learning_rate:g}: give a finite number above 0")
    for name, least in (("count", 1), ("epochs", 1), ("seed", 0)):
        if getattr(found, name) < least:
            raise BadInput(f"--{name} is {getattr(found, name)}: give a larger number")
    if found.count < 2 * found.batch:
        raise BadInput(f"--count is {found.count}: train on at least {2 * found.batch} observations")
    return found


def _refuse_one_class(space: Space, base: Float, prior: Prior | None, settings: TrainSettings) -> None:
    """Observations that D-SMC all calls the same teach a network to say that, whatever it is shown."""
    judge, how = prior or Prior.uniform(space.n_labels), {"seed": settings.seed, "draws": 100}
    shared = prepare(space.class_means, judge, populations=settings.populations, **how)
    tops = accepted_moments(shared, base, 100)[:, : int(shared.possible.sum())].argmax(axis=1)
    if len(np.unique(tops)) < 2:
        raise BadInput(
            "all training observations belong to one class under D-SMC: give observations of several labels"
        )
