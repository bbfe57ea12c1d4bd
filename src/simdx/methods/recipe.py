"""The shipped recipe (`--method auto`): soft-kernel M-SMC in the centred space."""

from __future__ import annotations

from simdx.abc import exact
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.errors import BadInput
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.types import Posterior, Trace

BANDWIDTH = 0.05


def fit_recipe(material: Material, settings: Settings) -> Infer:
    if settings.engine != "exact":
        raise BadInput("--method auto is the exact engine: choose --method m-smc or d-smc for another engine")
    space = Space.fit(material.embedded, centre=True)

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        posterior = exact.multinomial(
            space.bank, space.label_index, space.n_labels, space.transform(observations.vectors), prior,
            kernel=settings.kernel or "soft", bandwidth=settings.bandwidth or BANDWIDTH,
            populations=settings.populations, tolerance=settings.tolerance,
        )  # fmt: skip
        return posterior, None

    return infer
