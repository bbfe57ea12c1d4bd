"""Every method in every form it has, fitted to one toy bank: what the contract runs over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from simdx.baselines import interview
from simdx.fitting import fit_method, methods
from simdx.methods import Fitted, PanelData, Settings
from simdx.methods.real_cases import with_real
from simdx.simulators.base import Request
from simdx.types import Case
from simdx_contrib import likelihood
from tests.baselines.conftest import Oracle, WordDensity

LABELLED = [
    Case("apple juice from the orchard", label="apple"),
    Case("a bridge over the river", label="river"),
    Case("oil for the engine", label="engine"),
    Case("the sweet peel of an apple", label="apple"),
    Case("a boat on the river", label="river"),
    Case("the motor of an engine", label="engine"),
]
ASKING = {"logits", "elicited", "ensemble", "fidelity", "likelihood", "voices"}  # of a language model
NEED_A_SERVER = {"systemone", "upstream"}  # tests/contrib and tests/service ask a real one
LIVE = {"engine": "live", "simulator": "scripted"}
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in methods() if name not in NEED_A_SERVER},
    "m-smc soft": {"method": "m-smc", "kernel": "soft"},
    "centroid soft": {"method": "centroid", "kernel": "soft"},
    "tfidf soft": {"method": "tfidf", "kernel": "soft"},
    "zero-shot soft": {"method": "zero-shot", "kernel": "soft"},
    "m-smc particles": {"method": "m-smc", "engine": "particles", "particles": 30, "populations": 3},
    "d-smc particles": {"method": "d-smc", "engine": "particles", "particles": 30, "populations": 3},
    "m-smc absolute": {"method": "m-smc", "tolerance": 0.4},
    "d-smc absolute": {"method": "d-smc", "tolerance": 0.5},
    "m-smc live": {"method": "m-smc", **LIVE, "budget": 200, "populations": 2},
    "d-smc live": {"method": "d-smc", **LIVE, "budget": 6},
}


def said(request: Request) -> str:
    """The label named in the case, as a letter or as three guesses, whichever was asked for."""
    case = request.prompt.split("Possible")[0]
    named = (k for k, name in zip("ABC", ("apple", "river", "engine"), strict=True) if name in case)
    right = next(named, "A")
    others = [letter for letter in "ABC" if letter != right]
    return f"{right}: 0.70\n{others[0]}: 0.20\n{others[1]}: 0.10" if "guesses" in request.prompt else right


@dataclass(frozen=True)
class EveryMethod:
    """The toy panel's data, a network for it, and each variant fitted once."""

    panel_data: PanelData
    network: str
    weights: dict[str, str]  # folders of the methods that read a model
    fitted: dict[str, Fitted] = field(default_factory=dict)

    def settings(self, name: str) -> Settings:
        options = dict(VARIANTS[name])
        if options["method"] == "abi":
            options["network"] = self.network
        if options["method"] in ASKING:
            options["simulator"] = "oracle"
        if options["method"] in self.weights:
            options["simulator"] = self.weights[options["method"]]
        return Settings(**options)

    def fit(
        self, name: str, panel_data: PanelData | None = None, answer: Callable[[Request], str] = said
    ) -> Fitted:
        """Asking methods ask an oracle, which says `answer` of each request; densities count words."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(interview, "simulator_for", lambda _: Oracle(answer=answer))
            patch.setattr(likelihood, "open_scorer", lambda _: WordDensity())
            chosen = panel_data or self.panel_data
            if name == "setfit-real":
                chosen = with_real(chosen, LABELLED)
            return fit_method(chosen, self.settings(name))

    def __getitem__(self, name: str) -> Fitted:
        if name not in self.fitted:
            self.fitted[name] = self.fit(name)
        return self.fitted[name]
