"""The calculations behind the artefacts, by theme: a context in, figures out."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paper.answers import Spec
from paper.context import Context
from paper.world import REFERENCE


@dataclass(frozen=True, slots=True)
class Measured:
    """What one artefact measured. `n` counts cases by panel; `notes` say what was left out, and why."""

    data: Mapping[str, Any]
    n: Mapping[str, int]
    models: Sequence[str] = ()
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return plain({"n": self.n, "models": self.models, "notes": self.notes, "data": self.data})


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


def models_used(context: Context) -> list[str]:
    """Embedders, banks and asked models of the run, in words."""
    found: dict[str, None] = {}
    for panel in context.panels:
        found[f"embedder {context.cases(panel).source.panel.embedder}"] = None
        found |= dict.fromkeys(f"bank {bank}" for bank in (REFERENCE, *context.banks(panel)))
        found |= dict.fromkeys(f"asked {asked.simulator}" for asked in context.asked(panel))
    return list(found)


def packaged_used(context: Context, panels: Iterable[str] = ()) -> list[str]:
    """The packaged bank and its embedders alone."""
    embedders = (context.embedder_name(Spec(panel, "")) for panel in panels or context.panels)
    return ["reference bank", *dict.fromkeys(embedders)]


def each_panel(
    context: Context, measure: Callable[[Context, str], Any], models: Callable[[Context], Sequence[str]] = models_used
) -> Measured:
    """The same measured on every panel."""
    return Measured({panel: measure(context, panel) for panel in context.panels}, context.n, models(context))
