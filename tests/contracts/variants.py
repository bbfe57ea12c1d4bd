"""Every method in every form it has: what the contract and the properties run over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simdx.baselines import interview
from simdx.baselines.asking import ASKING
from simdx.fitting import METHODS, fit_method
from simdx.methods import Fitted, Material, Settings
from simdx.simulators.base import Request
from tests.baselines.conftest import Oracle

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in METHODS},
    "m-smc soft": {"method": "m-smc", "kernel": "soft"},
    "centroid soft": {"method": "centroid", "kernel": "soft"},
    "m-smc particles": {"method": "m-smc", "engine": "particles", "particles": 30, "populations": 3},
    "d-smc particles": {"method": "d-smc", "engine": "particles", "particles": 30, "populations": 3},
    "m-smc two-stage": {"method": "m-smc", "engine": "two-stage", "kernel": "soft"},
    "m-smc absolute": {"method": "m-smc", "tolerance": 0.4},
    "d-smc absolute": {"method": "d-smc", "tolerance": 0.5},
    "m-smc hybrid": {"method": "m-smc", "engine": "hybrid", "simulator": "scripted", "budget": 6},
    "d-smc live": {"method": "d-smc", "engine": "live", "simulator": "scripted", "budget": 6},
}


def settings_of(name: str, network: str) -> Settings:
    options = dict(VARIANTS[name])
    if options["method"] == "abi":
        options["network"] = network
    if options["method"] in ASKING:
        options["simulator"] = "oracle"
    return Settings(**options)


def fit_variant(
    name: str, material: Material, network: str, answer: Callable[[Request], str] | None = None
) -> Fitted:
    """Asking methods ask an oracle, which says `answer` of each request; the right letter without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interview, "_opened", lambda _: Oracle(answer=answer))
        return fit_method(material, settings_of(name, network))
