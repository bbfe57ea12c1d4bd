"""M-SMC and D-SMC as methods, on the exact engine or with particles.

Both default to what the paper does: raw cosine distance, a hard threshold, median tolerances over T
populations. The exact engine is the sampler's limit in closed form; `--engine particles` runs the
sampler itself (Algorithm 1).
"""

from __future__ import annotations

from simdx.abc import exact
from simdx.abc.particles import dirichlet_smc, multinomial_smc
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.errors import BadInput
from simdx.methods.base import Infer, Material, Observations, Settings
from simdx.methods.simplex_view import SimplexView
from simdx.types import Posterior, Trace

PARTICLES = 100
BANDWIDTH = 0.05


def fit_multinomial(material: Material, settings: Settings) -> Infer:
    """Particles on labels: the posterior is the label shares of the nearest simulations."""
    if settings.device != "cpu":
        from simdx.methods import on_device

        return on_device.fit_multinomial(material, settings)
    if settings.engine == "two-stage":
        from simdx.methods.two_stage import fit_two_stage

        return fit_two_stage(material, settings)
    space = Space.fit(material.embedded, centre=False)
    kernel = settings.kernel or "hard"
    bank = (space.bank, space.label_index, space.n_labels)

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        z = space.transform(observations.vectors)
        if settings.engine == "particles":
            _hard_only(kernel)
            return multinomial_smc(
                *bank, z, prior, keys=observations.keys, seed=settings.seed,
                particles=settings.particles or PARTICLES, populations=settings.populations,
                stop_acceptance=settings.stop_acceptance,
            )  # fmt: skip
        posterior = exact.multinomial(
            *bank, z, prior, kernel=kernel, bandwidth=settings.bandwidth or BANDWIDTH,
            populations=settings.populations, tolerance=settings.tolerance,
        )  # fmt: skip
        return posterior, None

    return infer


def fit_dirichlet(material: Material, settings: Settings) -> Infer:
    """Particles on the simplex, compared through mixtures of the (uncentred) class means."""
    if settings.device != "cpu":
        from simdx.methods import on_device

        return on_device.fit_dirichlet(material, settings)
    if settings.engine != "particles":
        return SimplexView(material, settings).infer
    space = Space.fit(material.embedded, centre=False)
    kernel = settings.kernel or "hard"
    means = space.class_means

    def infer(observations: Observations, prior: Prior) -> tuple[Posterior, Trace | None]:
        _hard_only(kernel)
        return dirichlet_smc(
            means, space.transform(observations.vectors), prior, keys=observations.keys, seed=settings.seed,
            particles=settings.particles or PARTICLES, populations=settings.populations,
            stop_acceptance=settings.stop_acceptance,
        )  # fmt: skip

    return infer


def _hard_only(kernel: str) -> None:
    if kernel != "hard":
        raise BadInput("the particles engine accepts or rejects: it has no soft kernel (use --engine exact)")
