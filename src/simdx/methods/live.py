"""M-SMC and D-SMC with fresh simulations, as in the paper: `--engine live`.

The simulator is sent labels and facets, never a case. Which labels it is asked for follows the case, though:
a simulator on another machine needs the permission that case text needs. Calls are drawn in batches under a
budget per case, and what they cost is told with the answer.
"""

from collections.abc import Callable
from typing import Any

from simdx.abc.live import dirichlet_live, multinomial_live
from simdx.abc.prior import Prior
from simdx.bank.live import LiveSimulations, Usage
from simdx.bank.plan import BuildSettings, voice_for
from simdx.egress import is_remote
from simdx.errors import BadInput
from simdx.methods.data import Observations, PanelData
from simdx.methods.fitted import EvidenceWeights, Inferred, Settings, nearby
from simdx.methods.smc import STAY, OnRawCosines
from simdx.simulators import get_simulator
from simdx.types import Posterior, Trace

DEFAULT_SIMULATOR = "smollm2"
# A label particle costs a generation per proposal, a simplex particle none: only its class means do. Five
# populations took some 50 to 65 simulations a particle, 135 at most (two panels, banks of a 1.5B model).
PARTICLES = 30
PER_PARTICLE = 200  # of m-smc's budget: what the last population needs, with room
SIMPLEX = 48  # of d-smc's budget: simulations in all
BATCH = 16


class Live(OnRawCosines):
    refits = False
    cheap = False
    simulates = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        if settings.kernel == "soft":
            raise BadInput("the live engine accepts or rejects: it has no soft kernel (use --engine exact)")
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

    def evidence(self, observations: Observations, prior: Prior) -> EvidenceWeights:
        return nearby(self.raw if self.settings.method == "m-smc" else self.space, observations)

    def _run(self, observations: Observations, prior: Prior) -> tuple[Posterior, Trace]:
        s, z, keys = self.settings, self.placed(observations), observations.keys
        common: dict[str, Any] = {
            "seed": s.seed, "budget": self._budget, "tolerance": s.tolerance, "populations": s.populations,
            "batch": min(BATCH, self._budget),
        }  # fmt: skip
        if s.method == "m-smc":
            return multinomial_live(
                self._live, self.raw.n_labels, z, prior, keys, **common, particles=s.particles or PARTICLES,
                stop_acceptance=s.stop_acceptance, stay=STAY if s.stay is None else s.stay,
            )  # fmt: skip
        return dirichlet_live(self._live, z, prior, **(common | {"batch": min(8, self._budget)}))


def _budget(settings: Settings) -> int:
    """A default that lets m-smc reach its last population."""
    return SIMPLEX if settings.method == "d-smc" else PER_PARTICLE * (settings.particles or PARTICLES)
