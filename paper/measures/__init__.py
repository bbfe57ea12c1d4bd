"""The calculations behind the artefacts, by theme: a context in, figures out."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from paper.context import Context


class Measured(NamedTuple):
    """What one artefact measured. `n` counts cases by panel; `notes` say what was left out, and why."""

    data: Mapping[str, Any]
    n: Mapping[str, int]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return plain(self._asdict())


def plain(value: Any) -> Any:
    """JSON-able copy: arrays become lists, numpy scalars Python numbers, NaN and infinity None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def per_panel(measure: Callable[[Context, str], Any]) -> Callable[[Context], Measured]:
    """What is measured on one panel, on every panel of the run."""

    @wraps(measure)
    def measured(context: Context) -> Measured:
        return Measured({panel: measure(context, panel) for panel in context.panels}, context.n)

    return measured
