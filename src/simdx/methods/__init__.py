"""Methods by name, each of the one shape in `methods.base`."""

from __future__ import annotations

from simdx.errors import BadInput
from simdx.methods.base import Fit, Infer, Material, Observations, Settings

__all__ = ["METHODS", "Fit", "Infer", "Material", "Observations", "Settings", "fit_method"]

ENGINES = ("exact", "particles", "live", "hybrid")
KERNELS = ("soft", "hard")
METHODS = ("auto", "m-smc", "d-smc")


def fit_method(material: Material, settings: Settings) -> Infer:
    """Fit the method a `Settings` names."""
    if settings.engine not in ENGINES:
        raise BadInput(f"unknown engine '{settings.engine}': choose one of {', '.join(ENGINES)}")
    if settings.kernel is not None and settings.kernel not in KERNELS:
        raise BadInput(f"unknown kernel '{settings.kernel}': choose soft or hard")
    if not 1 <= settings.populations <= 20:
        raise BadInput(f"--populations is {settings.populations}: give a number from 1 to 20")
    return _lookup(settings.method)(material, settings)


def _lookup(name: str) -> Fit:
    if name == "auto":
        from simdx.methods.recipe import fit_recipe

        return fit_recipe
    if name == "m-smc":
        from simdx.methods.smc import fit_multinomial

        return fit_multinomial
    if name == "d-smc":
        from simdx.methods.smc import fit_dirichlet

        return fit_dirichlet
    raise BadInput(f"unknown method '{name}': choose one of {', '.join(METHODS)}")
