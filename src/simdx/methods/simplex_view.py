"""D-SMC in closed form on one bank, asked again and again: draws are made once per prior and kept.

Preparing the shared prior draws costs more than many answers, and a service is asked under the same few
priors. The last few priors' draws are kept, within a fixed amount of memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from simdx.abc import exact
from simdx.abc.dirichlet import SharedDraws
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.methods.base import Material, Observations, Settings
from simdx.types import Float, Posterior, Trace

SIMPLEX_DRAWS = 500
BANDWIDTH = 0.05
KEPT_BYTES = 32_000_000


class SimplexView:
    """Particles on the simplex, compared through mixtures of the (uncentred) class means."""

    def __init__(self, material: Material, settings: Settings) -> None:
        self._settings = settings
        self._space = Space.fit(material.embedded, centre=False)
        self._means = self._space.class_means
        self._kept: OrderedDict[tuple[bytes, float], SharedDraws] = OrderedDict()
        self._lock = threading.Lock()

    def infer(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        settings = self._settings
        posterior = exact.dirichlet(
            self._means, self._space.transform(observations.vectors), prior, seed=settings.seed,
            kernel=settings.kernel or "hard", draws=self._draws, populations=settings.populations,
            tolerance=settings.tolerance, bandwidth=settings.bandwidth or BANDWIDTH,
            shared=self.shared(prior),
        )  # fmt: skip
        return posterior, None

    def draws(self, observations: Observations, prior: Prior, count: int) -> Float:
        """(count, K) draws from the first observation's posterior, for pictures of the simplex.

        They are taken from the accepted draws in the order they were made, which is independent of how
        near each is, so a part of them is a fair sample of the whole.
        """
        shared = self.shared(prior)
        cosine = shared.unit @ (shared.means @ self._space.transform(observations.vectors[:1])[0])
        accepted = np.argsort(-cosine, kind="stable")[: self._draws]
        chosen = np.sort(accepted)[:count]
        theta = np.zeros((len(chosen), prior.n_labels))
        theta[:, shared.possible] = shared.features[chosen, : int(shared.possible.sum())]
        return theta

    @property
    def _draws(self) -> int:
        return self._settings.particles or SIMPLEX_DRAWS

    def shared(self, prior: Prior) -> SharedDraws:
        """The prior's draws: those kept from an earlier call, or new ones."""
        key = (prior.probabilities.tobytes(), prior.alpha0)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = exact.prepare(
            self._means, prior, seed=self._settings.seed, draws=self._draws,
            populations=self._settings.populations,
        )  # fmt: skip
        with self._lock:
            self._kept[key] = made
            while len(self._kept) * (made.unit.nbytes + made.features.nbytes) > KEPT_BYTES:
                self._kept.popitem(last=False)
        return made
