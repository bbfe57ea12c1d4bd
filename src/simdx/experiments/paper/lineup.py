"""The methods an artefact compares, under the names the tables show.

M-SMC and D-SMC stand for their closed-form limits (the sampler itself is beside them where it matters);
the recipe is what `--method auto` ships. Ways of asking a model keep the paper's abbreviations.
"""

from __future__ import annotations

from simdx.experiments.paper.asked import Asked
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.spec import REFERENCE, Spec

M_SMC, D_SMC, ABI, RECIPE = "M-SMC", "D-SMC", "ABI", "recipe"
M_PARTICLES, D_PARTICLES = "M-SMC (particles)", "D-SMC (particles)"
M_SOFT = "M-SMC (soft kernel)"
INFERRED = (M_SMC, D_SMC, ABI, RECIPE)
ASKING = ("ML", "EP", "PE", "EF")

_SPECS: dict[str, dict[str, object]] = {
    M_SMC: {"method": "m-smc"},
    M_PARTICLES: {"method": "m-smc", "engine": "particles"},
    M_SOFT: {"method": "m-smc", "kernel": "soft"},
    D_SMC: {"method": "d-smc"},
    D_PARTICLES: {"method": "d-smc", "engine": "particles"},
    ABI: {"method": "abi"},
    RECIPE: {"method": "auto"},
}


def spec_of(name: str, panel: str, bank: str = REFERENCE) -> Spec:
    return Spec(panel=panel, bank=bank, **_SPECS[name])  # type: ignore[arg-type]


def theirs_name(name: str) -> str | None:
    """The paper's name of the same method; None for what only we have."""
    if name in (M_PARTICLES, D_PARTICLES):
        return name.split(" ")[0]
    return name if name in (M_SMC, D_SMC, ABI, *ASKING) else None


def own_bank(context: Context, panel: str, asked: Asked) -> str:
    """The bank the asked model wrote itself, else the packaged one."""
    return asked.model if asked.model in context.models(panel) else REFERENCE


def models_used(context: Context) -> tuple[str, ...]:
    """Embedders, banks and asked models of the run, in words."""
    found: dict[str, None] = {}
    for panel in context.panels:
        found[f"embedder {context.cases(panel).source.panel.embedder}"] = None
        for bank in (REFERENCE, *context.banks(panel)):
            found[f"bank {bank}"] = None
        for asked in context.asked(panel):
            found[f"asked {asked.simulator}"] = None
    return tuple(found)
