"""ABI as a method: a trained network in place of D-SMC's draws.

The network is the one `--network` names, else the one last trained for this panel, bank and embedder. It
is refused for any other panel, bank or embedder, and for a prior it was not trained for.
"""

import numpy as np

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.network import NETWORK_FILE, Network, default_folder, load
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.types import Posterior


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
