"""Methods by name, each of the one shape in `methods.base`."""

from __future__ import annotations

from importlib import import_module

from simdx.errors import BadInput
from simdx.methods.base import Fit, Infer, Material, Observations, Settings

__all__ = ["METHODS", "Fit", "Infer", "Material", "Observations", "Settings", "fit_method", "method_fit"]

ENGINES = ("exact", "particles", "live", "hybrid", "two-stage")
KERNELS = ("soft", "hard")
# Where each method's fit function lives: imported when it is asked for, not before.
_PLACES = {
    "auto": ("simdx.methods.recipe", "fit_recipe"),
    "m-smc": ("simdx.methods.smc", "fit_multinomial"),
    "d-smc": ("simdx.methods.smc", "fit_dirichlet"),
    "abi": ("simdx.methods.abi", "fit_amortised"),
    "centroid": ("simdx.baselines.centroid", "fit_centroid"),
    "tfidf": ("simdx.baselines.tfidf", "fit_tfidf"),
    "zero-shot": ("simdx.baselines.zero_shot", "fit_zero_shot"),
    "bank-logistic": ("simdx.baselines.bank_logistic", "fit_bank_logistic"),
    "logits": ("simdx.baselines.logits", "fit_logits"),
    "elicited": ("simdx.baselines.elicited", "fit_elicited"),
    "ensemble": ("simdx.baselines.ensemble", "fit_ensemble"),
    "fidelity": ("simdx.baselines.fidelity", "fit_fidelity"),
}
METHODS = tuple(_PLACES)


def fit_method(material: Material, settings: Settings) -> Infer:
    """Fit the method a `Settings` names."""
    if settings.engine not in ENGINES:
        raise BadInput(f"unknown engine '{settings.engine}': choose one of {', '.join(ENGINES)}")
    if settings.kernel is not None and settings.kernel not in KERNELS:
        raise BadInput(f"unknown kernel '{settings.kernel}': choose soft or hard")
    if not 1 <= settings.populations <= 20:
        raise BadInput(f"--populations is {settings.populations}: give a number from 1 to 20")
    if settings.engine == "two-stage" and settings.method != "m-smc":
        raise BadInput("--engine two-stage is a way to run m-smc: add --method m-smc")
    if settings.device != "cpu":
        from simdx.methods.on_device import check_device

        check_device(settings)
    if material.real is not None:
        from simdx.methods.real import fit_real

        return fit_real(material, settings)
    if settings.engine in ("live", "hybrid"):
        return _fit_live(material, settings)
    return method_fit(settings.method)(material, settings)


def _fit_live(material: Material, settings: Settings) -> Infer:
    if settings.method not in ("m-smc", "d-smc"):
        raise BadInput(f"--engine {settings.engine} is a way to run m-smc or d-smc: name one with --method")
    if settings.budget is not None and settings.budget < 1:
        raise BadInput(f"--budget is {settings.budget}: give the most simulations a case may cost")
    from simdx.methods.live import fit_live

    return fit_live(material, settings)


def method_fit(name: str) -> Fit:
    """The fit function of the method of that name."""
    if name not in _PLACES:
        raise BadInput(f"unknown method '{name}': choose one of {', '.join(METHODS)}")
    module, function = _PLACES[name]
    fit: Fit = getattr(import_module(module), function)
    return fit
