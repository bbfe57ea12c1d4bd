"""Training the network: Adam on what D-SMC says about observations from simulated text.

*Observations* are coordinates c = class_means @ z.
Bank rows are taken leave-one-out: a row's own label mean is recomputed without it, else every training
observation would sit closer to its label than any unseen text can. Real text is more mixed, more off
topic and more varied than a bank, so observations are then spread: mixtures of two rows (of any labels,
or of background descriptions), noise with the covariance of the rows themselves, and a random length,
because text with much that is irrelevant has a smaller cosine with every label at once. All of it is
linear in z up to length, so it is done on c directly.

A network may read the whole embedding instead (`inputs`). Its observations are then z itself, spread in the
same way and brought back to unit length. Bank rows stay as they are: the target is D-SMC's answer to z.

*Targets* are D-SMC's answers in the form a Dirichlet objective needs.
Every objective here is the expected log density of Dir(alpha) under some distribution of theta,

    lgamma(alpha0) - sum lgamma(alpha_k) + sum (alpha_k - 1) s_k,      s_k = E log theta_k,

and they differ only in whose expectation s is:

particles   the accepted draws themselves: the forward KL to the particle posterior
kl          the Dirichlet with the draws' mean and the draws' own epistemic bits (the default)
mean        a point mass at the draws' mean, s = log E theta: the paper's objective, which has no finite
            optimum; alpha0 grows until the regression residual stops it

A posterior truncated by a tolerance is not a Dirichlet, so the first two differ: the best likelihood
spends its one spread parameter on the tails of log theta and reports more epistemic bits than D-SMC
does; `kl` keeps the mean and the split of uncertainty that an answer shows. Draws are redrawn for every block
of observations, and for every prior, so that the network averages over their Monte Carlo error.

The network is trained on whitened coordinates (and, if conditioned, on log prior parameters), or on the
centred embedding, and folded into layers on the embedding itself at the end. Early stopping keeps the
weights with the lowest loss on a tenth of the observations, whose blocks of draws the rest never saw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from scipy.linalg import block_diag
from scipy.special import digamma

from simdx import __version__
from simdx.abc.dirichlet import SharedDraws, fit_all_components, nearest_weight, of_dirichlet, prepare
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import (
    ALPHA_FLOOR,
    HIDDEN,
    Card,
    Inputs,
    Layers,
    Network,
    TrainingPrior,
    on_sphere,
    prior_input,
)  # fmt: skip
from simdx.errors import BadInput, MissingExtra, RunFailed
from simdx.methods.panel_data import PanelData
from simdx.types import Float, Mask, entropy_bits

# --------------------------------------------------------------------------- observations

NOISE = (0.0, 0.25, 0.5, 1.0)  # standard deviations of noise, in those of the rows themselves
LENGTH = (0.4, 1.25)  # how much shorter or longer than a mixture of rows an observation may be


def from_bank(space: Space) -> Float:
    """(n + m, K): coordinates of every bank row, leave-one-out, and of every background row."""
    means = space.class_means
    bank = space.bank.astype(np.float64)
    coordinates = bank @ means.T
    rows, label = np.arange(len(bank)), space.label_index
    counts = np.bincount(label, minlength=space.n_labels)[label].astype(np.float64)
    own = coordinates[rows, label]
    square = np.einsum("nd,nd->n", bank, bank)
    # A label with a single row has no other row to compare with: its coordinate stays as it is.
    alone = counts < 2
    coordinates[rows, label] = np.where(alone, own, (counts * own - square) / np.maximum(counts - 1, 1))
    if space.background is not None and len(space.background):
        coordinates = np.concatenate([coordinates, space.background.astype(np.float64) @ means.T])
    return coordinates


def _whole_rows(space: Space) -> Float:
    """(n + m, d): every bank row and every background row as they are."""
    parts = [space.bank] if space.background is None else [space.bank, space.background]
    return np.concatenate(parts).astype(np.float64)


def spread_over(rng: np.random.Generator, base: Float, count: int) -> Float:
    """(count, width): observations around `base`; one half of the mixtures are a single row."""
    first, second = rng.integers(len(base), size=(2, count))
    share = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))[:, None]
    mixture = share * base[first] + (1 - share) * base[second]
    covariance = np.cov(base, rowvar=False).reshape(base.shape[1], base.shape[1])
    root = np.linalg.cholesky(covariance + 1e-9 * np.trace(covariance) * np.eye(len(covariance)))
    noise = rng.choice(NOISE, size=(count, 1)) * (rng.standard_normal(base[first].shape) @ root.T)
    length = np.exp(rng.uniform(np.log(LENGTH[0]), np.log(LENGTH[1]), size=(count, 1)))
    return length * (mixture + noise)


# --------------------------------------------------------------------------- targets

Objective = Literal["kl", "particles", "mean"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)

DRAWS = 500
OBSERVATIONS_PER_DRAWS = 400
# A conditioned network must see many priors, so each gets fewer draws and fewer observations.
PRIOR_DRAWS = 250
OBSERVATIONS_PER_PRIOR = 40
LOG_FLOOR = float(digamma(ALPHA_FLOOR))
# A posterior all in one corner has no spread to learn; without a limit such cases alone would set the loss.
ALPHA0_LIMIT = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Observations with their priors and targets, N rows."""

    observed: Float  # (N, K) coordinates, or (N, d) whole embeddings
    told: Float  # (N, 2K) what a conditioned network is told of the prior
    mean: Float  # (N, K) posterior mean
    alpha: Float  # (N, K) the Dirichlet of `kl`
    mean_log: Float  # (N, K) E log theta over the accepted draws

    @property
    def told_alpha(self) -> Float:
        """(N, K) the prior's parameters among what is told."""
        return self.told[:, self.mean.shape[1] :]

    def statistic(self, objective: Objective) -> Float:
        """s of the objective, (N, K)."""
        if objective == "particles":
            return np.maximum(self.mean_log, LOG_FLOOR)
        if objective == "mean":
            return np.log(np.maximum(self.mean, ALPHA_FLOOR**2))
        return digamma(self.alpha) - digamma(self.alpha.sum(axis=1, keepdims=True))


def accepted_moments(shared: SharedDraws, coordinates: Float, keep: int) -> Float:
    """(N, 3K'+1) averages of theta, theta^2, log theta and entropy over the nearest `keep` draws."""
    cosine = coordinates[:, shared.possible].astype(np.float32) @ shared.unit.T
    weight, total, _, _ = nearest_weight(cosine, keep)
    return (weight @ shared.features).astype(np.float64) / total[:, None]


def matched_dirichlet(mean: Float, epistemic: Float, start: Float) -> Float:
    """alpha (N, K) with that mean and those epistemic bits, by bisection on log alpha0 around `start`."""
    low, high = np.log(start) - 3.0, np.log(start) + 3.0
    for _ in range(30):
        middle = (low + high) / 2
        too_wide = of_dirichlet(mean * np.exp(middle)[:, None]).epistemic_bits > epistemic
        low, high = np.where(too_wide, middle, low), np.where(too_wide, high, middle)
    return mean * np.minimum(np.exp((low + high) / 2), ALPHA0_LIMIT)[:, None]


def targets_from(moments: Float, observed: Float, told: Float, possible: Mask) -> TrainingSet:
    """D-SMC's answers from the moments of the accepted draws, which may be of several priors."""
    n, k = len(moments), len(possible)
    width = int(possible.sum())
    theta, square, log, entropy = np.split(moments, [width, 2 * width, 3 * width], axis=1)
    theta = theta / theta.sum(axis=1, keepdims=True)
    start = fit_all_components(theta, square).sum(axis=1)
    alpha, mean, mean_log = np.full((n, k), ALPHA_FLOOR), np.zeros((n, k)), np.full((n, k), LOG_FLOOR)
    mean[:, possible] = theta
    mean_log[:, possible] = log
    fitted = matched_dirichlet(theta, np.clip(entropy_bits(theta) - entropy[:, 0], 1e-6, None), start)
    alpha[:, possible] = np.maximum(fitted, ALPHA_FLOOR)
    return TrainingSet(observed, told, mean, alpha, mean_log)


def sample_prior(rng: np.random.Generator, n_labels: int) -> Prior:
    """A prior a clinician might hold, right or wrong: even, any, with labels ruled out, or with some named.

    Mostly with alpha0 = K, as a prior given by probabilities has; otherwise anything from a quarter to
    four times that, as given by pseudo-counts.
    """
    kind = rng.random()
    order = rng.permutation(n_labels)
    if kind < 0.1:
        p = np.full(n_labels, 1 / n_labels)
    elif kind < 0.45:
        p = rng.dirichlet(np.ones(n_labels))
    elif kind < 0.6:  # labels ruled out, the others even or any
        left = order[: rng.integers(max(1, n_labels // 2), n_labels)]
        p = np.zeros(n_labels)
        p[left] = 1 / len(left) if rng.random() < 0.5 else rng.dirichlet(np.ones(len(left)))
    else:  # some labels named, the rest shared equally, as on the command line
        named = order[: rng.integers(1, max(2, n_labels // 2 + 1))]
        p = np.zeros(n_labels)
        p[named] = rng.uniform(0.02, 0.97) * rng.dirichlet(np.ones(len(named)))
        rest = np.setdiff1d(order, named)
        p[rest] = (1 - p.sum()) / max(1, len(rest))
    p = p / p.sum()
    alpha0 = n_labels * (1.0 if rng.random() < 0.8 else np.exp(rng.uniform(np.log(0.25), np.log(4))))
    # What is below the floor is the floor to the network, so it must be so to D-SMC as well.
    alpha = np.maximum(p * alpha0, ALPHA_FLOOR)
    return Prior(alpha / alpha.sum(), float(alpha.sum()))


def make_training_set(
    class_means: Float,
    sample: Callable[[np.random.Generator, int], Float],
    count: int,
    *,
    prior: Prior | None,
    populations: int,
    seed: int,
    threads: int = 2,
    whole: bool = False,
    on_block: Callable[[int], None] = lambda done: None,
) -> TrainingSet:
    """`count` observations from `sample` with D-SMC's answers; without a prior, each block draws its own.

    An observation is K coordinates, or a `whole` embedding.
    """
    one = prior is not None
    block, keep = (OBSERVATIONS_PER_DRAWS, DRAWS) if one else (OBSERVATIONS_PER_PRIOR, PRIOR_DRAWS)

    def answered(number: int) -> tuple[Float, Float, Float, Mask]:
        rng = np.random.default_rng([seed, 0xAB1, number])
        own = prior if prior is not None else sample_prior(rng, len(class_means))
        draws_seed = int(rng.integers(2**62))
        shared = prepare(class_means, own, seed=draws_seed, draws=keep, populations=populations)
        seen = sample(rng, block)
        coordinates = seen @ class_means.T if whole else seen
        told = np.tile(prior_input(own), (block, 1))
        return accepted_moments(shared, coordinates, keep), seen, told, shared.possible

    parts = []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for part in pool.map(answered, range(-(-count // block))):
            parts.append(part)
            on_block(min(count, len(parts) * block))
    moments, seen, told, possible = zip(*parts, strict=True)
    rows = [np.concatenate(column)[:count] for column in (moments, seen, told)]
    # A sampled prior leaves no label out, so that all blocks have the same possible ones.
    return targets_from(rows[0], rows[1], rows[2], possible[0])


# --------------------------------------------------------------------------- training

# The divergence between Dirichlets weighs the *relative* error of every parameter, so that labels of next to
# no probability cost as much as the leading ones. Under many priors, where no network of this size is exact,
# the cross-entropy of the means is added with this weight: it has the same optimum and decides which label
# leads when prior and evidence pull apart. It costs some fidelity of the spread (results/abi_fidelity.md).
MEAN_WEIGHT = 300.0


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What a user may choose about training; None is what suits a network for one prior or for many."""

    objective: Objective = "kl"
    inputs: Inputs = "coordinates"
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
    whole = chosen.inputs == "embedding"
    base = _whole_rows(space) if whole else from_bank(space)
    if vectors is not None:
        if len(vectors) < 2:
            raise BadInput("training needs at least 2 observations")
        if not np.all(np.isfinite(vectors)):
            raise BadInput("a training observation holds NaN or infinite values; embed the texts again")
        base = space.transform(vectors).astype(np.float64)
        base = base if whole else base @ space.class_means.T
    fixed = None if chosen.prior_conditioned else (prior or Prior.uniform(space.n_labels))
    _refuse_one_class(space, base @ space.class_means.T if whole else base, fixed, chosen)
    count, report = chosen.count, on_progress or (lambda progress: None)

    def sample(rng: np.random.Generator, n: int) -> Float:
        rows = spread_over(rng, base, n) if spread else base[np.resize(rng.permutation(len(base)), n)]
        return space.transform(rows).astype(np.float64) if whole else rows

    data = make_training_set(
        space.class_means, sample, count, prior=fixed, populations=chosen.populations, seed=chosen.seed,
        threads=chosen.threads, whole=whole,
        on_block=lambda done: report(TrainingProgress("targets", done, count)),
    )  # fmt: skip
    made = time.perf_counter() - started
    inputs = data.observed
    if chosen.prior_conditioned:  # of unit length where outputs multiply the prior's parameters; these beside
        inputs = np.concatenate([on_sphere(inputs, np.eye(inputs.shape[1])), data.told], axis=1)
    centre, transform = _scaled(inputs) if whole else _whitening(inputs, space.n_labels)
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
        inputs=chosen.inputs,
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
    read = np.eye(space.bank.shape[1]) if whole else space.class_means
    return Network(_folded(best, read, centre, transform), card, axes)


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


def _whitening(inputs: Float, k: int) -> tuple[Float, Float]:
    """Centre and transform under which K coordinates are white, and what follows them has unit spread."""
    values, vectors = np.linalg.eigh(np.cov(inputs[:, :k], rowvar=False))
    whiten = vectors / np.sqrt(np.maximum(values, 1e-6 * values.max()))
    spreads = np.maximum(inputs[:, k:].std(axis=0), 1e-3)
    return inputs.mean(axis=0), block_diag(whiten, np.diag(1 / spreads))


def _scaled(rows: Float) -> tuple[Float, Float]:
    """Centre and transform of whole embeddings. One scale for all numbers: one that hardly varies in training
    must not become loud where it does."""
    spread = max(float(np.sqrt(rows.var(axis=0).mean())), 1e-6)
    return rows.mean(axis=0), np.eye(rows.shape[1]) / spread


def _folded(trained: Layers, axes: Float, centre: Float, transform: Float) -> Layers:
    """Layers on the embedding itself: the same function as that trained on what was read along `axes`."""
    (weight, bias), *rest = trained
    weight, k = transform @ weight, len(axes)
    first = np.concatenate([axes.T @ weight[:k], weight[k:]]), bias - centre @ weight
    return tuple((np.ascontiguousarray(w, dtype=np.float32), b.astype(np.float32)) for w, b in [first, *rest])


# --------------------------------------------------------------------------- checks and identity


def _settled(panel_data: PanelData, settings: TrainSettings) -> Any:
    """The settings with no None left, which their types cannot say; refused where they make no sense."""
    usual = FOR_MANY_PRIORS if settings.prior_conditioned else FOR_ONE_PRIOR
    left_open = {name: value for name, value in usual.items() if getattr(settings, name) is None}
    found: Any = replace(settings, **left_open)  # type: ignore[arg-type]
    if found.objective not in OBJECTIVES:
        raise BadInput(f"unknown objective '{found.objective}': choose one of {', '.join(OBJECTIVES)}")
    if found.inputs not in get_args(Inputs):
        raise BadInput(f"unknown inputs '{found.inputs}': choose one of {', '.join(get_args(Inputs))}")
    if found.inputs == "embedding" and found.prior_conditioned:
        raise BadInput(
            "a network for any prior reads coordinates: leave out --inputs embedding, or --prior-conditioned"
        )
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
