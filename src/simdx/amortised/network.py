"""The trained network: what it computes, what it may be used for, and how it is stored.

    alpha = softplus(relu(relu(x W1 + b1) W2 + b2) W3 + b3),    x = z

A network told of the prior answers with a ratio instead, and reads the observation on the unit sphere:

    alpha = prior alpha * softplus(...),    x = [z / |A z|, log prior alpha, prior alpha]

A are the class means. D-SMC ranks draws by their cosine with z, which the length of A z does not change, and
without evidence its answer is the prior: what is known beforehand need not be learnt from examples.

numpy alone is enough to load and run it. On disk it is a folder:

    network.json               the card: format, panel, bank and embedder it belongs to, training, metrics
    weights-<sha256>.safetensors

The weights are written first under a name of their own and the card last, each through an atomic rename,
so at every moment the folder holds one complete network: the old one, or the new one, or none.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from simdx.abc.prior import Prior
from simdx.abc.second_order import concentration_cap, of_dirichlet
from simdx.disk import CannotWrite, alone_in, make_folder, seal_of, sweep, write_atomically
from simdx.errors import BadInput, RunFailed
from simdx.methods.panel_data import PanelData
from simdx.models.verify import home
from simdx.types import Float, SecondOrder, content_hash

HIDDEN = 256
CARD_FILE, WEIGHTS_FILE = "network.json", "weights-{}.safetensors"
MAX_WEIGHT_BYTES = 2**30
MAX_CARD_BYTES = 2**20
SAME_PRIOR = 1e-6
# Below this a Dirichlet parameter is "never": a mean of one in a thousand, or less, carries no evidence.
ALPHA_FLOOR = 1e-2
# Rows are taken through all layers in blocks of this many, so that the hidden layers stay in cache.
BLOCK = 4096

Layers = tuple[tuple[Float, Float], ...]


class TrainingPrior(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    probabilities: tuple[float, ...]
    alpha0: float


class Card(BaseModel):
    """What a network is for and where it comes from; everything but the weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    panel: str
    panel_hash: str
    labels: tuple[str, ...] = Field(min_length=2)
    bank: str
    bank_hash: str
    embedder: str
    blocks: tuple[int, ...] = Field(min_length=1)
    populations: int
    prior_conditioned: bool
    # Whether the prior's parameters times the outputs are the answer; a conditioned network made before
    # there was this gives the answer itself.
    relative: bool = False
    prior: TrainingPrior
    objective: Literal["kl", "particles", "mean"]
    observations: str
    settings: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Any] = Field(default_factory=dict)
    version: str
    weights: str = Field(default="", pattern=r"^$|^[0-9a-f]{64}$")
    # Over everything above; empty in a card that was made before there were seals.
    seal: str = Field(default="", pattern=r"^$|^[0-9a-f]{64}$")

    def own_seal(self) -> str:
        # What is not relative is sealed as it was before there was the word.
        without = {"seal"} if self.relative else {"seal", "relative"}
        return seal_of(self.model_dump(mode="json", exclude=without))

    @property
    def width(self) -> int:
        return sum(self.blocks) + (2 * len(self.labels) if self.prior_conditioned else 0)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Three layers and their card; a relative network reads z against its `axes` (K, d), the class means."""

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
        if self.card.relative:
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
    from safetensors.numpy import save as to_bytes

    tensors = {}
    for i, (weight, bias) in enumerate(network.layers, start=1):
        tensors[f"w{i}"], tensors[f"b{i}"] = weight, bias
    if network.axes is not None:
        tensors["axes"] = network.axes
    if not all(np.isfinite(t).all() for t in tensors.values()):
        raise RunFailed("the trained network holds NaN or infinite weights; nothing was saved")
    data = to_bytes(tensors)
    digest = hashlib.sha256(data).hexdigest()
    card = network.card.model_copy(update={"weights": digest})
    card = card.model_copy(update={"seal": card.own_seal()})
    made_folder = not folder.exists()
    try:
        make_folder(folder)
        with alone_in(folder):  # of two savers the later one's card must not lose its weights
            _replace_in(folder, folder / WEIGHTS_FILE.format(digest), data, card)
    except BaseException as error:
        with suppress(OSError):
            if made_folder and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        if isinstance(error, CannotWrite):
            raise RunFailed(f"the network could not be saved: {error}") from None
        raise


def _replace_in(folder: Path, weights: Path, data: bytes, card: Card) -> None:
    had_weights = weights.exists()
    write_atomically(weights, data)
    try:
        write_atomically(folder / CARD_FILE, card.model_dump_json(indent=2) + "\n")
    except BaseException:
        if not had_weights:
            weights.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # the new network stands whether or not the old weights can go
        for old in folder.glob(WEIGHTS_FILE.format("*")):
            if old != weights:
                old.unlink(missing_ok=True)
        sweep(folder, ".weights-*")  # scratch of a save that was killed


def load(folder: str | Path) -> Network:
    folder = Path(folder)
    card = _read_card(folder)
    while True:
        try:
            layers, axes = _tensors(_read_weights(folder, card), card, folder)
            return Network(layers, card, axes)
        except FileNotFoundError:
            # Saved anew while we read: its weights go by another name. The same card again: they are gone.
            newer = _read_card(folder)
            if newer == card:
                raise BadInput(f"the weights of the network in '{folder}' are missing; train again") from None
            card = newer


def _read_card(folder: Path) -> Card:
    path = folder / CARD_FILE
    if not path.is_file():
        raise BadInput(f"no network at '{folder}': train one with 'simdx abi train'")
    try:
        if path.stat().st_size > MAX_CARD_BYTES:
            raise ValueError
        card = Card.model_validate_json(path.read_bytes())
        if card.seal and card.seal != card.own_seal():
            raise ValueError
        return card
    except (ValueError, OSError):
        place = f"the {CARD_FILE} in '{folder}'"
        raise BadInput(f"{place} is damaged or of another format; train again") from None


def _read_weights(folder: Path, card: Card) -> bytes:
    weights = folder / WEIGHTS_FILE.format(card.weights)
    try:
        if weights.stat().st_size > MAX_WEIGHT_BYTES:
            raise BadInput(f"the weights in '{folder}' are over {MAX_WEIGHT_BYTES:,} bytes: not a network")
        data = weights.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadInput(f"the weights of the network in '{folder}' cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != card.weights:
        raise BadInput(f"the weights of the network in '{folder}' were changed or damaged; train again")
    return data


def _tensors(data: bytes, card: Card, folder: Path) -> tuple[Layers, Float | None]:
    """The layers and, of a relative network, the axes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    k = len(card.labels)
    wanted: dict[str, tuple[int, ...]] = {"b1": (HIDDEN,), "b2": (HIDDEN,), "b3": (k,)}
    wanted |= {"w1": (card.width, HIDDEN), "w2": (HIDDEN, HIDDEN), "w3": (HIDDEN, k)}
    if card.relative:
        wanted["axes"] = (k, sum(card.blocks))
    try:
        loaded = from_bytes(data)
        found = {name: loaded[name] for name in wanted}
    except (SafetensorError, KeyError, ValueError):
        raise BadInput(f"the weights of the network in '{folder}' cannot be read; train again") from None
    fits = all(a.shape == wanted[name] and a.dtype == np.float32 for name, a in found.items())
    if not fits or len(card.prior.probabilities) != k:
        raise BadInput(f"the weights of the network in '{folder}' do not fit its card; train again")
    return tuple((found[f"w{i}"], found[f"b{i}"]) for i in (1, 2, 3)), found.get("axes")
