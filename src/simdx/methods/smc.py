"""M-SMC and D-SMC as methods: in closed form, with particles, or with fresh simulations.

Both default to what the paper does: raw cosine distance, a hard threshold, T populations. Its tolerances are
"adaptive", which is read as the median of the population before. The exact engine is the sampler's limit in
closed form; `--engine particles` runs the sampler itself (Algorithm 1), `--engine live` with a simulator in
place of the bank.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx.abc.dirichlet import SharedDraws, dirichlet, prepare
from simdx.abc.multinomial import multinomial, simulation_weights
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.egress import is_remote
from simdx.errors import BadInput
from simdx.methods.fitted import EvidenceWeights, Fitted, Inferred, Kernel, Settings, nearby
from simdx.methods.panel_data import Observations, PanelData
from simdx.types import Float, Int, Posterior, Trace

if TYPE_CHECKING:
    from simdx.bank.plan import Usage

PARTICLES, STAY = 100, 0.5  # the paper's: S, and the p of its DiscreteJump kernel
BANDWIDTH = 0.05  # of the soft kernel, on raw cosine distances
SIMPLEX_DRAWS = 500  # accepted draws: the Monte Carlo error of a mean is at most .02
KEPT_BYTES = 32_000_000  # of prior draws, kept for the priors that were asked last


class OnRawCosines(Fitted):
    """What the paper's methods share: the uncentred space, and a hard kernel unless told otherwise."""

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self.settings = settings
        self.hard_or_soft: Kernel = settings.kernel or "hard"
        self.kernel = self.hard_or_soft
        self.raw = Space.fit(data.embedded, centre=False)

    @property
    def width(self) -> float:
        return self.settings.bandwidth or BANDWIDTH

    @property
    def rows(self) -> tuple[Float, Int, int]:
        """The simulations, their labels, and how many labels there are."""
        return self.raw.bank, self.raw.label_index, self.raw.n_labels

    def placed(self, observations: Observations) -> Float:
        return self.raw.transform(observations.vectors)


class Multinomial(OnRawCosines):
    """Particles on labels: the posterior is the label shares of the nearest simulations."""

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data, settings)
        self.proportional = settings.kernel == "soft"
        self._how: dict[str, Any] = {
            "kernel": self.hard_or_soft, "bandwidth": self.width, "populations": settings.populations,
            "tolerance": settings.tolerance,
        }  # fmt: skip

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        return Inferred(multinomial(*self.rows, self.placed(observations), prior, **self._how))

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        """Every simulation with the share of each answer that it carries."""
        places, p = self.placed(observations), prior.probabilities
        return nearby(self.raw, observations, simulation_weights(*self.rows, places, p, **self._how))


class SimplexPosterior:
    """D-SMC in closed form on one bank, asked again and again: draws are made once per prior and kept.

    Preparing the shared prior draws costs more than many answers, and a service is asked under the same few
    priors.
    """

    def __init__(self, data: PanelData, settings: Settings) -> None:
        self._settings = settings
        self._space = Space.fit(data.embedded, centre=False)
        self._means = self._space.class_means
        self._kept: OrderedDict[tuple[bytes, float], SharedDraws] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, observations: Observations, prior: Prior) -> Posterior:
        settings = self._settings
        return dirichlet(
            self._means, self._space.transform(observations.vectors), prior, seed=settings.seed,
            kernel=settings.kernel or "hard", draws=self._draws, populations=settings.populations,
            tolerance=settings.tolerance, bandwidth=settings.bandwidth or BANDWIDTH,
            shared=self.shared(prior),
        )  # fmt: skip

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
        made = prepare(
            self._means, prior, seed=self._settings.seed, draws=self._draws,
            populations=self._settings.populations,
        )  # fmt: skip
        with self._lock:
            self._kept[key] = made
            while len(self._kept) * (made.unit.nbytes + made.features.nbytes) > KEPT_BYTES:
                self._kept.popitem(last=False)
        return made


class Dirichlet(Fitted):
    """Particles on the simplex, compared through mixtures of the (uncentred) class means."""

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self.kernel = settings.kernel or "hard"
        self._posterior = SimplexPosterior(data, settings)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        return Inferred(self._posterior(observations, prior))


class Particles(OnRawCosines):
    """Either by its sampler."""

    speed = "slow"

    def __init__(self, data: PanelData, settings: Settings) -> None:
        if settings.kernel == "soft":
            raise BadInput(
                f"the {settings.engine} engine accepts or rejects: it has no soft kernel (use --engine exact)"
            )
        super().__init__(data, settings)

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        from simdx.abc.particles import dirichlet_smc, multinomial_smc

        s, z = self.settings, self.placed(observations)
        told: dict[str, Any] = {
            "keys": observations.keys, "seed": s.seed, "particles": s.particles or PARTICLES,
            "populations": s.populations, "tolerance": s.tolerance, "stop_acceptance": s.stop_acceptance,
        }  # fmt: skip
        if s.method == "d-smc":
            return Inferred(*dirichlet_smc(self.raw.class_means, z, prior, **told))
        return Inferred(*multinomial_smc(*self.rows, z, prior, stay=self.stay, **told))

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        return nearby(self.raw if self.settings.method == "m-smc" else self.space, observations)

    @property
    def stay(self) -> float:
        return STAY if self.settings.stay is None else self.settings.stay


def fit_smc(data: PanelData, settings: Settings) -> Fitted:
    exact = Multinomial if settings.method == "m-smc" else Dirichlet
    return {"exact": exact, "particles": Particles, "live": Live}[settings.engine](data, settings)


# --------------------------------------------------------------------------- live

DEFAULT_SIMULATOR = "smollm2"
# A label particle costs a generation per proposal, a simplex particle none: only its class means do. Five
# populations took some 50 to 65 simulations a particle, 135 at most (two panels, banks of a 1.5B model).
LIVE_PARTICLES = 30
PER_PARTICLE = 200  # of m-smc's budget: what the last population needs, with room
SIMPLEX = 48  # of d-smc's budget: simulations in all
BATCH = 16


class Live(Particles):
    """With fresh simulations, as in the paper.

    The simulator is sent labels and facets, never a case. Which labels it is asked for follows the case,
    though: a simulator on another machine needs the permission that case text needs. Calls are drawn in
    batches under a budget per case, and what they cost is told with the answer.
    """

    def __init__(self, data: PanelData, settings: Settings) -> None:
        from simdx.bank.plan import BuildSettings, LiveSimulations, voice_for
        from simdx.simulators import get_simulator

        super().__init__(data, settings)
        name = settings.simulator or DEFAULT_SIMULATOR
        self.simulator = get_simulator(name, allow_remote=settings.allow_remote)
        build = BuildSettings(per_label=1, voice=voice_for(name), seed=settings.seed)
        self._live = LiveSimulations(data.panel, self.simulator, data.embedder, build, self.raw.transform)
        self._budget = settings.budget or _budget(settings)
        # Which labels a model is asked for follows the case.
        self.remote = self.remote or is_remote(self.simulator)

    def watch(self, told: Callable[[Usage], None]) -> None:
        """From now on `told` hears of every call while it runs."""
        self._live.watch = told

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        before = self._live.usage.costs()
        posterior, trace = self._run(observations, prior)
        after = self._live.usage.costs()
        usage = {
            "simulator": self.simulator.id,
            "budget": self._budget,
            **{name: after[name] - before[name] for name in after},
            "cases": len(observations.texts),
        }
        return Inferred(posterior, trace, usage)

    def _run(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace]:
        from simdx.abc.dirichlet import dirichlet_live
        from simdx.abc.particles import multinomial_live

        s, z, keys = self.settings, self.placed(observations), observations.keys
        common: dict[str, Any] = {
            "seed": s.seed, "budget": self._budget, "tolerance": s.tolerance, "populations": s.populations,
            "batch": min(BATCH, self._budget),
        }  # fmt: skip
        if s.method == "m-smc":
            return multinomial_live(
                self._live, self.raw.n_labels, z, prior, keys, **common,
                particles=s.particles or LIVE_PARTICLES, stop_acceptance=s.stop_acceptance,
                stay=self.stay,
            )  # fmt: skip
        return dirichlet_live(self._live, z, prior, **(common | {"batch": min(8, self._budget)}))


def _budget(settings: Settings) -> int:
    """A default that lets m-smc reach its last population."""
    return SIMPLEX if settings.method == "d-smc" else PER_PARTICLE * (settings.particles or LIVE_PARTICLES)
