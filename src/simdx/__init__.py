"""simdx: calibrated, uncertainty-aware text classification with language models as simulators.

>>> from simdx import Classifier
>>> answer = Classifier("oral-lesions").infer("A firm ulcer of the tongue for three months.")
>>> answer.label, answer.decision.action
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "BadInput",
    "Classifier",
    "Prior",
    "RunFailed",
    "SimdxError",
    "SimulationClassifier",
    "__version__",
]

if TYPE_CHECKING:
    from simdx.abc.prior import Prior
    from simdx.answer import Answer
    from simdx.classifier import Classifier
    from simdx.errors import BadInput, RunFailed, SimdxError
    from simdx.estimator import SimulationClassifier

_HOMES = {
    "Answer": "simdx.answer",
    "BadInput": "simdx.errors",
    "Classifier": "simdx.classifier",
    "Prior": "simdx.abc.prior",
    "RunFailed": "simdx.errors",
    "SimdxError": "simdx.errors",
    "SimulationClassifier": "simdx.estimator",
}


def __getattr__(name: str) -> Any:
    """Public names are imported on first use: `simdx --help` must not load numpy."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'simdx' has no attribute '{name}'")
