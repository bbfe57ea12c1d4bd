"""The trained network: what it computes, what it may be used for, and how it is stored.

    alpha = softplus(relu(relu(x W1 + b1) W2 + b2) W3 + b3),    x = z

A network told of the prior answers with a ratio instead, and reads the observation on the unit sphere:

    alpha = prior alpha * softplus(...),    x = [z / |A z|, log prior alpha, prior alpha]

A are the class means. D-SMC ranks draws by their cosine with z, which the length of A z does not change, and
without evidence its answer is the prior: what is known beforehand need not be learnt from examples.

Of z a network reads the K coordinates A z, folded into W1, unless its card says that it reads all of z.

numpy alone is enough to load and run it. On disk it is one sealed file in a folder, weights and card
(format, panel, bank and embedder it belongs to, training, metrics), written through an atomic rename: at
every moment the folder holds the old network, or the new one, or none.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from simdx.abc.dirichlet import concentration_cap, of_dirichlet
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.disk import CannotWrite, load_described, make_folder, save_arrays
from simdx.errors import BadInput, RunFailed
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.models.registry import home
from simdx.types import Float, Posterior, SecondOrder, content_hash

HIDDEN = 256
NETWORK_FILE = "network.safetensors"
MAX_BYTES = 2**30
SAME_PRIOR = 1e-6
# Below this a Dirichlet parameter is "never": a mean of one in a thousand, or less, carries no evidence.
ALPHA_FLOOR = 1e-2
# Rows are taken through all layers in blocks of this many, so that the hidden layers stay in cache.
BLOCK = 4096

Layers = tuple[tuple[Float, Float], ...]
Inputs = Literal["coordinates", "embedding"]


class TrainingPrior(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    probabilities: tuple[float, ...]
    alpha0: float


class Card(BaseModel):
    """What a network is for and where it comes from; everything but the weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[2] = 2
    panel: str
    panel_hash: str
    labels: tuple[str, ...] = Field(min_length=2)
    bank: str
    bank_hash: str
    embedder: str
    blocks: tuple[int, ...] = Field(min_length=1)
    populations: int
    prior_conditioned: bool
    prior: TrainingPrior
    objective: Literal["kl", "particles", "mean"]
    inputs: Inputs = "coordinates"
    observations: str
    settings: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Any] = Field(default_factory=dict)
    version: str

    @property
    def width(self) -> int:
        return sum(self.blocks) + (2 * len(self.labels) if self.prior_conditioned else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Three layers and their card; a conditioned one reads z against its `axes` (K, d), the class means."""

    layers: Layers
    card: Card
    axes: Float | None = None

    def alpha(self, z: Float, told: Float | None = None) -> Float:
        """(N, K) outputs for float32 observations: Dirichlet parameters, or their ratios to the prior's.

        `told` is what a conditioned network is told of the prior (`prior_input`), the same for all rows.
        """
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        d = w1.shape[0]
        if told is not None:
            # The prior's part of the first layer is one row, shared by all cases.
            d -= told.shape[-1]
            b1 = b1 + told.astype(np.float32) @ w1[d:]
            w1 = w1[:d]
        out = np.empty((len(z), w3.shape[1]), dtype=np.float32)
        for start in range(0, len(z), BLOCK):
            h = z[start : start + BLOCK]
            for w, b in ((w1, b1), (w2, b2)):
                h = h @ w
                h += b
                np.maximum(h, 0, out=h)
            part = out[start : start + BLOCK]
            np.matmul(h, w3, out=part)
            part += b3
        return softplus(out)

    def second_order(self, z: Float, prior: Prior) -> SecondOrder:
        """The posteriors of observations in the uncentred space.

        A label with prior zero gets nothing, and an observation of length zero, about which a distance
        says nothing at all, keeps the prior, as in D-SMC.
        """
        if not np.all(np.isfinite(z)):
            raise BadInput("an observation holds NaN or infinite values; embed the texts again")
        told = self.prior_told(prior)
        x = z if self.axes is None else on_sphere(z, self.axes)
        alpha = self.alpha(x, told).astype(np.float64)
        if self.card.prior_conditioned:
            alpha *= told_alpha(prior)
        alpha[:, prior.probabilities <= 0] = 0
        alpha[~np.any(z, axis=1)] = prior.alpha
        return of_dirichlet(alpha, cap=_cap(tuple(prior.alpha.tolist()), self.card.populations))

    def check(self, panel_data: PanelData) -> None:
        """Refuse, in one line, to answer for anything but what it was trained for."""
        card = self.card
        if card.panel_hash != panel_data.panel.hash:
            raise BadInput(
                f"this network was trained for the labels of panel '{card.panel}', not for "
                f"'{panel_data.panel.name}': train one with 'simdx abi train --panel {panel_data.panel.name}'"
            )
        if card.embedder != panel_data.embedder.id:
            raise BadInput(
                f"this network reads the embedder {card.embedder}, not {panel_data.embedder.id}: choose that "
                "embedder with --embedder, or train another network"
            )
        if card.bank_hash != panel_data.bank.hash:
            raise BadInput(
                f"this network was trained on another bank ('{card.bank}', {card.bank_hash[:12]}) than "
                f"'{panel_data.bank.name}' ({panel_data.bank.hash[:12]}): give that bank, or train again"
            )

    def prior_told(self, prior: Prior) -> Float | None:
        """What to tell the network of a prior; BadInput when it was not trained for it."""
        if self.card.prior_conditioned:
            return prior_input(prior)
        trained = self.card.prior
        own = trained.alpha0 * np.asarray(trained.probabilities)
        if np.max(np.abs(own - prior.alpha)) > SAME_PRIOR * max(1.0, trained.alpha0):
            each = zip(self.card.labels, trained.probabilities, strict=True)
            shown = ", ".join(f"{label}={p:.3g}" for label, p in each)
            raise BadInput(
                f"this network answers for one prior only ({shown}; alpha0 {trained.alpha0:g}): "
                "train with --prior-conditioned to give another at test time, or use --method d-smc"
            )
        return None


@lru_cache(maxsize=64)
def _cap(alpha: tuple[float, ...], populations: int) -> float:
    """Remembered, because finding it takes a hundred times as long as a forward pass."""
    return concentration_cap(np.array(alpha), populations)


def prior_input(prior: Prior) -> Float:
    """(2K,) what a prior-conditioned network is told: log alpha and alpha, impossible labels at the floor.

    Both, because rare labels act through the logarithm and likely ones through the parameter itself.
    """
    alpha = told_alpha(prior)
    return np.concatenate([np.log(alpha), alpha])


def told_alpha(prior: Prior) -> Float:
    """(K,) the prior's parameters as a conditioned network knows them."""
    return np.maximum(prior.alpha, ALPHA_FLOOR)


def on_sphere(z: Float, axes: Float) -> Float:
    """Observations scaled so that their coordinates z @ axes.T have unit length; without any, left alone."""
    length = np.linalg.norm(z @ axes.T, axis=1, keepdims=True)
    return z / np.where(length > 0, length, np.float32(1))


def softplus(x: Float) -> Float:
    """log(1 + e^x), without overflow; never below 1e-6, as in training."""
    return np.logaddexp(np.float32(0), x) + np.float32(1e-6)


# --------------------------------------------------------------------------- files


def default_folder(panel_data: PanelData) -> Path:
    """Where the network last trained for this panel, bank and embedder lies."""
    identity = content_hash("abi", panel_data.panel.hash, panel_data.bank.hash, panel_data.embedder.id)
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in panel_data.panel.name)[:60]
    return home() / "networks" / f"{safe}-{identity[:16]}"


def save(network: Network, folder: Path) -> None:
    """Write a network; on any failure the folder is as it was before."""
    tensors = {}
    for i, (weight, bias) in enumerate(network.layers, start=1):
        tensors[f"w{i}"], tensors[f"b{i}"] = weight, bias
    if network.axes is not None:
        tensors["axes"] = network.axes
    if not all(np.isfinite(t).all() for t in tensors.values()):
        raise RunFailed("the trained network holds NaN or infinite weights; nothing was saved")
    is_new = not folder.exists()
    try:
        make_folder(folder)
        save_arrays(folder / NETWORK_FILE, tensors, about=network.card.model_dump_json())
    except CannotWrite as error:
        if is_new and folder.is_dir():
            folder.rmdir()
        raise RunFailed(f"the network could not be saved: {error}") from None


def load(folder: str | Path) -> Network:
    path = Path(folder) / NETWORK_FILE
    if not path.is_file():
        raise BadInput(f"no network at '{folder}': train one with 'simdx abi train'")
    if path.stat().st_size > MAX_BYTES:
        raise BadInput(f"the network in '{folder}' is over {MAX_BYTES:,} bytes: not a network")
    found = load_described(path)
    if found is None:
        raise BadInput(f"the network in '{folder}' was changed or damaged; train again")
    arrays, about = found
    try:
        card = Card.model_validate_json(about)
    except ValueError:
        raise BadInput(f"the network in '{folder}' is of another format; train again") from None
    k = len(card.labels)
    wanted: dict[str, tuple[int, ...]] = {"b1": (HIDDEN,), "b2": (HIDDEN,), "b3": (k,)}
    wanted |= {"w1": (card.width, HIDDEN), "w2": (HIDDEN, HIDDEN), "w3": (HIDDEN, k)}
    if card.prior_conditioned:
        wanted["axes"] = (k, sum(card.blocks))
    shapes = {name: array.shape for name, array in arrays.items() if array.dtype == np.float32}
    if shapes != wanted or len(card.prior.probabilities) != k:
        raise BadInput(f"the weights of the network in '{folder}' do not fit its card; train again")
    layers = tuple((arrays[f"w{i}"], arrays[f"b{i}"]) for i in (1, 2, 3))
    return Network(layers, card, arrays.get("axes"))


# --------------------------------------------------------------------------- as a method


class Amortised(Fitted):
    """The network's Dirichlet; no simulation carries a single answer."""

    speed = "trained"

    def __init__(self, data: PanelData, network: Network) -> None:
        super().__init__(data)
        self.network = network
        self._raw = Space.fit(data.embedded, centre=False)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        second = self.network.second_order(self._raw.transform(observations.vectors), prior)
        n = len(second.mean)
        return Inferred(Posterior(second.mean, np.zeros(n), np.full(n, np.nan), second))


def fit_amortised(data: PanelData, settings: Settings) -> Fitted:
    if settings.engine != "exact":
        raise BadInput("--method abi is one forward pass: it has no other engine (leave out --engine)")
    if settings.kernel == "soft" or settings.tolerance is not None:
        raise BadInput("--method abi answers as D-SMC with a hard kernel and median tolerances does")
    folder = settings.network
    if folder is None:
        place = default_folder(data)
        if not (place / NETWORK_FILE).is_file():
            raise BadInput(
                f"no network has been trained for panel '{data.panel.name}' with this bank and embedder: "
                "train one with 'simdx abi train', or name one with --network"
            )
        folder = str(place)
    network = load(folder)
    network.check(data)
    if settings.populations != network.card.populations:
        raise BadInput(
            f"this network was trained for {network.card.populations} populations, not "
            f"{settings.populations}: give --populations {network.card.populations}, or train another"
        )
    return Amortised(data, network)
