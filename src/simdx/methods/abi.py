"""ABI as a method: a trained network in place of D-SMC's draws.

The network is the one `--network` names, else the one last trained for this panel, bank and embedder. It
is refused for any other panel, bank or embedder, and for a prior it was not trained for.
"""

from __future__ import annotations

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import CARD_FILE, default_folder, load
from simdx.errors import BadInput
from simdx.methods import on_device
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Posterior, Trace


def fit_amortised(material: Material, settings: Settings) -> Infer:
    """Load the network and answer with its Dirichlet; no simulation carries a single answer."""
    if settings.engine != "exact":
        raise BadInput("--method abi is one forward pass: it has no other engine (leave out --engine)")
    if settings.kernel == "soft" or settings.tolerance is not None:
        raise BadInput("--method abi answers as D-SMC with a hard kernel and median tolerances does")
    folder = settings.network
    if folder is None:
        place = default_folder(material)
        if not (place / CARD_FILE).is_file():
            raise BadInput(
                f"no network has been trained for panel '{material.panel.name}' with this bank and embedder: "
                "train one with 'simdx abi train', or name one with --network"
            )
        folder = str(place)
    network = load(folder)
    network.check(material)
    if settings.populations != network.card.populations:
        raise BadInput(
            f"this network was trained for {network.card.populations} populations, not "
            f"{settings.populations}: give --populations {network.card.populations}, or train another"
        )
    space = Space.fit(material.embedded, centre=False)
    forward = None
    if settings.device != "cpu":
        from simdx.gpu.network import DeviceNetwork

        forward = DeviceNetwork.place(network.layers, on_device.torch_device(settings.device)).alpha

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        second = network.second_order(space.transform(observations.vectors), prior, forward)
        n = len(second.mean)
        return Posterior(second.mean, np.zeros(n), np.full(n, np.nan), second), None

    return infer if forward is None else on_device.OnDevice(infer, settings.device)
