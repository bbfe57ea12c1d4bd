"""Methods by name: the core's own, and those of other packages through entry points (`simdx.plugins`).

The core's are a table, because reading the metadata of every installed package would cost each cold start.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from simdx import plugins
from simdx.errors import BadInput
from simdx.methods.fitted import Fitted, Settings
from simdx.methods.panel_data import PanelData
from simdx.reading import WAYS

if TYPE_CHECKING:  # arrows that are imported when a method is asked for, drawn here for readers and tests
    import simdx.amortised.network
    import simdx.baselines.asking
    import simdx.baselines.by_bank  # noqa: F401

ENGINES = ("exact", "particles", "live")
KERNELS = ("soft", "hard")
_PLACES = {
    "auto": ("simdx.methods.recipe", "fit_recipe"),
    "m-smc": ("simdx.methods.smc", "fit_smc"),
    "d-smc": ("simdx.methods.smc", "fit_smc"),
    "abi": ("simdx.amortised.network", "fit_amortised"),
    "centroid": ("simdx.baselines.by_bank", "Centroid"),
    "tfidf": ("simdx.baselines.by_bank", "TfIdf"),
    "zero-shot": ("simdx.baselines.by_bank", "ZeroShot"),
    "bank-logistic": ("simdx.baselines.by_bank", "BankLogistic"),
    "logits": ("simdx.baselines.asking", "Logits"),
    "elicited": ("simdx.baselines.asking", "Elicited"),
    "ensemble": ("simdx.baselines.asking", "Ensemble"),
    "fidelity": ("simdx.baselines.asking", "Repeated"),
}


def methods() -> tuple[str, ...]:
    """Every method that can be named here."""
    return (*_PLACES, *(name for name in plugins.named("methods") if name not in _PLACES))


def fit_method(data: PanelData, settings: Settings) -> Fitted:
    _check(settings)
    if data.real is not None:
        from simdx.methods.real_cases import check_settings

        check_settings(settings)
    if settings.method in _PLACES:
        module, name = _PLACES[settings.method]
        fitted: Fitted = getattr(import_module(module), name)(data, settings)
    else:
        fitted = plugins.load("methods", settings.method)(data, settings)
    fitted.none_of_these = fitted.none_of_these and not settings.closed
    return fitted


_LABELS = {("m-smc", "particles"), ("m-smc", "live")}  # particles on labels
# Who reads each setting of the sampler; for anyone else it would be ignored without a word.
_USES = {
    "tolerance": {(m, e) for m in ("m-smc", "d-smc") for e in ENGINES},
    "particles": _LABELS | {("d-smc", "particles"), ("d-smc", "exact")},
    "stop_acceptance": _LABELS | {("d-smc", "particles")},
    "stay": _LABELS,
}


def _check(settings: Settings) -> None:
    if settings.method not in _PLACES and settings.method not in plugins.named("methods"):
        raise BadInput(f"unknown method '{settings.method}': choose one of {', '.join(methods())}")
    if settings.engine not in ENGINES:
        raise BadInput(f"unknown engine '{settings.engine}': choose one of {', '.join(ENGINES)}")
    if settings.kernel is not None and settings.kernel not in KERNELS:
        raise BadInput(f"unknown kernel '{settings.kernel}': choose soft or hard")
    if settings.reading is not None and settings.reading not in WAYS:
        raise BadInput(f"unknown reading '{settings.reading}': choose one of {', '.join(WAYS)}")
    if not 1 <= settings.populations <= 20:
        raise BadInput(f"--populations is {settings.populations}: give a number from 1 to 20")
    for name, users in _USES.items():
        if getattr(settings, name) is not None and (settings.method, settings.engine) not in users:
            ways = ", ".join(sorted({f"{method} ({engine})" for method, engine in users}))
            raise BadInput(
                f"--{name.replace('_', '-')} has no effect on {settings.method} ({settings.engine}): "
                f"it is for {ways}"
            )
    if settings.engine == "live":
        if settings.method not in ("m-smc", "d-smc"):
            raise BadInput("--engine live is a way to run m-smc or d-smc: name one with --method")
        if settings.budget is not None and settings.budget < 1:
            raise BadInput(f"--budget is {settings.budget}: give the highest number of simulations per case")
